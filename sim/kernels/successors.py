"""The tasks that wait for a task, found from its block's lists and those of the blocks beside it."""

from sim.kernels.edges import E_COUNT, E_DST_LIST, E_IN, E_OUT, E_SRC_LIST
from sim.kernels.groups import G_ENTRY, G_NUM_PARTS, G_PARTS, G_SUCC
from sim.kernels.kernel import inlined
from sim.kernels.layout import (
    BASE,
    DST,
    EXCHANGES,
    GROUP,
    MEMBER,
    PARTS,
    SEG,
    SRC,
    TASKS,
    TRAINING,
)


@inlined
def list_successors(tb, st, t, b):
    """List the tasks that wait for task ``t`` of block ``b``. Modified in place: ``st.scratch`` from 0.

    Returns:
        How many there are, or -1 if the scratch space is too small.
    """
    n, num_edges = tb.op.shape[0], tb.edge.shape[0]
    if b < n:
        return behind_operator(tb, st, t, b)
    block, arena, out, edge = st.block, st.arena, st.scratch, tb.edge
    base, home = block[b, BASE], block[b, SEG]
    local = t - base
    if b < n + num_edges:
        transfers = arena[home + E_COUNT]
        if local >= transfers:
            src = edge[b - n, SRC]
            source = arena[home + arena[home + E_SRC_LIST] + 2 * (local - transfers)]
            out[0] = block[src, BASE] + block[src, PARTS] + block[src, EXCHANGES] + source
            return 1
        ptr, first = home + arena[home + E_DST_LIST], block[edge[b - n, DST], BASE]
        entries = ptr + transfers + 1
    else:
        ptr, first = home + arena[home + G_SUCC], base
        entries = ptr + block[b, TASKS] + 1
    start, stop = arena[ptr + local], arena[ptr + local + 1]
    if stop - start > out.shape[0]:
        return -1
    for q in range(start, stop):
        out[q - start] = first + arena[entries + q]
    return stop - start


@inlined
def behind_operator(tb, st, t, b):
    """``list_successors`` for a task of operator ``b``."""
    block, arena, out = st.block, st.arena, st.scratch
    base, home, parts = block[b, BASE], block[b, SEG], block[b, PARTS]
    slots, local = parts + block[b, EXCHANGES], t - base
    backward = local >= slots
    if backward:
        local -= slots
    if local < parts:
        x = arena[home + parts + local]
        if x < 0:
            return behind_part(tb, st, b, local, backward, 0)
        out[0] = t - local + parts + x
        return 1
    # An exchange completes all of its members.
    ptr, count = home + 2 * parts + local - parts, 0
    members = home + 2 * parts + slots - parts + 1
    for r in range(arena[ptr], arena[ptr + 1]):
        count = behind_part(tb, st, b, arena[members + r], backward, count)
        if count < 0:
            break
    return count


@inlined
def behind_part(tb, st, b, k, backward, count):
    """List what waits for part ``k`` of operator ``b`` to be complete, behind ``count`` entries.

    A part's backward task waits for the gradients of its readers; only where there are none, for its forward task.

    Modified in place: ``st.scratch``.

    Returns:
        How many entries there are, or -1 if the scratch space is too small.
    """
    n, num_edges, block, arena, out, edge = tb.op.shape[0], tb.edge.shape[0], st.block, st.arena, st.scratch, tb.edge
    parts, limit = block[b, PARTS], out.shape[0]
    if not backward:
        before = count
        for r in range(tb.out_ptr[b], tb.out_ptr[b + 1]):
            e = tb.out_edge[r]
            home = block[n + e, SEG]
            ptr = home + arena[home + E_OUT]
            start, stop = arena[ptr + k], arena[ptr + k + 1]
            if count + stop - start + 1 > limit:
                return -1
            transfer, part = block[n + e, BASE], block[edge[e, DST], BASE]
            for q in range(ptr + parts + 1 + start, ptr + parts + 1 + stop):
                entry = arena[q]
                out[count] = transfer + entry if entry >= 0 else part + ~entry
                count += 1
        if tb.flags[TRAINING] and count == before:
            if count >= limit:
                return -1
            out[count] = block[b, BASE] + parts + block[b, EXCHANGES] + k
            count += 1
        return count
    for e in range(tb.in_ptr[b], tb.in_ptr[b + 1]):
        home, src = block[n + e, SEG], edge[e, SRC]
        ptr = home + arena[home + E_IN]
        start, stop = arena[ptr + k], arena[ptr + k + 1]
        if count + stop - start > limit:
            return -1
        transfer = block[n + e, BASE] + arena[home + E_COUNT]
        part = block[src, BASE] + block[src, PARTS] + block[src, EXCHANGES]
        for q in range(ptr + parts + 1 + start, ptr + parts + 1 + stop):
            entry = arena[q]
            out[count] = transfer + entry if entry >= 0 else part + ~entry
            count += 1
    group = n + num_edges + tb.op[b, GROUP]
    if tb.op[b, GROUP] >= 0 and block[group, TASKS] > 0:
        home = block[group, SEG]
        ptr = home + arena[home + G_ENTRY]
        entries = ptr + arena[home + G_NUM_PARTS] + 1
        number = arena[home + arena[home + G_PARTS] + tb.op[b, MEMBER]] + k
        start, stop = arena[ptr + number], arena[ptr + number + 1]
        if count + stop - start > limit:
            return -1
        for q in range(entries + start, entries + stop):
            out[count] = block[group, BASE] + arena[q]
            count += 1
    return count
