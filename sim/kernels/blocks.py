"""Blocks of tasks: where they live, what completes a part, and rings through devices."""

import numpy as np
from numba import njit

from sim.kernels.layout import (
    BASE,
    DONE,
    NEED_ARENA,
    NEED_TASKS,
    NODE,
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


@njit(cache=True, inline="always")
def pack(phase, a, b, c):
    """A task key as one integer that sorts like the tuple: 20, 13, 15 and 15 bits."""
    return (phase << 43) | (a << 30) | (b << 15) | c


@njit(cache=True)
def size_class(length):
    """Smallest c with 2 ** c >= length."""
    c = 0
    while (1 << c) < length:
        c += 1
    return c


@njit(cache=True)
def claim_block(st, b, num_tasks, segment, length):
    """Give block ``b`` task slots and a home for the segment written at ``segment`` (the arena's top).

    Modified in place: ``st.block``, the free lists and tops, ``st.owner`` of the slots. Nothing changes unless the
    block fits.
    """
    num = st.num
    s_class, t_class = size_class(length), size_class(num_tasks)
    reuse_seg = st.seg_free[s_class] >= 0
    if not reuse_seg and num[SEG_TOP] + (1 << s_class) > st.arena.shape[0]:
        return NEED_ARENA
    reuse_tasks = st.task_free[t_class] >= 0
    if not reuse_tasks and num[TASK_TOP] + (1 << t_class) > st.exe.shape[0]:
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
        st.task_free[t_class] = st.exe[base]
    else:
        base = num[TASK_TOP]
        num[TASK_TOP] += 1 << t_class
    st.block[b, BASE], st.block[b, TASKS], st.block[b, TASK_CLASS] = base, num_tasks, t_class
    st.block[b, SEG], st.block[b, SEG_CLASS] = home, s_class
    for t in range(base, base + num_tasks):
        st.owner[t] = b
    return DONE


@njit(cache=True)
def release_block(st, row):
    """Put the slots and the segment of a block's ``row`` on the free lists (linked through their first entry)."""
    st.arena[row[SEG]] = st.seg_free[row[SEG_CLASS]]
    st.seg_free[row[SEG_CLASS]] = row[SEG]
    st.exe[row[BASE]] = st.task_free[row[TASK_CLASS]]
    st.task_free[row[TASK_CLASS]] = row[BASE]


@njit(cache=True, inline="always")
def set_task(st, t, exe, key, res, res_len, num_bytes):
    """Fill a task slot."""
    st.exe[t], st.key[t] = exe, key
    st.res[t], st.res_len[t] = res, res_len
    st.num_bytes[t] = num_bytes


@njit(cache=True, inline="always")
def rounded(nanoseconds):
    """The one rounding of a duration (``sim.collectives.rounded``)."""
    return np.int64(nanoseconds + 0.5)


@njit(cache=True, inline="always")
def transfer_ns(tb, src, dst, num_bytes):
    """Time of one message on an idle network (``sim.collectives.transfer_ns``)."""
    pair = src * tb.device.shape[0] + dst
    return rounded(tb.route_ns[pair] + num_bytes / tb.route_bandwidth[pair])


@njit(cache=True)
def ring_through(tb, st, holders, count, work, position):
    """Write the resources of the ring through ``holders[:count]`` to the arena (``sim.collectives.ring_through``).

    Modified in place: the arena from ``position``, ``st.num`` (ring size and latency), ``st.real`` (bandwidth),
    ``st.scratch`` from ``work``, marks.

    Returns:
        The arena's position behind the list, or -1 (arena) or -2 (scratch) if there was no room.
    """
    num_devices, num = tb.device.shape[0], st.num
    ring, nodes = work, work + count
    if work + 2 * count > st.scratch.shape[0]:
        return -2
    # Distinct devices in order of appearance, then stably by first appearance of their nodes.
    num[STAMP] += 1
    mark, size = num[STAMP], 0
    for h in range(count):
        device = holders[h]
        if st.stamp[device] != mark:
            st.stamp[device] = mark
            st.scratch[nodes + size] = device
            size += 1
    placed = 0
    for h in range(size):
        device = st.scratch[nodes + h]
        if device < 0:
            continue
        node = tb.device[device, NODE]
        for k in range(h, size):
            other = st.scratch[nodes + k]
            if other >= 0 and tb.device[other, NODE] == node:
                st.scratch[ring + placed] = other
                st.scratch[nodes + k] = -1
                placed += 1
    num[RING_SIZE], num[RING_LATENCY] = size, 0
    st.real[0] = np.inf
    if size == 1:
        return position
    num[STAMP] += 1
    mark, end = num[STAMP], position
    for h in range(size):
        following = st.scratch[ring + h + 1] if h + 1 < size else st.scratch[ring]
        pair = st.scratch[ring + h] * num_devices + following
        num[RING_LATENCY] = max(num[RING_LATENCY], tb.route_ns[pair])
        if end + tb.route_ptr[pair + 1] - tb.route_ptr[pair] > st.arena.shape[0]:
            return -1
        for r in range(tb.route_ptr[pair], tb.route_ptr[pair + 1]):
            resource = tb.route[r]
            if st.stamp[resource] != mark:
                st.stamp[resource] = mark
                st.slot[resource] = 0
                st.arena[end] = resource
                end += 1
            st.slot[resource] += 1
    for r in range(position, end):
        resource = st.arena[r]
        st.real[0] = min(st.real[0], tb.bandwidth[resource - num_devices] / st.slot[resource])
    return end
