"""Placements: the devices of many configs of equal degrees at once, and what a topology alone says of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.collectives import ring_through
from sim.topology import DeviceTopology

Numbers: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Placement:
    """C configs of equal degrees.

    Attributes:
        degrees: parts along each dimension.
        devices: (C, P) of the parts.
        places: (C, 3) share of the topology's nodes that the config spans, lowest position, and extent from lowest to
            highest position, both relative to the number of devices.
        rings: by the dimensions along which a group's parts agree, as in ``Placements.ring_loads``.
    """

    degrees: tuple[int, ...]
    devices: NDArray[np.int64]
    places: Numbers
    rings: dict[tuple[int, ...], tuple[Numbers, Numbers]]


class Placements:
    """Placements on one topology, each made once.

    Operators of different sizes have configs of equal degrees, so most of what they need is known already.

    Args:
        topology: whose devices they are.
    """

    def __init__(self, topology: DeviceTopology) -> None:
        self._topology = topology
        self._known: dict[tuple[int, ...], Placement] = {}
        self._rings: dict[tuple[tuple[int, ...], ...], tuple[float, float]] = {}

    def of_space(self, degrees: tuple[int, ...], devices: NDArray[np.int64]) -> Placement:
        """All configs of a space with these degrees; every call for the same degrees must mean the same devices."""
        if degrees not in self._known:
            self._known[degrees] = self.of(degrees, devices)
        return self._known[degrees]

    def of(self, degrees: tuple[int, ...], devices: NDArray[np.int64]) -> Placement:
        """Any configs, (C, P), of these degrees."""
        nodes, count, num_devices = self._topology.node_numbers, len(devices), self._topology.num_devices
        has_node = np.zeros((count, nodes.max() + 1), dtype=bool)
        has_node[np.arange(count)[:, None], nodes[devices]] = True
        low, high = devices.min(axis=1), devices.max(axis=1)
        places = [has_node.sum(axis=1) / has_node.shape[1], low / num_devices, (high - low + 1) / num_devices]
        return Placement(degrees, devices, np.stack(places, axis=1), {})

    def ring_loads(self, placement: Placement, kept: tuple[int, ...]) -> tuple[Numbers, Numbers]:
        """Latency and ns per byte, (C,) each, of rings through the groups of parts that agree along ``kept``."""
        if kept not in placement.rings:
            loads = [self._ring_load(groups) for groups in _groups(placement, kept)]
            latency, ns_per_byte = np.array(loads, dtype=np.float64).T
            placement.rings[kept] = latency, ns_per_byte
        return placement.rings[kept]

    def _ring_load(self, groups: tuple[tuple[int, ...], ...]) -> tuple[float, float]:
        """Latency and ns per byte of one hop of rings through the groups, on the connection that most of them share."""
        if groups not in self._rings:
            latency: dict[int, float] = {}
            ns_per_byte: dict[int, float] = {}
            for group in groups:
                ring = ring_through(self._topology, group)
                for connection in ring.connections:
                    latency[connection] = latency.get(connection, 0.0) + ring.latency_ns
                    ns_per_byte[connection] = ns_per_byte.get(connection, 0.0) + 1 / ring.bandwidth_gb_per_s
            self._rings[groups] = (max(latency.values(), default=0.0), max(ns_per_byte.values(), default=0.0))
        return self._rings[groups]


def _groups(placement: Placement, kept: Sequence[int]) -> list[tuple[tuple[int, ...], ...]]:
    """For each config, the devices of the parts that agree along the ``kept`` dimensions."""
    degrees, devices = placement.degrees, placement.devices
    others = [dim for dim in range(len(degrees)) if dim not in kept]
    axes = [0, *(1 + dim for dim in (*kept, *others))]
    num_groups = math.prod(degrees[dim] for dim in kept)
    grouped = devices.reshape(-1, *degrees).transpose(axes).reshape(len(devices), num_groups, -1)
    return [tuple(map(tuple, groups)) for groups in grouped.tolist()]
