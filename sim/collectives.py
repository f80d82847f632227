"""Durations of the collectives on an idle network, and the connections that they occupy.

One collective is one task: it holds every connection of the ring through its participants (or of all rings of a
hierarchy) until it ends, so collectives that share a connection follow one another.
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
        reduce_ns_per_byte: to sum what a device receives.
    """

    devices: tuple[int, ...]
    connections: tuple[int, ...]
    latency_ns: int
    bandwidth_gb_per_s: float
    reduce_ns_per_byte: float

    @property
    def size(self) -> int:
        """Participants."""
        return len(self.devices)


def ring_through(topology: DeviceTopology, holders: Iterable[int]) -> Ring:
    """The ring that visits nodes, and devices within a node, in the order of their first appearance.

    No device number enters the order: renumbering equal devices keeps the ring.
    """
    devices = tuple(device for members in _by_node(topology, holders) for device in members)
    return Ring(devices, *_hops(topology, [devices]), topology.reduce_ns_per_byte)


def _by_node(topology: DeviceTopology, holders: Iterable[int]) -> list[tuple[int, ...]]:
    """The distinct devices of each node, both in the order of their first appearance."""
    nodes: dict[int, dict[int, None]] = {}
    for device in holders:
        nodes.setdefault(topology.devices[device].node, {})[device] = None
    return [tuple(members) for members in nodes.values()]


def _hops(topology: DeviceTopology, rings: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], int, float]:
    """Connections, latency of the slowest hop and bandwidth of rings that run at the same time."""
    hops: dict[int, int] = {}
    latency_ns = 0
    for devices in rings:
        for src, dst in zip(devices, devices[1:] + devices[:1], strict=True):
            route = topology.route(src, dst)
            latency_ns = max(latency_ns, sum(topology.connections[c].latency_ns for c in route))
            for connection in route:
                hops[connection] = hops.get(connection, 0) + 1
    bandwidth = min((topology.connections[c].bandwidth_gb_per_s / n for c, n in hops.items()), default=float("inf"))
    return tuple(hops), latency_ns, bandwidth


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Rings within nodes, and rings across nodes between devices of equal rank.

    Attributes:
        nodes: the devices of each node.
        connections: of the rings within all nodes, then the further ones of the rings across.
        inner_latency_ns: of the slowest hop within a node.
        inner_bandwidth_gb_per_s: of the narrowest connection within nodes, divided by the hops that cross it.
        outer_latency_ns: of the slowest hop across nodes.
        outer_bandwidth_gb_per_s: across nodes, divided by the hops of all rings: what a ring has of a shared card.
        reduce_ns_per_byte: to sum what a device receives.
    """

    nodes: tuple[tuple[int, ...], ...]
    connections: tuple[int, ...]
    inner_latency_ns: int
    inner_bandwidth_gb_per_s: float
    outer_latency_ns: int
    outer_bandwidth_gb_per_s: float
    reduce_ns_per_byte: float

    @property
    def size(self) -> int:
        """Participants."""
        return sum(map(len, self.nodes))

    @property
    def width(self) -> int:
        """Devices in the fullest node: so many rings run across."""
        return max(len(node) for node in self.nodes)


def hierarchy_through(topology: DeviceTopology, holders: Iterable[int]) -> Hierarchy:
    """A ring through the holders in each node; ring k across joins each node's k-th, counted round in smaller nodes.

    The order is that of ``ring_through``.
    """
    nodes = _by_node(topology, holders)
    inner = _hops(topology, nodes)
    width = max(len(node) for node in nodes) if len(nodes) > 1 else 0
    outer = _hops(topology, [tuple(node[k % len(node)] for node in nodes) for k in range(width)])
    connections = tuple(dict.fromkeys(inner[0] + outer[0]))
    return Hierarchy(tuple(nodes), connections, *inner[1:], *outer[1:], topology.reduce_ns_per_byte)


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
    idle = steps * (ring.latency_ns + num_bytes / (ring.size * ring.bandwidth_gb_per_s))
    return rounded(idle + _sum_ns(ring, num_bytes))


def tree_all_reduce_ns(ring: Ring, num_bytes: int, rounds: int) -> int:
    """Reduce and broadcast along a binary tree, for short messages: 2 ceil(log2 p) steps of all of it."""
    steps = 2 * (ring.size - 1).bit_length() * rounds
    return rounded(steps * (ring.latency_ns + num_bytes / ring.bandwidth_gb_per_s))


def all_gather_ns(ring: Ring, num_bytes: int, rounds: int) -> int:
    """P - 1 steps of a p-th of the gathered ``num_bytes``."""
    steps = (ring.size - 1) * rounds
    return rounded(steps * (ring.latency_ns + num_bytes / (ring.size * ring.bandwidth_gb_per_s)))


def reduce_scatter_ns(ring: Ring, num_bytes: int) -> int:
    """P - 1 steps of a p-th of the scattered ``num_bytes``."""
    idle = (ring.size - 1) * (ring.latency_ns + num_bytes / (ring.size * ring.bandwidth_gb_per_s))
    return rounded(idle + _sum_ns(ring, num_bytes))


def halving_doubling_ns(ring: Ring, num_bytes: int) -> int:
    """Recursive halving, then doubling, between q = 2 ** floor(log2 p) participants (REFERENCE 2.14).

    The p - q others fold: each hands all its bytes to one of the q first, and gets the sum back at the end. All steps
    are priced on the ring's slowest hop and narrowest connection.
    """
    rounds = ring.size.bit_length() - 1
    power = 1 << rounds
    folds = 2 if ring.size > power else 0
    idle = 2 * rounds * ring.latency_ns + 2 * (power - 1) * (num_bytes / (power * ring.bandwidth_gb_per_s))
    idle += folds * (ring.latency_ns + num_bytes / ring.bandwidth_gb_per_s)
    return rounded(idle + _sum_ns(ring, num_bytes))


def _inner_ns(hierarchy: Hierarchy, num_bytes: int) -> float:
    """Reduce-scatter before, and all-gather after the exchange across nodes: 2 (g - 1) steps of a g-th."""
    width = hierarchy.width
    step = hierarchy.inner_latency_ns + num_bytes / (width * hierarchy.inner_bandwidth_gb_per_s)
    return 2 * (width - 1) * step


def hierarchical_ns(hierarchy: Hierarchy, num_bytes: int) -> int:
    """Reduce-scatter in the nodes, g ring all-reduces of a g-th across q nodes, all-gather in the nodes."""
    width, num_nodes = hierarchy.width, len(hierarchy.nodes)
    step = hierarchy.outer_latency_ns + num_bytes / (width * num_nodes * hierarchy.outer_bandwidth_gb_per_s)
    idle = _inner_ns(hierarchy, num_bytes) + 2 * (num_nodes - 1) * step
    return rounded(idle + _sum_ns(hierarchy, num_bytes))


def byteps_ns(hierarchy: Hierarchy, num_bytes: int) -> int:
    """Hierarchical, but nodes push to spare CPU machines and pull from them, at the same time.

    With as many CPU machines as nodes, k = n, BytePS's 2 n (n - 1) / (n ** 2 + k n - 2 k) M / B is M / B.
    """
    outer = 2 * hierarchy.outer_latency_ns + num_bytes / (hierarchy.width * hierarchy.outer_bandwidth_gb_per_s)
    return rounded(_inner_ns(hierarchy, num_bytes) + outer + _sum_ns(hierarchy, num_bytes))


def _sum_ns(participants: Ring | Hierarchy, num_bytes: int) -> float:
    """Every device sums p - 1 of the p-ths that it receives, whatever the order."""
    size = participants.size
    return (size - 1) * (num_bytes / size * participants.reduce_ns_per_byte)
