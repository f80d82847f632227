"""The block of an operator: forward and backward tasks of its parts, and the exchanges between them.

Slots: P forward tasks, X forward exchanges; if training, P backward tasks, X backward exchanges.
Segment: P devices, P exchange numbers (-1: none), X + 1 pointers to member parts, the members, the rings.
"""

from sim.kernels.blocks import claim_block, pack, ring_through, rounded, set_task
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    ALL_REDUCE,
    BASE,
    COMM,
    DEGREE,
    DONE,
    EXCHANGES,
    KIND,
    MESSAGE,
    NEED_ARENA,
    NEED_SCRATCH,
    NEED_TASKS,
    PARTS,
    RING_LATENCY,
    RING_SIZE,
    ROW,
    SEG,
    SEG_TOP,
    SERIAL,
    TIMES,
    TRAINING,
    X_ACROSS,
    X_KIND,
    X_ROUNDS,
)


@kernel
def ceil_log2(p):
    """ceil(log2 p)."""
    c = 0
    while (1 << c) < p:
        c += 1
    return c


@kernel
def exchange_ns(num, real, kind, message, members, rounds):
    """Duration and bytes of an exchange on the ring made last (``sim.collectives``)."""
    size, latency, bandwidth = num[RING_SIZE], num[RING_LATENCY], real[0]
    if kind == ALL_REDUCE:
        steps = 2 * ceil_log2(size) * rounds
        return rounded(steps * (latency + message / bandwidth)), 2 * (size - 1) * message * rounds
    gathered = message * members
    steps = (size - 1) * rounds
    return rounded(steps * (latency + gathered / (size * bandwidth))), (size - 1) * gathered * rounds


@kernel
def group_parts(tb, rows, st, i, row, num_parts):
    """Number the groups of parts that differ only along the exchange's dimensions, in order of first appearance.

    Modified in place: ``st.scratch[:num_parts]`` (group of each part).

    Returns:
        How many groups there are.
    """
    op = tb.op
    scratch = st.scratch
    group_of, first = 0, num_parts
    for k in range(num_parts):
        scratch[first + k] = -1
    count = 0
    for k in range(num_parts):
        rest, kept, scale = k, 0, 1
        for d in range(3, -1, -1):
            degree = rows[row, DEGREE + d]
            if op[i, X_ACROSS + d] == 0:
                kept += scale * (rest % degree)
                scale *= degree
            rest //= degree
        if scratch[first + kept] < 0:
            scratch[first + kept] = count
            count += 1
        scratch[group_of + k] = scratch[first + kept]
    return count


@kernel
def count_exchanges(group_of, devices, num_parts, groups):
    """Groups that span several devices; the others have nothing to exchange."""
    count = 0
    for g in range(groups):
        seen = -1
        for k in range(num_parts):
            if group_of[k] == g:
                if seen >= 0 and devices[k] != seen:
                    count += 1
                    break
                seen = devices[k]
    return count


@kernel
def write_exchanges(tb, rows, st, i, row, num_parts, top):
    """Write the exchanges' pointers, members and rings behind the devices in the segment at ``top``.

    Modified in place: the arena, ``st.scratch``; the work spaces ``st.heap_time`` (durations), ``st.heap_key`` (bytes)
    and ``st.heap_task`` (where the rings end, as offsets in the segment), an entry for each exchange.

    Returns:
        How many exchanges, where their rings start, where they end (or what ``ring_through`` said).
    """
    arena, scratch, devices, op = st.arena, st.scratch, st.devices, tb.op
    groups, num_exchanges = 0, 0
    if op[i, X_KIND] != 0 and num_parts > 1:
        groups = group_parts(tb, rows, st, i, row, num_parts)
        num_exchanges = count_exchanges(scratch, devices, num_parts, groups)
    ptr = top + 2 * num_parts
    members = ptr + num_exchanges + 1
    arena[ptr] = 0
    position, x = members, 0
    if num_exchanges == 0:
        return 0, position, position
    for g in range(groups):
        start, several = position, False
        for k in range(num_parts):
            if scratch[k] == g:
                arena[position] = k
                several = several or devices[k] != devices[arena[start]]
                position += 1
        if not several:
            position = start
            continue
        for r in range(start, position):
            arena[top + num_parts + arena[r]] = x
        x += 1
        arena[ptr + x] = position - members
    rings = position
    for x in range(num_exchanges):
        first, count = members + arena[ptr + x], arena[ptr + x + 1] - arena[ptr + x]
        for r in range(count):
            scratch[2 * num_parts + r] = devices[arena[first + r]]
        position = ring_through(tb, st, scratch[2 * num_parts :], count, 3 * num_parts, position)
        if position < 0:
            break
        exe, num_bytes = exchange_ns(st.num, st.real, op[i, X_KIND], rows[row, MESSAGE], count, op[i, X_ROUNDS])
        st.heap_time[x], st.heap_key[x], st.heap_task[x] = exe, num_bytes, position - top
    return num_exchanges, rings, position


@kernel
def build_operator(tb, rows, st, i, row, num_parts):
    """Build the block of operator ``i`` with degrees ``row`` on ``st.devices[:num_parts]``.

    Modified in place: block i, its slots and segment.
    """
    device_table, training, kinds, n = tb.device, tb.flags[TRAINING], tb.update.shape[0], tb.op.shape[0]
    arena, devices, task = st.arena, st.devices, st.task
    top = st.num[SEG_TOP]
    if top + 4 * num_parts + 1 > arena.shape[0]:
        return NEED_ARENA
    if 4 * num_parts > st.scratch.shape[0]:
        return NEED_SCRATCH
    if num_parts > st.heap_time.shape[0]:
        return NEED_TASKS
    for k in range(num_parts):
        arena[top + k] = devices[k]
        arena[top + num_parts + k] = -1
    num_exchanges, rings, end = write_exchanges(tb, rows, st, i, row, num_parts, top)
    if end < 0:
        return NEED_ARENA if end == -1 else NEED_SCRATCH
    slots = num_parts + num_exchanges
    status = claim_block(st, i, slots * (1 + training), top, end - top)
    if status != DONE:
        return status
    own = st.block[i]
    own[PARTS], own[EXCHANGES], own[ROW], own[COMM], own[SERIAL] = num_parts, num_exchanges, row, 0, 0
    for backward in range(1 + training):
        phase, base = 4 * n - 2 * i - 2 if backward else 2 * i + 1, own[BASE] + backward * slots
        for k in range(num_parts):
            exe = rows[row, TIMES + backward * kinds + device_table[devices[k], KIND]]
            set_task(task, base + k, exe, pack(phase, 0, k, 0), devices[k], 1, 0)
    if num_exchanges > 0:
        fill_exchanges(tb, st, i, rings - top)
    return DONE


@kernel
def fill_exchanges(tb, st, i, start):
    """Fill the slots of an operator's exchanges; their rings start at offset ``start`` of its segment.

    Modified in place: the slots, the block's communication.
    """
    own, n, arena, task, scratch = st.block[i], tb.op.shape[0], st.arena, st.task, st.scratch
    num_parts, num_exchanges, home = own[PARTS], own[EXCHANGES], own[SEG]
    slots, ptr = num_parts + num_exchanges, home + 2 * num_parts
    members = ptr + num_exchanges + 1
    for x in range(num_exchanges):
        exe, num_bytes, end = st.heap_time[x], st.heap_key[x], st.heap_task[x]
        number = scratch[arena[members + arena[ptr + x]]]
        for backward in range(1 + tb.flags[TRAINING]):
            phase = 4 * n - 2 * i - 2 if backward else 2 * i + 1
            t = own[BASE] + backward * slots + num_parts + x
            set_task(task, t, exe, pack(phase, 1, number, 0), ~(home + start), end - start, num_bytes)
            own[COMM] += num_bytes
        start = end
