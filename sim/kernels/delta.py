"""Delta simulation: propose one operator's new config, then accept or reject it (FlexFlow, section 5.3)."""

import numpy as np
from numba import njit

from sim.kernels.blocks import pack, release_block
from sim.kernels.edges import E_COUNT, E_SRC_LIST, build_edge
from sim.kernels.groups import G_HELD, G_NUM_HELD, build_group
from sim.kernels.layout import (
    BASE,
    CAPACITY,
    CUT_POSITION,
    DONE,
    END,
    EXCHANGES,
    GROUP,
    IS_CUTOFF,
    IS_MERGED,
    MAKESPAN,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    NEW_TASKS,
    NUM_BUILT,
    NUM_SAVED,
    NUM_TASKS,
    OVERFLOW,
    OVERLAP,
    PARAMETER_SERVER,
    PARTS,
    POPPED,
    READY,
    ROW,
    SAVED,
    SCHEME,
    SEG,
    SERIAL,
    SERIAL_SUM,
    SPLIT_COPIES,
    SRC,
    TASKS,
    TRAINING,
    WHOLE_COPIES,
)
from sim.kernels.operators import build_operator
from sim.kernels.shards import H_BYTES, H_OWN, HELD_COLUMNS, long_at
from sim.kernels.timeline import simulate


@njit(cache=True)
def add_block(tb, rows, st, b, sign):
    """Add (or take away) what block ``b`` keeps on each device and does on each resource.

    Modified in place: ``st.new_memory``, ``st.new_load``.
    """
    n, block, arena, memory, load = tb.op.shape[0], st.block[b], st.arena, st.new_memory, st.new_load
    home, base, count = block[SEG], block[BASE], block[TASKS]
    if b < n:
        saved = sign * rows[block[ROW], SAVED]
        for k in range(block[PARTS]):
            memory[arena[home + k]] += saved
    elif b < n + tb.edge.shape[0]:
        sources, sizes = home + arena[home + E_SRC_LIST], st.num_bytes
        for x in range(arena[home + E_COUNT]):
            memory[arena[sources + 2 * x + 1]] += sign * sizes[base + x]
    else:
        whole, split = sign * tb.flags[WHOLE_COPIES], sign * tb.flags[SPLIT_COPIES]
        held = home + arena[home + G_HELD]
        for k in range(arena[home + G_NUM_HELD]):
            at = held + HELD_COLUMNS * k
            memory[arena[at]] += whole * long_at(arena, at + H_BYTES) + split * long_at(arena, at + H_OWN)
    route, res, res_len, exes = tb.route, st.res, st.res_len, st.exe
    for t in range(base, base + count):
        first, exe = res[t], sign * exes[t]
        if first >= 0:
            for r in range(first, first + res_len[t]):
                load[route[r]] += exe
        else:
            for r in range(~first, ~first + res_len[t]):
                load[arena[r]] += exe


@njit(cache=True)
def add_up(tb, st):
    """What is summed over all groups and devices. Modified in place: the proposal's serial time and overflow."""
    serial, overflow = 0, 0
    for b in range(tb.op.shape[0] + tb.edge.shape[0], st.block.shape[0]):
        serial += st.block[b, SERIAL]
    for d in range(tb.device.shape[0]):
        overflow += max(0, st.new_memory[d] - tb.device[d, CAPACITY])
    st.num[NEW_SERIAL_SUM], st.num[NEW_OVERFLOW] = serial, overflow


@njit(cache=True, nogil=True)
def full(tb, rows, st, config_rows, config_ptr, config_devices):
    """Build the task graph of a strategy from nothing and simulate all of it.

    Args:
        config_rows: (n,) row of each operator's degrees.
        config_ptr: (n + 1,) where each operator's devices start.
        config_devices: devices of all parts.

    Modified in place: everything in ``st``; the strategy is accepted.
    """
    st.num[:] = 0
    st.stamp[:] = 0
    st.task_free[:] = -1
    st.seg_free[:] = -1
    st.new_memory[:] = 0
    st.new_load[:] = 0
    n, num_edges = tb.op.shape[0], tb.edge.shape[0]
    for i in range(n):
        num_parts = config_ptr[i + 1] - config_ptr[i]
        for k in range(num_parts):
            st.devices[k] = config_devices[config_ptr[i] + k]
        status = build_operator(tb, rows, st, i, config_rows[i], num_parts)
        if status != DONE:
            return status
    for e in range(num_edges):
        status = build_edge(tb, rows, st, e)
        if status != DONE:
            return status
    for g in range(tb.group.shape[0]):
        status = build_group(tb, rows, st, g)
        if status != DONE:
            return status
    for b in range(st.block.shape[0]):
        add_block(tb, rows, st, b, 1)
    add_up(tb, st)
    status = simulate(tb, st, 0, 0, -1, np.iinfo(np.int64).max)
    if status == DONE:
        keep_timeline(st)
    return status


@njit(cache=True, nogil=True)
def rebuild(tb, rows, st):
    """Price the accepted strategy again from nothing. Modified in place: as ``full``."""
    block, n = st.block, tb.op.shape[0]
    config_rows, config_ptr = block[:n, ROW].copy(), np.zeros(n + 1, np.int64)
    for i in range(n):
        config_ptr[i + 1] = config_ptr[i] + block[i, PARTS]
    devices = np.empty(config_ptr[n], np.int32)
    for i in range(n):
        for k in range(block[i, PARTS]):
            devices[config_ptr[i] + k] = st.arena[block[i, SEG] + k]
    return full(tb, rows, st, config_rows, config_ptr, devices)


@njit(cache=True)
def keep_timeline(st):
    """Make the proposal's timeline the accepted one. Modified in place: times, order, memory, load and scalars."""
    num, order, new_order, time, new_time = st.num, st.order, st.new_order, st.time, st.new_time
    for position in range(num[CUT_POSITION], num[NEW_TASKS]):
        t = new_order[position]
        order[position] = t
        for c in range(3):
            time[t, c] = new_time[t, c]
    st.memory[:] = st.new_memory
    st.load[:] = st.new_load
    num[NUM_TASKS], num[MAKESPAN], num[NUM_SAVED], num[NUM_BUILT] = num[NEW_TASKS], num[NEW_MAKESPAN], 0, 0
    num[SERIAL_SUM], num[OVERFLOW] = num[NEW_SERIAL_SUM], num[NEW_OVERFLOW]


@njit(cache=True)
def find_cut(tb, st, i):
    """The earliest (time, key) at which a new config of operator ``i`` can change the timeline.

    Nothing appears or disappears before the operator's old tasks and the old transfers into it, nor before the
    moment when a producer's part is complete, since all new tasks descend from these. The only exceptions are pushes
    to a parameter server and merged shards: one with gradients of other members of the operator's bucket alone may
    be ready, or vanish, as soon as these are complete.

    Returns:
        Time, key, and how many accepted tasks come before them.
    """
    n, best_time, best_key = tb.op.shape[0], np.iinfo(np.int64).max, np.iinfo(np.int64).max
    block, arena, time, keys, order = st.block, st.arena, st.time, st.key, st.order
    for t in range(block[i, BASE], block[i, BASE] + block[i, PARTS]):
        if time[t, READY] < best_time or (time[t, READY] == best_time and keys[t] < best_key):
            best_time, best_key = time[t, READY], keys[t]
    for e in range(tb.in_ptr[i], tb.in_ptr[i + 1]):
        src = tb.edge[e, SRC]
        parts, home, base = block[src, PARTS], block[src, SEG], block[src, BASE]
        for k in range(parts):
            x = arena[home + parts + k]
            end = time[base + (k if x < 0 else parts + x), END]
            if end <= best_time:
                best_time, best_key = end, pack(2 * i, 0, 0, 0)
    if tb.in_ptr[i] == tb.in_ptr[i + 1]:
        best_time, best_key = 0, pack(2 * i + 1, 0, 0, 0)
    g = tb.op[i, GROUP]
    is_early = tb.flags[SCHEME] == PARAMETER_SERVER or tb.flags[IS_MERGED]
    if is_early and tb.flags[OVERLAP] and tb.flags[TRAINING] and g >= 0:
        for r in range(tb.member_ptr[g], tb.member_ptr[g + 1]):
            m = tb.member[r]
            parts, home = block[m, PARTS], block[m, SEG]
            backward = block[m, BASE] + parts + block[m, EXCHANGES]
            for k in range(parts):
                x = arena[home + parts + k]
                end = time[backward + (k if x < 0 else parts + x), END]
                if m != i and end < best_time:
                    best_time, best_key = end, pack(4 * n + 4 * g, 0, 0, 0)
    first, last = 0, st.num[NUM_TASKS]
    while first < last:
        middle = (first + last) // 2
        t = order[middle]
        if time[t, READY] < best_time or (time[t, READY] == best_time and keys[t] < best_key):
            first = middle + 1
        else:
            last = middle
    return best_time, best_key, first


@njit(cache=True)
def withdraw(tb, rows, st, i):
    """Save the blocks that a new config of operator ``i`` replaces, and take away what they keep and do.

    Modified in place: ``st.saved``, the proposal's memory and load.

    Returns:
        The serial time of the weight groups that stay.
    """
    n, num_edges, num = tb.op.shape[0], tb.edge.shape[0], st.num
    st.new_memory[:] = st.memory
    st.new_load[:] = st.load
    saved_id, saved = st.saved_id, 1
    saved_id[0] = i
    for e in range(tb.in_ptr[i], tb.in_ptr[i + 1]):
        saved_id[saved] = n + e
        saved += 1
    for r in range(tb.out_ptr[i], tb.out_ptr[i + 1]):
        saved_id[saved] = n + tb.out_edge[r]
        saved += 1
    serial = num[SERIAL_SUM]
    if tb.op[i, GROUP] >= 0:
        saved_id[saved] = n + num_edges + tb.op[i, GROUP]
        serial -= st.block[saved_id[saved], SERIAL]
        saved += 1
    for k in range(saved):
        st.saved[k] = st.block[saved_id[k]]
        add_block(tb, rows, st, saved_id[k], -1)
    num[NUM_SAVED], num[NUM_BUILT] = saved, 0
    return serial


@njit(cache=True, nogil=True)
def propose(tb, rows, st, i, row, num_parts, cutoff):
    """Price a new config of operator ``i``: degrees ``row`` on ``st.devices[:num_parts]``.

    Blocks are built one by one; as soon as a resource has more to do than the cutoff allows, the rest is not.

    Modified in place: the blocks of the operator, its edges and its bucket (the old ones are saved), the proposal's
    timeline, memory and load. If the status is not DONE, all blocks are as before.
    """
    n, num_edges, num, load = tb.op.shape[0], tb.edge.shape[0], st.num, st.new_load
    cut_time, cut_key, num[CUT_POSITION] = find_cut(tb, st, i)
    serial = withdraw(tb, rows, st, i)
    for k in range(num[NUM_SAVED]):
        b = st.saved_id[k]
        if b < n:
            status = build_operator(tb, rows, st, i, row, num_parts)
        elif b < n + num_edges:
            status = build_edge(tb, rows, st, b - n)
        else:
            status = build_group(tb, rows, st, b - n - num_edges)
        if status != DONE:
            reject(st)
            return status
        num[NUM_BUILT] = k + 1
        add_block(tb, rows, st, b, 1)
        bound = 0
        for r in range(load.shape[0]):
            bound = max(bound, load[r])
        if bound + serial > cutoff:
            num[IS_CUTOFF], num[NEW_MAKESPAN], num[NEW_SERIAL_SUM], num[POPPED] = 1, bound, serial, 0
            return DONE
    add_up(tb, st)
    status = simulate(tb, st, num[CUT_POSITION], cut_time, cut_key, cutoff - num[NEW_SERIAL_SUM])
    if status != DONE:
        reject(st)
    return status


@njit(cache=True, nogil=True)
def reject(st):
    """Forget the proposal. Modified in place: the replaced blocks, the free lists."""
    num, block, saved_id = st.num, st.block, st.saved_id
    for k in range(num[NUM_BUILT]):
        release_block(st, block[saved_id[k]])
        block[saved_id[k]] = st.saved[k]
    num[NUM_SAVED], num[NUM_BUILT] = 0, 0


@njit(cache=True, nogil=True)
def accept(st):
    """Keep the proposal. Modified in place: the replaced blocks' slots become free; timeline, memory and scalars."""
    for k in range(st.num[NUM_SAVED]):
        release_block(st, st.saved[k])
    keep_timeline(st)
