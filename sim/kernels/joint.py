"""Delta simulation of several operators' new configs at once: one strategy, one pricing."""

import numpy as np
from numba import njit

from sim.kernels.delta import add_block, add_up, find_cut, reject
from sim.kernels.edges import build_edge
from sim.kernels.groups import build_group
from sim.kernels.layout import (
    CUT_POSITION,
    DONE,
    GROUP,
    IS_CUTOFF,
    NEW_MAKESPAN,
    NEW_SERIAL_SUM,
    NUM_BUILT,
    NUM_SAVED,
    POPPED,
    SERIAL,
    SERIAL_SUM,
)
from sim.kernels.operators import build_operator
from sim.kernels.timeline import simulate


@njit(cache=True)
def note(saved_id, first, count, b):
    """Append block ``b`` unless it is in ``saved_id[first:count]``; returns the new count."""
    for k in range(first, count):
        if saved_id[k] == b:
            return count
    saved_id[count] = b
    return count + 1


@njit(cache=True)
def withdraw_together(tb, rows, st, members):
    """Save the blocks that new configs of ``members`` replace, and take away what they keep and do.

    Operators come before edges and edges before weight groups, as they are built.

    Modified in place: ``st.saved``, the proposal's memory and load.

    Returns:
        The serial time of the weight groups that stay.
    """
    n, num_edges, num, saved_id = tb.op.shape[0], tb.edge.shape[0], st.num, st.saved_id
    st.new_memory[:] = st.memory
    st.new_load[:] = st.load
    count = members.shape[0]
    saved_id[:count] = members
    first = count
    for i in members:
        for e in range(tb.in_ptr[i], tb.in_ptr[i + 1]):
            count = note(saved_id, first, count, n + e)
        for r in range(tb.out_ptr[i], tb.out_ptr[i + 1]):
            count = note(saved_id, first, count, n + tb.out_edge[r])
    first, serial = count, num[SERIAL_SUM]
    for i in members:
        if tb.op[i, GROUP] >= 0:
            count = note(saved_id, first, count, n + num_edges + tb.op[i, GROUP])
    for k in range(count):
        st.saved[k] = st.block[saved_id[k]]
        add_block(tb, rows, st, saved_id[k], -1)
        if k >= first:
            serial -= st.block[saved_id[k], SERIAL]
    num[NUM_SAVED], num[NUM_BUILT] = count, 0
    return serial


@njit(cache=True, nogil=True)
def propose_together(tb, rows, st, members, config_rows, config_parts, config_devices, cutoff):
    """Price new configs of several operators; ``accept`` or ``reject`` of ``sim.kernels.delta`` comes next.

    Nothing changes before the earliest cut of a member: by induction along the timeline, until then all blocks of all
    members do the same as before.

    Args:
        members: (k,) distinct operators.
        config_rows: (k,) row of each one's degrees.
        config_parts: (k,) its number of parts.
        config_devices: (k, D) their devices.
        cutoff: as for ``sim.kernels.delta.propose``.

    Modified in place: the blocks of the operators, their edges and weight groups (the old ones are saved), the
    proposal's timeline, memory and load. If the status is not DONE, all blocks are as before.
    """
    n, num_edges, num, load = tb.op.shape[0], tb.edge.shape[0], st.num, st.new_load
    cut_time, cut_key, position = find_cut(tb, st, members[0])
    for k in range(1, members.shape[0]):
        time, key, first = find_cut(tb, st, members[k])
        if time < cut_time or (time == cut_time and key < cut_key):
            cut_time, cut_key, position = time, key, first
    num[CUT_POSITION] = position
    serial = withdraw_together(tb, rows, st, members)
    for k in range(num[NUM_SAVED]):
        b = st.saved_id[k]
        if b < n:
            for part in range(config_parts[k]):
                st.devices[part] = config_devices[k, part]
            status = build_operator(tb, rows, st, b, config_rows[k], config_parts[k])
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
    status = simulate(tb, st, position, cut_time, cut_key, np.int64(cutoff - num[NEW_SERIAL_SUM]))
    if status != DONE:
        reject(st)
    return status
