"""Routes: the cheapest path between any two devices, along the connections that a transfer then occupies."""

import heapq
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MESSAGE_BYTES = 1 << 20
"""The message whose time decides which route is cheapest."""

LEAVING_NS = 10**12
"""Added to a connection that leaves a node: longer than any route inside one, so that these stay inside.

Without it two GPUs of a DGX-1 that share no NVLink would talk through their network cards, which are
faster than the bus between the sockets.
"""


@dataclass(frozen=True, slots=True)
class Connection:
    """What carries one transfer at a time, in one direction."""

    name: str
    latency_ns: int
    bandwidth_gb_per_s: float

    def transfer_ns(self, num_bytes: int) -> int:
        """Time of one message over this connection alone."""
        return self.latency_ns + round(num_bytes / self.bandwidth_gb_per_s)


class RouteArrays(NamedTuple):
    """The routes of all ordered pairs of D devices in CSR form, for kernels; pair (src, dst) is src * D + dst.

    Attributes:
        ptr: int64 (D * D + 1,); the route of a pair is ``connections[ptr[pair] : ptr[pair + 1]]``.
        connections: int32; positions in ``DeviceTopology.connections``, from source to destination.
        latency_ns: int64 (D * D,), summed over the route; 0 from a device to itself.
        bandwidth: float64 (D * D,), GB/s, the narrowest of the route; inf from a device to itself.
    """

    ptr: npt.NDArray[np.int64]
    connections: npt.NDArray[np.int32]
    latency_ns: npt.NDArray[np.int64]
    bandwidth: npt.NDArray[np.float64]


def cheapest_arrivals(
    connections: Sequence[Connection], ends: npt.NDArray[np.int32], nodes: Sequence[int | None], num_devices: int
) -> npt.NDArray[np.int32]:
    """By which connection the cheapest path from each device arrives at each vertex: one Dijkstra per device.

    Args:
        connections: sorted by tail and head.
        ends: (len(connections), 2); tail and head of each. Vertices from ``num_devices`` on are switches.
        nodes: the node of each vertex.
        num_devices: sources of the searches.

    Returns:
        int32 (num_devices, len(nodes)); -1 at the source and where no path leads.
    """
    leaving: list[list[tuple[int, int, int]]] = [[] for _ in nodes]
    for edge, (connection, (tail, head)) in enumerate(zip(connections, ends.tolist(), strict=True)):
        is_leaving = nodes[tail] is not None and nodes[tail] != nodes[head]
        leaving[tail].append((head, edge, connection.transfer_ns(MESSAGE_BYTES) + LEAVING_NS * is_leaving))

    arrivals = np.empty((num_devices, len(nodes)), np.int32)
    for source in range(num_devices):
        # Whole nanoseconds and hops before edges: the order is total, whatever the order of summation.
        best = [(sys.maxsize, 0, -1)] * len(nodes)
        best[source] = (0, 0, -1)
        heap = [(0, 0, source)]
        while heap:
            time, num_hops, vertex = heapq.heappop(heap)
            if (time, num_hops) > best[vertex][:2]:
                continue
            for head, edge, hop_ns in leaving[vertex]:
                candidate = (time + hop_ns, num_hops + 1, edge)
                if candidate < best[head]:
                    best[head] = candidate
                    if head >= num_devices:
                        heapq.heappush(heap, (time + hop_ns, num_hops + 1, head))
        arrivals[source] = [edge for _, _, edge in best]
    return arrivals


def walked_routes(arrivals: npt.NDArray[np.int32], tails: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Walks back from all destinations at once.

    Args:
        arrivals: (D, vertices), as ``cheapest_arrivals`` has them.
        tails: of the connections.

    Returns:
        int32 (D * D, longest route), the connections of each pair, padded with -1 in front.
    """
    num_devices = len(arrivals)
    vertex = np.tile(np.arange(num_devices, dtype=np.int32), (num_devices, 1))
    steps = []
    while True:
        edge = np.take_along_axis(arrivals, vertex, axis=1)
        steps.append(edge.ravel())
        if (edge < 0).all():
            return np.stack(steps[::-1], axis=1)
        vertex = np.where(edge >= 0, tails[edge], vertex)


def packed_routes(hops: npt.NDArray[np.int64], connections: Sequence[Connection]) -> RouteArrays:
    """Packs padded routes; the padding, -1, reads the neutral value behind the last connection."""
    latency_ns = np.array([*(link.latency_ns for link in connections), 0], np.int64)
    bandwidth = np.array([*(link.bandwidth_gb_per_s for link in connections), np.inf])
    return RouteArrays(
        ptr=np.concatenate(([0], np.cumsum((hops >= 0).sum(axis=1)))),
        connections=hops[hops >= 0].astype(np.int32),
        latency_ns=latency_ns[hops].sum(axis=1),
        bandwidth=bandwidth[hops].min(axis=1),
    )
