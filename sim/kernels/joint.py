"""Delta simulation of several operators' new configs at once: one strategy, one pricing."""

from numba import njit

from sim.kernels.accounts import add_block, add_up, is_dearer, new_overflow
from sim.kernels.blocks import release_block
from sim.kernels.cut import find_cut
from sim.kernels.delta import keep_timeline, reject, stop
from sim.kernels.edges import build_edge
from sim.kernels.groups import build_group
from sim.kernels.headroom import find_tail, keep_gain, part_ns
from sim.kernels.kernel import NEVER, NO, NONE
from sim.kernels.layout import (
    CUT_POSITION,
    DONE,
    DST,
    EPOCH,
    GROUP,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    NUM_BUILT,
    NUM_NEAR,
    NUM_SAVED,
    PARTS,
    ROW,
    SEG,
    SERIAL,
    SERIAL_SUM,
    SRC,
)
from sim.kernels.operators import build_operator
from sim.kernels.timeline import simulate
from sim.kernels.waiting import count_changed, keep_counts


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

    Operators come before edges and edges before weight groups, as they are built; the ends of the edges follow.

    Modified in place: ``st.saved``, ``st.saved_id``, the proposal's memory and load.

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
    groups, serial = count, num[SERIAL_SUM]
    for i in members:
        if tb.op[i, GROUP] >= 0:
            count = note(saved_id, groups, count, n + num_edges + tb.op[i, GROUP])
    for k in range(count):
        st.saved[k] = st.block[saved_id[k]]
        add_block(tb, rows, st, saved_id[k], -1)
        if k >= groups:
            serial -= st.block[saved_id[k], SERIAL]
    near = count
    for k in range(first, groups):
        saved_id[near] = tb.edge[saved_id[k] - n, SRC]
        saved_id[near + 1] = tb.edge[saved_id[k] - n, DST]
        near += 2
    num[NUM_SAVED], num[NUM_BUILT], num[NUM_NEAR] = count, 0, near
    return serial


@njit(cache=True)
def force_sources_together(tb, st, members):
    """As ``force_sources`` of ``sim.kernels.waiting``, with the mark 0 that a full simulation uses.

    Modified in place: ``st.forced``.
    """
    st.forced[:] = -1
    for i in members:
        st.forced[i] = 0
        for e in range(tb.in_ptr[i], tb.in_ptr[i + 1]):
            st.forced[tb.edge[e, SRC]] = 0
        g = tb.op[i, GROUP]
        if g >= 0:
            for r in range(tb.member_ptr[g], tb.member_ptr[g + 1]):
                st.forced[tb.member[r]] = 0


@njit(cache=True)
def simulate_together(tb, st, members, position, cut_time, cut_key, cutoff):
    """Simulate the built proposal as a full simulation that keeps its prefix.

    The work ahead of the groups (``sim.kernels.headroom``) is known for one changed operator; here the loads alone are
    bounds.

    Modified in place: see ``simulate``.
    """
    row, loads = st.row.copy(), st.work.shape[0]
    st.row[:] = loads
    count_changed(tb, st, st.num[EPOCH] + 1)
    force_sources_together(tb, st, members)
    status = simulate(tb, st, NONE, position, cut_time, cut_key, cutoff, NO)
    st.forced[:] = 0
    st.row[:] = row
    return status


@njit(cache=True, nogil=True)
def propose_together(tb, rows, st, members, config_rows, config_parts, config_devices, cutoff, limit):
    """Price new configs of several operators; ``accept_together`` or ``reject`` comes next.

    Nothing changes before the earliest cut of a member: by induction along the timeline, until then all blocks of all
    members do the same as before.

    Args:
        members: (k,) distinct operators.
        config_rows: (k,) row of each one's degrees.
        config_parts: (k,) its number of parts.
        config_devices: (k, D) their devices.
        cutoff: as for ``sim.kernels.delta.propose``, and so is ``limit``.

    Modified in place: the blocks of the operators, their edges and weight groups (the old ones are saved), the
    proposal's timeline, memory and load. If the status is not DONE, all blocks are as before.
    """
    n, num_edges, num, load = tb.op.shape[0], tb.edge.shape[0], st.num, st.new_load
    cut_time, cut_key, position = find_cut(tb, st, members[0], st.block[members[0]])
    for k in range(1, members.shape[0]):
        time, key, first = find_cut(tb, st, members[k], st.block[members[k]])
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
        if b >= n + num_edges:
            find_tail(st, b)
        bound = 0
        for r in range(load.shape[0]):
            bound = max(bound, load[r])
        if is_dearer(new_overflow(tb, st), bound + serial, limit, cutoff):
            stop(st, bound, serial)
            return DONE
    add_up(tb, st)
    latest = cutoff - num[NEW_SERIAL_SUM] if limit < 0 or num[NEW_OVERFLOW] == limit else NEVER
    status = simulate_together(tb, st, members, position, cut_time, cut_key, latest)
    if status != DONE:
        reject(st)
    return status


@njit(cache=True, nogil=True)
def accept_together(tb, rows, st):
    """Keep the proposal; see ``sim.kernels.delta.accept``. Modified in place: as there."""
    for k in range(st.num[NUM_SAVED]):
        b = st.saved_id[k]
        if b >= tb.op.shape[0]:
            break
        st.gain[:] = 0
        for config, sign in ((st.saved[k], -1), (st.block[b], 1)):
            for part in range(config[PARTS]):
                device = st.arena[config[SEG] + part]
                st.gain[device] += sign * part_ns(tb, rows, config[ROW], device)
        keep_gain(tb, st, b)
    keep_counts(tb, st)
    for k in range(st.num[NUM_SAVED]):
        release_block(st, st.saved[k])
    keep_timeline(tb, st)
