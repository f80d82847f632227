"""Delta simulation: propose one operator's new config, then accept or reject it (FlexFlow, section 5.3)."""

import numpy as np
from numba import njit

from sim.kernels.accounts import add_block, add_up, is_dearer, new_overflow
from sim.kernels.blocks import copy_to, release_block
from sim.kernels.cut import find_cut
from sim.kernels.edges import build_edge
from sim.kernels.groups import build_group
from sim.kernels.headroom import add_work, choose_rows, find_gain, find_tail, group_bound, keep_gain, work_bound
from sim.kernels.kernel import NEVER, NO, NONE, ZERO, inlined, kernel
from sim.kernels.layout import (
    CUT_POSITION,
    DONE,
    DST,
    EPOCH,
    GROUP,
    IS_CUTOFF,
    MAKESPAN,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    NEW_TASKS,
    NUM_BUILT,
    NUM_IN,
    NUM_NEAR,
    NUM_SAVED,
    NUM_STRETCHES,
    NUM_TASKS,
    OVERFLOW,
    PARTS,
    PLACE,
    POPPED,
    REST,
    ROW,
    SEG,
    SERIAL,
    SERIAL_SUM,
    SRC,
    UNREAD,
)
from sim.kernels.operators import build_operator
from sim.kernels.stretch import keep_score, write_stretches
from sim.kernels.timeline import simulate
from sim.kernels.waiting import count_block, keep_counts, note_reach


@kernel
def full(tb, rows, st, config_rows, config_ptr, config_devices):
    """Build the task graph of a strategy from nothing and simulate all of it.

    Args:
        config_rows: (n,) row of each operator's degrees.
        config_ptr: (n + 1,) where each operator's devices start.
        config_devices: devices of all parts.

    Modified in place: everything in ``st``; the strategy is accepted.
    """
    epoch = st.num[EPOCH]
    st.num[:] = 0
    st.num[EPOCH] = epoch
    st.stamp[:] = 0
    st.forced[:] = 0
    st.role[:] = 0
    st.trial[:] = 0
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
    st.work[:] = 0
    st.last[:] = -1
    for b in range(st.block.shape[0]):
        add_block(tb, rows, st, b, 1)
        st.block[b, UNREAD] = count_block(tb, st, b, st.task, NUM_IN)
        if b < n:
            add_work(tb, rows, st, b)
        elif b >= n + num_edges:
            find_tail(st, b)
    add_up(tb, st)
    status = simulate(tb, st, NONE, ZERO, ZERO, NONE, NEVER, NO)
    if status == DONE:
        keep_timeline(tb, st)
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


@kernel
def keep_timeline(tb, st):
    """Make the proposal's timeline the accepted one.

    Modified in place: times, order, what is known about them, memory, load and scalars.
    """
    num, order, new_order, time, new_time = st.num, st.order, st.new_order, st.time, st.new_time
    write_stretches(st)
    for position in range(num[CUT_POSITION], num[NEW_TASKS]):
        t = new_order[position]
        order[position] = t
        for c in range(3):
            time[t, c] = new_time[t, c]
        time[t, PLACE] = position
    note_reach(tb, st, num[CUT_POSITION], num[NEW_TASKS])
    copy_to(st.memory, st.new_memory)
    copy_to(st.load, st.new_load)
    choose_rows(tb, st)
    num[NUM_TASKS], num[MAKESPAN], num[NUM_SAVED], num[NUM_BUILT] = num[NEW_TASKS], num[NEW_MAKESPAN], 0, 0
    num[SERIAL_SUM], num[OVERFLOW] = num[NEW_SERIAL_SUM], num[NEW_OVERFLOW]


@inlined
def withdraw(tb, rows, st, i):
    """Save the blocks that a new config of operator ``i`` replaces, and take away what they keep and do.

    Modified in place: ``st.saved``, ``st.saved_id``, the proposal's memory and load.
    """
    n, num_edges, num, in_ptr, out_ptr = tb.op.shape[0], tb.edge.shape[0], st.num, tb.in_ptr, tb.out_ptr
    copy_to(st.new_memory, st.memory)
    copy_to(st.new_load, st.load)
    saved_id, saved = st.saved_id, 1
    saved_id[0] = i
    if tb.op[i, GROUP] >= 0:
        saved_id[saved] = n + num_edges + tb.op[i, GROUP]
        saved += 1
    for e in range(in_ptr[i], in_ptr[i + 1]):
        saved_id[saved] = n + e
        saved += 1
    for r in range(out_ptr[i], out_ptr[i + 1]):
        saved_id[saved] = n + tb.out_edge[r]
        saved += 1
    block, kept = st.block, st.saved
    for k in range(saved):
        for c in range(block.shape[1]):
            kept[k, c] = block[saved_id[k], c]
        add_block(tb, rows, st, saved_id[k], -1)
    near = saved
    for e in range(in_ptr[i], in_ptr[i + 1]):
        saved_id[near] = tb.edge[e, SRC]
        near += 1
    for r in range(out_ptr[i], out_ptr[i + 1]):
        saved_id[near] = tb.edge[tb.out_edge[r], DST]
        near += 1
    num[NUM_SAVED], num[NUM_NEAR] = saved, near


@kernel
def stop(st, bound, serial):
    """Say that the proposal is cut off by ``bound`` of its makespan. Modified in place: ``st.num``."""
    st.num[IS_CUTOFF], st.num[NEW_MAKESPAN], st.num[NEW_SERIAL_SUM], st.num[POPPED] = 1, bound, serial, 0


@inlined
def is_present(st, i, row, num_parts):
    """Whether a config of operator ``i`` is the accepted one."""
    is_same, home = st.block[i, ROW] == row, st.block[i, SEG]
    for k in range(num_parts):
        is_same = is_same and st.arena[home + k] == st.devices[k]
    return is_same


@inlined
def keep_present(st, cutoff, limit):
    """Propose what is accepted. Modified in place: ``st.num``, the proposal's memory and load."""
    num = st.num
    copy_to(st.new_memory, st.memory)
    copy_to(st.new_load, st.load)
    st.gain[:] = 0
    num[NUM_SAVED], num[NUM_NEAR], num[NUM_BUILT], num[POPPED], num[NUM_STRETCHES] = 0, 0, 0, 0, 0
    num[CUT_POSITION], num[NEW_TASKS], num[NEW_MAKESPAN] = num[NUM_TASKS], num[NUM_TASKS], num[MAKESPAN]
    num[NEW_SERIAL_SUM], num[NEW_OVERFLOW] = num[SERIAL_SUM], num[OVERFLOW]
    num[IS_CUTOFF] = 1 if is_dearer(num[OVERFLOW], num[MAKESPAN] + num[SERIAL_SUM], limit, cutoff) else 0


@kernel
def propose(tb, rows, st, i, row, num_parts, cutoff, limit):
    """Price a new config of operator ``i``: degrees ``row`` on ``st.devices[:num_parts]``.

    Blocks are built one by one; as soon as a resource has more to do than the cutoff allows, or devices more to keep
    than the limit does, the rest is not.

    Args:
        cutoff: largest cost of interest,
        limit: and largest overflow of memory; see ``is_dearer``.

    Modified in place: the blocks of the operator, its edges and its bucket (the old ones are saved), the proposal's
    timeline, memory and load. If the status is not DONE, all blocks are as before.
    """
    n, num_edges, num, load = tb.op.shape[0], tb.edge.shape[0], st.num, st.new_load
    num[NUM_SAVED], num[NUM_BUILT] = 0, 0
    if is_present(st, i, row, num_parts):
        keep_present(st, cutoff, limit)
        return DONE
    serial, g = num[SERIAL_SUM], tb.op[i, GROUP]
    if g >= 0:
        serial -= st.block[n + num_edges + g, SERIAL]
    find_gain(tb, rows, st, i, row, num_parts)
    bound = work_bound(tb, st, i, num_parts)
    if is_dearer(0, bound + serial, limit, cutoff):
        stop(st, bound, serial)
        return DONE
    withdraw(tb, rows, st, i)
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
        if b >= n + num_edges:
            find_tail(st, b)
            bound = max(bound, group_bound(tb, st, g))
        for r in range(load.shape[0]):
            bound = max(bound, load[r])
        if is_dearer(new_overflow(tb, st), bound + serial, limit, cutoff):
            stop(st, bound, serial)
            return DONE
    add_up(tb, st)
    latest = cutoff - num[NEW_SERIAL_SUM] if limit < 0 or num[NEW_OVERFLOW] == limit else NEVER
    cut_time, cut_key, num[CUT_POSITION] = find_cut(tb, st, i, st.saved[0])
    is_seeking = st.trial[i, REST] == 0
    status = simulate(tb, st, i, num[CUT_POSITION], cut_time, cut_key, latest, is_seeking)
    if status != DONE:
        reject(st)
    else:
        keep_score(st, i, is_seeking)
    return status


@kernel
def reject(st):
    """Forget the proposal. Modified in place: the replaced blocks, the free lists."""
    num, block, saved_id = st.num, st.block, st.saved_id
    for k in range(num[NUM_BUILT]):
        release_block(st, block[saved_id[k]])
        for c in range(block.shape[1]):
            block[saved_id[k], c] = st.saved[k, c]
    num[NUM_SAVED], num[NUM_BUILT] = 0, 0


@kernel
def accept(tb, st):
    """Keep the proposal. Modified in place: the replaced blocks' slots become free; timeline, memory and scalars."""
    keep_gain(tb, st, st.saved_id[0])
    keep_counts(tb, st)
    for k in range(st.num[NUM_SAVED]):
        release_block(st, st.saved[k])
    keep_timeline(tb, st)
