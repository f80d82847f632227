"""What waits for what: predecessors of each task, and how far into the timeline a block's successors reach."""

from sim.kernels.edges import E_COUNT, E_DST_LIST, E_IN, E_OUT
from sim.kernels.groups import G_DEGREE
from sim.kernels.kernel import inlined, kernel
from sim.kernels.layout import (
    BASE,
    DST,
    EXCHANGES,
    GROUP,
    NUM_IN,
    NUM_NEAR,
    NUM_SAVED,
    OWNER,
    PARTS,
    READY,
    SEG,
    SRC,
    STAMP,
    TASKS,
    TRAINING,
    UNREAD,
    WAIT,
    WAIT_BITS,
)


@inlined
def count_block(tb, st, b, counts, column):
    """Count the predecessors of a block's tasks.

    A part whose result is read need not wait for its own forward task before its backward task: the gradients that
    it waits for come later anyway.

    Modified in place: ``counts[:, column]`` of the block's slots.

    Returns:
        Parts whose results nobody reads.
    """
    n, num_edges, training = tb.op.shape[0], tb.edge.shape[0], tb.flags[TRAINING]
    block, arena, out_edge = st.block, st.arena, tb.out_edge
    base, home = block[b, BASE], block[b, SEG]
    unread = 0
    if b < n:
        parts, exchanges = block[b, PARTS], block[b, EXCHANGES]
        slots, ptr = parts + exchanges, home + 2 * parts
        for k in range(parts):
            counts[base + k, column] = 0
        for e in range(tb.in_ptr[b], tb.in_ptr[b + 1]):
            into = block[n + e, SEG] + arena[block[n + e, SEG] + E_IN]
            for k in range(parts):
                counts[base + k, column] += arena[into + k + 1] - arena[into + k]
        for x in range(exchanges):
            counts[base + parts + x, column] = arena[ptr + x + 1] - arena[ptr + x]
        if training:
            for k in range(parts):
                counts[base + slots + k, column] = 0
            for r in range(tb.out_ptr[b], tb.out_ptr[b + 1]):
                edge_home = block[n + out_edge[r], SEG]
                out = edge_home + arena[edge_home + E_OUT]
                for k in range(parts):
                    counts[base + slots + k, column] += arena[out + k + 1] - arena[out + k]
            for k in range(parts):
                if counts[base + slots + k, column] == 0:
                    counts[base + slots + k, column] = 1
                    unread += 1
            for x in range(exchanges):
                counts[base + slots + parts + x, column] = arena[ptr + x + 1] - arena[ptr + x]
    elif b < n + num_edges:
        transfers = arena[home + E_COUNT]
        ptr = home + arena[home + E_DST_LIST]
        for x in range(transfers):
            counts[base + x, column] = 1
        if training:
            for x in range(transfers):
                counts[base + transfers + x, column] = arena[ptr + x + 1] - arena[ptr + x]
    else:
        degrees = home + arena[home + G_DEGREE]
        for t in range(block[b, TASKS]):
            counts[base + t, column] = arena[degrees + t]
    return unread


@inlined
def count_changed(tb, st, epoch):
    """Count the predecessors that the proposal changes: of its new blocks, and of their neighbours.

    Modified in place: READY and WAIT of ``st.new_time``.
    """
    block, new_time = st.block, st.new_time
    for k in range(st.num[NUM_NEAR]):
        b = st.saved_id[k]
        count_block(tb, st, b, new_time, WAIT)
        for t in range(block[b, BASE], block[b, BASE] + block[b, TASKS]):
            new_time[t, READY] = 0
            new_time[t, WAIT] |= epoch << WAIT_BITS


@kernel
def keep_counts(tb, st):
    """Make the proposal's counts the accepted ones. Modified in place: ``st.num_in``, UNREAD and ``st.last``."""
    for k in range(st.num[NUM_NEAR]):
        b = st.saved_id[k]
        st.block[b, UNREAD] = count_block(tb, st, b, st.task, NUM_IN)
        if k < st.num[NUM_SAVED]:
            st.last[b] = -1


@inlined
def force_sources(tb, st, i):
    """Mark the blocks whose tasks a proposal's new tasks wait for.

    Modified in place: ``st.forced``.

    Returns:
        The mark.
    """
    st.num[STAMP] += 1
    mark, g = st.num[STAMP], tb.op[i, GROUP]
    st.forced[i] = mark
    for e in range(tb.in_ptr[i], tb.in_ptr[i + 1]):
        st.forced[tb.edge[e, SRC]] = mark
    if g >= 0:
        for r in range(tb.member_ptr[g], tb.member_ptr[g + 1]):
            st.forced[tb.member[r]] = mark
    return mark


@kernel
def note_reach(tb, st, first, count):
    """Note how far the successors of each block's tasks reach after positions from ``first`` on have changed.

    Modified in place: ``st.last``, ``st.reach``.
    """
    n, num_edges, training = tb.op.shape[0], tb.edge.shape[0], tb.flags[TRAINING]
    block, last, reach, task, order = st.block, st.last, st.reach, st.task, st.order
    for position in range(first, count):
        t = order[position]
        b = task[t, OWNER]
        forward = block[b, TASKS] >> training if b < n + num_edges else block[b, TASKS]
        last[b, 1 if t - block[b, BASE] >= forward else 0] = position
    for b in range(n):
        ahead, behind = last[b, 0], last[b, 1]
        for r in range(tb.out_ptr[b], tb.out_ptr[b + 1]):
            e = tb.out_edge[r]
            ahead = max(ahead, last[n + e, 0], last[tb.edge[e, DST], 0])
        for e in range(tb.in_ptr[b], tb.in_ptr[b + 1]):
            behind = max(behind, last[n + e, 1], last[tb.edge[e, SRC], 1])
        if tb.op[b, GROUP] >= 0:
            behind = max(behind, last[n + num_edges + tb.op[b, GROUP], 0])
        if training and block[b, UNREAD] > 0:
            ahead = max(ahead, last[b, 1])
        reach[b, 0], reach[b, 1] = ahead, behind
    for e in range(num_edges):
        reach[n + e, 0], reach[n + e, 1] = last[tb.edge[e, DST], 0], last[tb.edge[e, SRC], 1]
    for g in range(n + num_edges, block.shape[0]):
        reach[g, 0] = last[g, 0]
