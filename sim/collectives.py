"""Durations of the collectives on an idle network, and the connections that they occupy.

One collective is one task: it holds every connection of the ring through its participants until it ends,
so collectives that share a connection follow one another.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sim.topology import DeviceTopology


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring through some devices.

    Attributes:
        devices: in ring order.
        connections: of all its hops, in order of first use.
        latency_ns: of the slowest hop.
        bandwidth_gb_per_s: of the narrowest connection, divided by the hops that cross it.
    """

    devices: tuple[int, ...]
    connections: tuple[int, ...]
    latency_ns: int
    bandwidth_gb_per_s: float

    @property
    def size(self) -> int:
        """Participants."""
        return len(self.devices)


def ring_through(topology: DeviceTopology, holders: Iterable[int]) -> Ring:
    """The ring that visits nodes, and devices within a node, in the order of their first appearance.

    No device number enters the order: renumbering equal devices keeps the ring.
    """
    nodes: dict[int, dict[int, None]] = {}
    for device in holders:
        nodes.setdefault(topology.devices[device].node, {})[device] = None
    devices = tuple(device for members in nodes.values() for device in members)
    hops: dict[int, int] = {}
    latency_ns = 0
    for src, dst in zip(devices, devices[1:] + devices[:1], strict=True):
        route = topology.route(src, dst)
        latency_ns = max(latency_ns, sum(topology.connections[c].latency_ns for c in route))
        for connection in route:
            hops[connection] = hops.get(connection, 0) + 1
    bandwidth = min((topology.connections[c].bandwidth_gb_per_s / n for c, n in hops.items()), default=float("inf"))
    return Ring(devices, tuple(hops), latency_ns, bandwidth)


def rounded(nanoseconds: float) -> int:
    """The one rounding of a duration."""
    return int(nanoseconds + 0.5)


def transfer_ns(topology: DeviceTopology, src: int, dst: int, num_bytes: int) -> int:
    """Time of one message on an idle network: latency + bytes / narrowest bandwidth (assumption A2)."""
    route: Sequence[int] = topology.route(src, dst)
    latency = sum(topology.connections[c].latency_ns for c in route)
    bandwidth = min((topology.connections[c].bandwidth_gb_per_s for c in route), default=float("inf"))
    return rounded(latency + num_bytes / bandwidth)


def ring_all_reduce_ns(ring: Ring, num_bytes: int) -> int:
    """2 (p - 1) steps of a p-th of the message (REFERENCE 2.14)."""
    steps = 2 * (ring.size - 1)
    return rounded(steps * (ring.latency_ns + num_bytes / (ring.size * ring.bandwidth_gb_per_s)))


def tree_all_reduce_ns(ring: Ring, num_bytes: int, rounds: int) -> int:
    """Reduce and broadcast along a binary tree, for short messages: 2 ceil(log2 p) steps of all of it."""
    steps = 2 * (ring.size - 1).bit_length() * rounds
    return rounded(steps * (ring.latency_ns + num_bytes / ring.bandwidth_gb_per_s))


def all_gather_ns(ring: Ring, num_bytes: int, rounds: int) -> int:
    """P - 1 steps of a p-th of the gathered ``num_bytes``."""
    steps = (ring.size - 1) * rounds
    return rounded(steps * (ring.latency_ns + num_bytes / (ring.size * ring.bandwidth_gb_per_s)))
