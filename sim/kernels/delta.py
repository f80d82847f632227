"""Delta simulation: propose one operator's new config, then accept or reject it (FlexFlow, section 5.3)."""

import numpy as np
from numba import njit

from sim.kernels.blocks import pack, release_block
from sim.kernels.edges import E_COUNT, E_SRC_LIST, build_edge
from sim.kernels.groups import G_HELD, G_NUM_HELD, HELD_COLUMNS, HELD_UNITS, build_group, own_bytes
from sim.kernels.layout import (
    BASE,
    CAPACITY,
    CUT_POSITION,
    DONE,
    END,
    EXCHANGES,
    GROUP,
    MAKESPAN,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    NEW_TASKS,
    NUM_SAVED,
    NUM_TASKS,
    OVERFLOW,
    OVERLAP,
    PARAMETER_SERVER,
    PARTS,
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
    UNIT_BYTES,
    WHOLE_COPIES,
)
from sim.kernels.operators import build_operator
from sim.kernels.timeline import simulate


@njit(cache=True)
def add_memory(tb, rows, st, b, sign):
    """Add (or take away) what block ``b`` keeps on each device. Modified in place: ``st.new_memory``."""
    n, block = tb.op.shape[0], st.block[b]
    home, memory = block[SEG], st.new_memory
    if b < n:
        for k in range(block[PARTS]):
            memory[st.arena[home + k]] += sign * rows[block[ROW], SAVED]
    elif b < n + tb.edge.shape[0]:
        sources = home + st.arena[home + E_SRC_LIST]
        for x in range(st.arena[home + E_COUNT]):
            memory[st.arena[sources + 2 * x + 1]] += sign * st.num_bytes[block[BASE] + x]
    else:
        whole, split = tb.flags[WHOLE_COPIES], tb.flags[SPLIT_COPIES]
        unit_bytes = whole * tb.group[b - n - tb.edge.shape[0], UNIT_BYTES]
        held = home + st.arena[home + G_HELD]
        for k in range(st.arena[home + G_NUM_HELD]):
            at = held + HELD_COLUMNS * k
            kept = unit_bytes * st.arena[at + HELD_UNITS] + split * own_bytes(st.arena, at)
            memory[st.arena[at]] += sign * kept


@njit(cache=True)
def add_load(tb, st, b, sign):
    """Add (or take away) the work of block ``b`` on each resource. Modified in place: ``st.new_load``."""
    for t in range(st.block[b, BASE], st.block[b, BASE] + st.block[b, TASKS]):
        first, exe = st.res[t], sign * st.exe[t]
        if first >= 0:
            for r in range(first, first + st.res_len[t]):
                st.new_load[tb.route[r]] += exe
        else:
            for r in range(~first, ~first + st.res_len[t]):
                st.new_load[st.arena[r]] += exe


@njit(cache=True)
def add_up(tb, st):
    """What is summed over all groups and devices. Modified in place: the proposal's serial time and overflow."""
    serial, overflow = 0, 0
    for b in range(tb.op.shape[0] + tb.edge.shape[0], st.block.shape[0]):
        serial += st.block[b, SERIAL]
    for d in range(tb.device.shape[0]):
        overflow += max(0, st.new_memory[d] - tb.device[d, CAPACITY])
    st.num[NEW_SERIAL_SUM], st.num[NEW_OVERFLOW] = serial, overflow


@njit(cache=True)
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
    shards = np.empty(5, np.int64)
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
        status = build_group(tb, rows, st, g, shards)
        if status != DONE:
            return status
    for b in range(st.block.shape[0]):
        add_memory(tb, rows, st, b, 1)
        add_load(tb, st, b, 1)
    add_up(tb, st)
    status = simulate(tb, st, 0, 0, -1, np.iinfo(np.int64).max)
    if status == DONE:
        keep_timeline(st)
    return status


@njit(cache=True)
def keep_timeline(st):
    """Make the proposal's timeline the accepted one. Modified in place: times, order, memory and scalars."""
    for position in range(st.num[CUT_POSITION], st.num[NEW_TASKS]):
        t = st.new_order[position]
        st.order[position] = t
        for c in range(3):
            st.time[t, c] = st.new_time[t, c]
    st.memory[:] = st.new_memory
    st.load[:] = st.new_load
    st.num[NUM_TASKS], st.num[MAKESPAN], st.num[NUM_SAVED] = st.num[NEW_TASKS], st.num[NEW_MAKESPAN], 0
    st.num[SERIAL_SUM], st.num[OVERFLOW] = st.num[NEW_SERIAL_SUM], st.num[NEW_OVERFLOW]


@njit(cache=True)
def find_cut(tb, st, i):
    """The earliest (time, key) at which a new config of operator ``i`` can change the timeline.

    Nothing appears or disappears before the operator's old tasks and the old transfers into it, nor before the
    moment when a producer's part is complete, since all new tasks descend from these. The only exception are pushes
    to a parameter server: one that carries gradients of other members of the operator's weight group alone may be
    ready, or vanish, as soon as these are complete.

    Returns:
        Time, key, and how many accepted tasks come before them.
    """
    n, best_time = tb.op.shape[0], np.iinfo(np.int64).max
    best_key = np.iinfo(np.int64).max
    base = st.block[i, BASE]
    for t in range(base, base + st.block[i, PARTS]):
        if st.time[t, READY] < best_time or (st.time[t, READY] == best_time and st.key[t] < best_key):
            best_time, best_key = st.time[t, READY], st.key[t]
    for e in range(tb.in_ptr[i], tb.in_ptr[i + 1]):
        src = tb.edge[e, SRC]
        parts, home = st.block[src, PARTS], st.block[src, SEG]
        for k in range(parts):
            x = st.arena[home + parts + k]
            end = st.time[st.block[src, BASE] + (k if x < 0 else parts + x), END]
            if end <= best_time:
                best_time, best_key = end, pack(2 * i, 0, 0, 0)
    if tb.in_ptr[i] == tb.in_ptr[i + 1]:
        best_time, best_key = 0, pack(2 * i + 1, 0, 0, 0)
    if tb.flags[SCHEME] == PARAMETER_SERVER and tb.flags[OVERLAP] and tb.flags[TRAINING] and tb.op[i, GROUP] >= 0:
        g = tb.op[i, GROUP]
        for r in range(tb.member_ptr[g], tb.member_ptr[g + 1]):
            m = tb.member[r]
            parts, home = st.block[m, PARTS], st.block[m, SEG]
            backward = st.block[m, BASE] + parts + st.block[m, EXCHANGES]
            for k in range(parts):
                x = st.arena[home + parts + k]
                end = st.time[backward + (k if x < 0 else parts + x), END]
                if m != i and end < best_time:
                    best_time, best_key = end, pack(4 * n + 4 * g, 0, 0, 0)
    first, last = 0, st.num[NUM_TASKS]
    while first < last:
        middle = (first + last) // 2
        t = st.order[middle]
        if st.time[t, READY] < best_time or (st.time[t, READY] == best_time and st.key[t] < best_key):
            first = middle + 1
        else:
            last = middle
    return best_time, best_key, first


@njit(cache=True)
def propose(tb, rows, st, i, row, num_parts, cutoff):
    """Price a new config of operator ``i``: degrees ``row`` on ``st.devices[:num_parts]``.

    Modified in place: the blocks of the operator, its edges and its weight group (the old ones are saved), the
    proposal's timeline and memory. If the status is not DONE, all blocks are as before.
    """
    n, num_edges, num = tb.op.shape[0], tb.edge.shape[0], st.num
    shards = np.empty(5, np.int64)
    cut_time, cut_key, cut_position = find_cut(tb, st, i)
    num[CUT_POSITION], num[NUM_SAVED] = cut_position, 0
    st.new_memory[:] = st.memory
    st.new_load[:] = st.load
    status = replace(tb, rows, st, i, i, row, num_parts, shards)
    for e in range(tb.in_ptr[i], tb.in_ptr[i + 1]):
        if status == DONE:
            status = replace(tb, rows, st, n + e, i, row, num_parts, shards)
    for r in range(tb.out_ptr[i], tb.out_ptr[i + 1]):
        if status == DONE:
            status = replace(tb, rows, st, n + tb.out_edge[r], i, row, num_parts, shards)
    if status == DONE and tb.op[i, GROUP] >= 0:
        status = replace(tb, rows, st, n + num_edges + tb.op[i, GROUP], i, row, num_parts, shards)
    if status == DONE:
        add_up(tb, st)
        status = simulate(tb, st, cut_position, cut_time, cut_key, cutoff - num[NEW_SERIAL_SUM])
    if status != DONE:
        reject(st)
    return status


@njit(cache=True)
def replace(tb, rows, st, b, i, row, num_parts, shards):
    """Build block ``b`` anew, saving the old one.

    Modified in place: the block, ``st.saved``, the proposal's memory and load.
    """
    n, num_edges, saved = tb.op.shape[0], tb.edge.shape[0], st.num[NUM_SAVED]
    st.saved[saved] = st.block[b]
    st.saved_id[saved] = b
    add_memory(tb, rows, st, b, -1)
    add_load(tb, st, b, -1)
    if b < n:
        status = build_operator(tb, rows, st, i, row, num_parts)
    elif b < n + num_edges:
        status = build_edge(tb, rows, st, b - n)
    else:
        status = build_group(tb, rows, st, b - n - num_edges, shards)
    if status == DONE:
        add_memory(tb, rows, st, b, 1)
        add_load(tb, st, b, 1)
        st.num[NUM_SAVED] = saved + 1
    return status


@njit(cache=True)
def reject(st):
    """Forget the proposal. Modified in place: the replaced blocks, the free lists."""
    for k in range(st.num[NUM_SAVED]):
        release_block(st, st.block[st.saved_id[k]])
        st.block[st.saved_id[k]] = st.saved[k]
    st.num[NUM_SAVED] = 0


@njit(cache=True)
def accept(st):
    """Keep the proposal. Modified in place: the replaced blocks' slots become free; timeline, memory and scalars."""
    for k in range(st.num[NUM_SAVED]):
        release_block(st, st.saved[k])
    keep_timeline(st)
