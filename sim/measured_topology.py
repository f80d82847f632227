"""measured_topology: the content of a topology file whose connections have measured latencies and bandwidths."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Link:
    """What was measured between two devices.

    Attributes:
        devices: positions of the two.
        latency_ns: of a message without content.
        ns_per_byte: beyond that.
        is_shared: messages in both directions take turns.
    """

    devices: tuple[int, int]
    latency_ns: float
    ns_per_byte: float
    is_shared: bool


def measured_topology(
    *,
    name: str,
    num_devices: int,
    device_kind: str,
    memory_gb: float,
    links: Sequence[Link],
    transfers_occupy_devices: bool,
    reduce_ns_per_byte: float,
) -> dict[str, Any]:
    """Keywords of ``sim.topologies.explicit``, with its ``_target_``.

    A shared link is one connection between two switches, through which the messages of both directions pass; else each
    direction has a connection of its own.

    Args:
        name: of the topology.
        num_devices: called rank0, rank1, ..., all in one node.
        device_kind: of all of them.
        memory_gb: of each.
        links: one for each pair.
        transfers_occupy_devices: whether messages occupy the devices at their ends.
        reduce_ns_per_byte: what collectives take beyond their messages for each byte that a device sums.
    """
    devices = [f"rank{number}" for number in range(num_devices)]
    switches: list[Mapping[str, Any]] = []
    connections: list[Mapping[str, Any]] = []

    def connect(src: str, dst: str, latency_us: float, bandwidth_gb_per_s: float) -> None:
        ends = {"src": src, "dst": dst}
        connections.append(ends | {"bandwidth_gb_per_s": bandwidth_gb_per_s, "latency_us": latency_us})

    for link in links:
        first, second = (devices[number] for number in link.devices)
        latency_us, bandwidth = round(link.latency_ns / NS_PER_US, 3), float(f"{1 / link.ns_per_byte:.4g}")
        if not link.is_shared:
            connect(first, second, latency_us, bandwidth)
            connect(second, first, latency_us, bandwidth)
            continue
        before, behind = f"{first}-{second}_in", f"{first}-{second}_out"
        switches += [{"name": before, "node": 0}, {"name": behind, "node": 0}]
        connect(before, behind, latency_us, bandwidth)
        for device in (first, second):
            connect(device, before, 0.0, bandwidth)
            connect(behind, device, 0.0, bandwidth)
    return {
        "_target_": "sim.topologies.explicit",
        "name": name,
        "devices": [{"name": device, "kind": device_kind, "node": 0, "memory_gb": memory_gb} for device in devices],
        "switches": switches,
        "connections": connections,
        "num_devices": None,
        "reading": "routed",
        "transfers_occupy_devices": transfers_occupy_devices,
        "reduce_ns_per_byte": float(f"{reduce_ns_per_byte:.4g}"),
    }
