"""The cut: the earliest moment at which a new config can change the timeline."""

from sim.kernels.blocks import pack
from sim.kernels.kernel import NEVER, inlined
from sim.kernels.layout import (
    BASE,
    END,
    EXCHANGES,
    GROUP,
    IS_MERGED,
    KEY,
    NUM_TASKS,
    OVERLAP,
    PARAMETER_SERVER,
    PARTS,
    READY,
    SCHEME,
    SEG,
    SRC,
    TRAINING,
)


@inlined
def find_cut(tb, st, i, old):
    """The earliest (time, key) at which a new config of operator ``i`` can change the timeline.

    Nothing appears or disappears before the operator's old tasks and the old transfers into it, nor before the
    moment when a producer's part is complete, since all new tasks descend from these. The only exceptions are pushes
    to a parameter server and merged shards: one with gradients of other members of the operator's bucket alone may
    be ready, or vanish, as soon as these are complete.

    Args:
        old: the operator's accepted block.

    Returns:
        Time, key, and how many accepted tasks come before them.
    """
    n, best_time, best_key = tb.op.shape[0], NEVER, NEVER
    block, arena, time, task, order = st.block, st.arena, st.time, st.task, st.order
    for t in range(old[BASE], old[BASE] + old[PARTS]):
        if time[t, READY] < best_time or (time[t, READY] == best_time and task[t, KEY] < best_key):
            best_time, best_key = time[t, READY], task[t, KEY]
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
            if m == i:
                continue
            parts, home = block[m, PARTS], block[m, SEG]
            backward = block[m, BASE] + parts + block[m, EXCHANGES]
            for k in range(parts):
                x = arena[home + parts + k]
                end = time[backward + (k if x < 0 else parts + x), END]
                if end < best_time:
                    best_time, best_key = end, pack(4 * n + 4 * g, 0, 0, 0)
    first, last = 0, st.num[NUM_TASKS]
    while first < last:
        middle = (first + last) // 2
        t = order[middle]
        if time[t, READY] < best_time or (time[t, READY] == best_time and task[t, KEY] < best_key):
            first = middle + 1
        else:
            last = middle
    return best_time, best_key, first
