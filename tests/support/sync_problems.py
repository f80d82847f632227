"""Problems whose cost is that of synchronisation alone, for its closed forms."""

from sim import topologies
from sim.costs.table import TableCost
from sim.graph_builder import GraphBuilder
from sim.operator_graph import BYTES_PER_ELEMENT
from sim.problem import Problem
from sim.sync import Sync
from sim.topology import DeviceTopology

LATENCY_NS, BANDWIDTH = 500, 4.0
FEATURES, UNITS = 999, 1000
WEIGHT_BYTES = BYTES_PER_ELEMENT * (FEATURES + 1) * UNITS


def pairs(num_devices: int, *, reduce_ns_per_byte: float = 0.0) -> DeviceTopology:
    """A connection for each ordered pair of devices."""
    names = [f"d{d}" for d in range(num_devices)]
    joins = [(a, b) for a in names for b in names if a != b]
    return topology_of(num_devices, [], joins, reduce_ns_per_byte=reduce_ns_per_byte)


def star(num_devices: int) -> DeviceTopology:
    """One switch with a port into each device and a port out of it."""
    ends = [(f"d{d}", "switch") for d in range(num_devices)]
    return topology_of(num_devices, [{"name": "switch", "node": 0}], [*ends, *((b, a) for a, b in ends)])


def topology_of(
    num_devices: int,
    switches: list[dict[str, object]],
    joins: list[tuple[str, str]],
    *,
    reduce_ns_per_byte: float = 0.0,
) -> DeviceTopology:
    link = {"latency_us": LATENCY_NS / 1000, "bandwidth_gb_per_s": BANDWIDTH}
    return topologies.explicit(
        name="closed",
        devices=[{"name": f"d{d}", "kind": "p100", "node": 0, "memory_gb": 1} for d in range(num_devices)],
        switches=switches,
        connections=[{"src": src, "dst": dst, **link} for src, dst in joins],
        reduce_ns_per_byte=reduce_ns_per_byte,
    )


def sync_problem(topology: DeviceTopology, sync: Sync, *, num_layers: int = 1) -> Problem:
    """Linear layers of 4,000,000 bytes side by side whose tasks take no time: the cost is that of synchronisation."""
    builder = GraphBuilder("side by side")
    for layer in range(num_layers):
        builder.linear(f"layer{layer}", (12, FEATURES), UNITS)
    graph = builder.build()
    degrees: tuple[int, ...] = (topology.num_devices, 1)
    times = {f"layer{layer}": {degrees: (0, 0)} for layer in range(num_layers)}
    return Problem(graph, topology, cost=TableCost(times=times), sync=sync)
