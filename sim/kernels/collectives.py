"""What one task does with a whole weight shard: its connections and its duration (``sim.collectives``)."""

import numpy as np

from sim.kernels.blocks import order_by_node, ring_through, rounded
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    BYTEPS,
    HALVING_DOUBLING,
    HIERARCHICAL,
    NODE,
    NUM_NODES,
    OUTER_LATENCY,
    RING_LATENCY,
    RING_SIZE,
    STAMP,
    WIDTH,
)


@kernel
def connect(tb, st, scheme, holders, count, work, position):
    """Write the resources that a shard's collective holds to the arena (see ``ring_through``)."""
    if scheme in (HIERARCHICAL, BYTEPS):
        return hierarchy_through(tb, st, holders, count, work, position)
    return ring_through(tb, st, holders, count, work, position)


@kernel
def add_hop(tb, arena, stamp, slot, pair, mark, before, end):
    """Count the crossings of a route's connections, and list all it occupies that carries neither mark.

    Modified in place: the arena from ``end``, marks and counts.

    Returns:
        The arena's position behind the list, or -1 if there was no room.
    """
    route, route_ptr, num_devices = tb.route, tb.route_ptr, tb.device.shape[0]
    if end + route_ptr[pair + 1] - route_ptr[pair] > arena.shape[0]:
        return -1
    for r in range(route_ptr[pair], route_ptr[pair + 1]):
        resource = route[r]
        if stamp[resource] != mark:
            if stamp[resource] != before:
                arena[end] = resource
                end += 1
            stamp[resource] = mark
            if resource >= num_devices:
                slot[resource] = 0
        if resource >= num_devices:
            slot[resource] += 1
    return end


@kernel
def hierarchy_through(tb, st, holders, count, work, position):
    """Write the resources of a hierarchy to the arena (``sim.collectives.hierarchy_through``).

    Modified in place and returned: as ``ring_through``; ``st.real`` and ``st.num`` also have the outer rings.
    """
    device_table, route_ns, bandwidth, num = tb.device, tb.route_ns, tb.bandwidth, st.num
    scratch, stamp, slot, arena, real = st.scratch, st.stamp, st.slot, st.arena, st.real
    num_devices, starts = device_table.shape[0], work + count
    if work + 2 * count + 1 > scratch.shape[0]:
        return -2
    num[STAMP] += 1
    size = order_by_node(device_table, holders, count, scratch, work, stamp, num[STAMP])
    num_nodes, width = 0, 0
    for h in range(size):
        if h == 0 or device_table[scratch[work + h], NODE] != device_table[scratch[work + h - 1], NODE]:
            scratch[starts + num_nodes] = h
            num_nodes += 1
    scratch[starts + num_nodes] = size
    num[STAMP] += 2
    inner, outer, end = num[STAMP] - 1, num[STAMP], position
    inner_latency, outer_latency = 0, 0
    real[0], real[1] = np.inf, np.inf
    for j in range(num_nodes):
        first, last = scratch[starts + j], scratch[starts + j + 1]
        width = max(width, last - first)
        for h in range(first, last):
            following = scratch[work + (h + 1 if h + 1 < last else first)]
            pair = scratch[work + h] * num_devices + following
            inner_latency = max(inner_latency, route_ns[pair])
            if following != scratch[work + h]:
                end = add_hop(tb, arena, stamp, slot, pair, inner, inner, end)
            if end < 0:
                return -1
    for r in range(position, end):
        if arena[r] >= num_devices:
            real[0] = min(real[0], bandwidth[arena[r] - num_devices] / slot[arena[r]])
    for k in range(width if num_nodes > 1 else 0):
        for j in range(num_nodes):
            first, last = scratch[starts + j], scratch[starts + j + 1]
            behind = j + 1 if j + 1 < num_nodes else 0
            then, stop = scratch[starts + behind], scratch[starts + behind + 1]
            pair = scratch[work + first + k % (last - first)] * num_devices
            pair += scratch[work + then + k % (stop - then)]
            outer_latency = max(outer_latency, route_ns[pair])
            end = add_hop(tb, arena, stamp, slot, pair, outer, inner, end)
            if end < 0:
                return -1
    for r in range(position, end):
        if arena[r] >= num_devices and stamp[arena[r]] == outer:
            real[1] = min(real[1], bandwidth[arena[r] - num_devices] / slot[arena[r]])
    num[RING_SIZE], num[NUM_NODES], num[WIDTH] = size, num_nodes, width
    num[RING_LATENCY], num[OUTER_LATENCY] = inner_latency, outer_latency
    return end


@kernel
def collective_ns(tb, num, real, scheme, num_bytes):
    """Duration on the ring or hierarchy made last (``sim.collectives``)."""
    size, latency = num[RING_SIZE], num[RING_LATENCY]
    summing = (size - 1) * (num_bytes / size * tb.reduce_ns_per_byte)
    if scheme == HALVING_DOUBLING:
        rounds = 0
        while 2 << rounds <= size:
            rounds += 1
        power = 1 << rounds
        folds = 2 if size > power else 0
        idle = 2 * rounds * latency + 2 * (power - 1) * (num_bytes / (power * real[0]))
        return rounded(idle + folds * (latency + num_bytes / real[0]) + summing)
    if scheme in (HIERARCHICAL, BYTEPS):
        width, num_nodes, outer_latency = num[WIDTH], num[NUM_NODES], num[OUTER_LATENCY]
        inner = 2 * (width - 1) * (latency + num_bytes / (width * real[0]))
        if scheme == BYTEPS:
            return rounded(inner + (2 * outer_latency + num_bytes / (width * real[1])) + summing)
        outer = 2 * (num_nodes - 1) * (outer_latency + num_bytes / (width * num_nodes * real[1]))
        return rounded(inner + outer + summing)
    return rounded(2 * (size - 1) * (latency + num_bytes / (size * real[0])) + summing)


@kernel
def scatter_ns(tb, num, real, num_bytes):
    """Duration of a reduce-scatter on the ring made last (``sim.collectives.reduce_scatter_ns``)."""
    size = num[RING_SIZE]
    summing = (size - 1) * (num_bytes / size * tb.reduce_ns_per_byte)
    return rounded((size - 1) * (num[RING_LATENCY] + num_bytes / (size * real[0])) + summing)


@kernel
def gather_ns(num, real, num_bytes, rounds):
    """Duration of all-gathers on the ring made last (``sim.collectives.all_gather_ns``)."""
    size = num[RING_SIZE]
    return rounded((size - 1) * rounds * (num[RING_LATENCY] + num_bytes / (size * real[0])))


@kernel
def collective_bytes(num, scheme, size, num_bytes):
    """Bytes that the collective made last sends, summed over ``size`` participants."""
    rounds = 2 * (size - 1)
    if scheme == BYTEPS and num[NUM_NODES] > 1:
        rounds += 2
    return rounds * num_bytes
