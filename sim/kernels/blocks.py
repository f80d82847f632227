"""Blocks of tasks: where they live, what completes a part, and rings through devices."""

import numpy as np

from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    BASE,
    BYTES,
    DONE,
    EXE,
    KEY,
    NEED_ARENA,
    NEED_TASKS,
    NODE,
    OWNER,
    RES,
    RES_LEN,
    RING_LATENCY,
    RING_SIZE,
    SEG,
    SEG_CLASS,
    SEG_TOP,
    STAMP,
    TASK_CLASS,
    TASK_TOP,
    TASKS,
)


@kernel
def copy_to(target, source):
    """Copy a one-dimensional array; numba's assignment of slices would need its allocator."""
    for k in range(source.shape[0]):
        target[k] = source[k]


@kernel
def pack(phase, a, b, c):
    """A task key as one integer that sorts like the tuple: 20, 13, 15 and 15 bits."""
    return (phase << 43) | (a << 30) | (b << 15) | c


@kernel
def size_class(length):
    """Smallest c with 2 ** c >= length."""
    c = 0
    while (1 << c) < length:
        c += 1
    return c


@kernel
def claim_block(st, b, num_tasks, segment, length):
    """Give block ``b`` task slots and a home for the segment written at ``segment`` (the arena's top).

    Modified in place: ``st.block``, the free lists and tops, OWNER of the slots. Nothing changes unless the
    block fits.
    """
    num = st.num
    s_class, t_class = size_class(length), size_class(num_tasks)
    reuse_seg = st.seg_free[s_class] >= 0
    if not reuse_seg and num[SEG_TOP] + (1 << s_class) > st.arena.shape[0]:
        return NEED_ARENA
    reuse_tasks = st.task_free[t_class] >= 0
    if not reuse_tasks and num[TASK_TOP] + (1 << t_class) > st.task.shape[0]:
        return NEED_TASKS
    if reuse_seg:
        home = st.seg_free[s_class]
        st.seg_free[s_class] = st.arena[home]
        for k in range(length):
            st.arena[home + k] = st.arena[segment + k]
    else:
        home = num[SEG_TOP]
        num[SEG_TOP] += 1 << s_class
    if reuse_tasks:
        base = st.task_free[t_class]
        st.task_free[t_class] = st.task[base, EXE]
    else:
        base = num[TASK_TOP]
        num[TASK_TOP] += 1 << t_class
    st.block[b, BASE], st.block[b, TASKS], st.block[b, TASK_CLASS] = base, num_tasks, t_class
    st.block[b, SEG], st.block[b, SEG_CLASS] = home, s_class
    task = st.task
    for t in range(base, base + num_tasks):
        task[t, OWNER] = b
    return DONE


@kernel
def release_block(st, row):
    """Put the slots and the segment of a block's ``row`` on the free lists (linked through their first entry)."""
    st.arena[row[SEG]] = st.seg_free[row[SEG_CLASS]]
    st.seg_free[row[SEG_CLASS]] = row[SEG]
    st.task[row[BASE], EXE] = st.task_free[row[TASK_CLASS]]
    st.task_free[row[TASK_CLASS]] = row[BASE]


@kernel
def set_task(task, t, exe, key, first, length, num_bytes):
    """Fill task slot t. Modified in place: ``st.task``."""
    task[t, EXE], task[t, KEY] = exe, key
    task[t, RES], task[t, RES_LEN], task[t, BYTES] = first, length, num_bytes


@kernel
def rounded(nanoseconds):
    """The one rounding of a duration (``sim.collectives.rounded``)."""
    return np.int64(nanoseconds + 0.5)


@kernel
def transfer_ns(route_ns, route_bandwidth, num_devices, src, dst, num_bytes):
    """Time of one message on an idle network (``sim.collectives.transfer_ns``)."""
    pair = src * num_devices + dst
    return rounded(route_ns[pair] + num_bytes / route_bandwidth[pair])


@kernel
def order_by_node(device_table, holders, count, scratch, work, stamp, mark):
    """Write the distinct devices of ``holders[:count]`` to ``scratch`` from ``work``, node by node.

    Nodes, and devices within a node, are in the order of their first appearance.
    Modified in place: ``scratch`` from ``work`` (2 * count entries), ``stamp``.

    Returns:
        How many devices.
    """
    nodes, size, placed = work + count, 0, 0
    for h in range(count):
        device = holders[h]
        if stamp[device] != mark:
            stamp[device] = mark
            scratch[nodes + size] = device
            size += 1
    for h in range(size):
        device = scratch[nodes + h]
        if device < 0:
            continue
        node = device_table[device, NODE]
        for k in range(h, size):
            other = scratch[nodes + k]
            if other >= 0 and device_table[other, NODE] == node:
                scratch[work + placed] = other
                scratch[nodes + k] = -1
                placed += 1
    return size


@kernel
def ring_through(tb, st, holders, count, work, position):
    """Write the resources of the ring through ``holders[:count]`` to the arena (``sim.collectives.ring_through``).

    Modified in place: the arena from ``position``, ``st.num`` (ring size and latency), ``st.real`` (bandwidth),
    ``st.scratch`` from ``work``, marks.

    Returns:
        The arena's position behind the list, or -1 (arena) or -2 (scratch) if there was no room.
    """
    device_table, bandwidth, num = tb.device, tb.bandwidth, st.num
    route, route_ptr, route_ns = tb.route, tb.route_ptr, tb.route_ns
    scratch, stamp, slot, arena, real = st.scratch, st.stamp, st.slot, st.arena, st.real
    num_devices = device_table.shape[0]
    ring = work
    if work + 2 * count > scratch.shape[0]:
        return -2
    num[STAMP] += 1
    size = order_by_node(device_table, holders, count, scratch, work, stamp, num[STAMP])
    num[RING_SIZE], num[RING_LATENCY] = size, 0
    real[0] = np.inf
    if size == 1:
        return position
    num[STAMP] += 1
    mark, end = num[STAMP], position
    for h in range(size):
        following = scratch[ring + h + 1] if h + 1 < size else scratch[ring]
        pair = scratch[ring + h] * num_devices + following
        num[RING_LATENCY] = max(num[RING_LATENCY], route_ns[pair])
        if end + route_ptr[pair + 1] - route_ptr[pair] > arena.shape[0]:
            return -1
        for r in range(route_ptr[pair], route_ptr[pair + 1]):
            resource = route[r]
            if stamp[resource] != mark:
                stamp[resource] = mark
                arena[end] = resource
                end += 1
                if resource >= num_devices:
                    slot[resource] = 0
            if resource >= num_devices:
                slot[resource] += 1
    for r in range(position, end):
        resource = arena[r]
        if resource >= num_devices:
            real[0] = min(real[0], bandwidth[resource - num_devices] / slot[resource])
    return end
