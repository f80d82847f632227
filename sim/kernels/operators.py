"""The block of an operator: forward and backward tasks of its parts, and the exchanges between them.

Slots: P forward tasks, X forward exchanges; if training, P backward tasks, X backward exchanges.
Segment: P devices, P exchange numbers (-1: none), X + 1 pointers to member parts, the members, the rings.
"""

from numba import njit

from sim.kernels.blocks import claim_block, pack, ring_through, rounded, set_task
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
    PARTS,
    RING_LATENCY,
    RING_SIZE,
    ROW,
    SEG_TOP,
    SERIAL,
    TIMES,
    TRAINING,
    X_ACROSS,
    X_KIND,
    X_ROUNDS,
)


@njit(cache=True, inline="always")
def ceil_log2(p):
    """ceil(log2 p)."""
    c = 0
    while (1 << c) < p:
        c += 1
    return c


@njit(cache=True, inline="always")
def exchange_ns(st, kind, message, members, rounds):
    """Duration and bytes of an exchange on the ring made last (``sim.collectives``)."""
    size, latency, bandwidth = st.num[RING_SIZE], st.num[RING_LATENCY], st.real[0]
    if kind == ALL_REDUCE:
        steps = 2 * ceil_log2(size) * rounds
        return rounded(steps * (latency + message / bandwidth)), 2 * (size - 1) * message * rounds
    gathered = message * members
    steps = (size - 1) * rounds
    return rounded(steps * (latency + gathered / (size * bandwidth))), (size - 1) * gathered * rounds


@njit(cache=True)
def group_parts(tb, rows, st, i, row, num_parts):
    """Number the groups of parts that differ only along the exchange's dimensions, in order of first appearance.

    Modified in place: ``st.scratch[:num_parts]`` (group of each part).

    Returns:
        How many groups there are.
    """
    group_of, first = 0, num_parts
    for k in range(num_parts):
        st.scratch[first + k] = -1
    count = 0
    for k in range(num_parts):
        rest, kept, scale = k, 0, 1
        for d in range(3, -1, -1):
            degree = rows[row, DEGREE + d]
            if tb.op[i, X_ACROSS + d] == 0:
                kept += scale * (rest % degree)
                scale *= degree
            rest //= degree
        if st.scratch[first + kept] < 0:
            st.scratch[first + kept] = count
            count += 1
        st.scratch[group_of + k] = st.scratch[first + kept]
    return count


@njit(cache=True)
def build_operator(tb, rows, st, i, row, num_parts):
    """Build the block of operator ``i`` with degrees ``row`` on ``st.devices[:num_parts]``.

    Modified in place: block i, its slots and segment.
    """
    top, n = st.num[SEG_TOP], tb.op.shape[0]
    if top + 4 * num_parts + 1 > st.arena.shape[0]:
        return NEED_ARENA
    if 4 * num_parts > st.scratch.shape[0]:
        return NEED_SCRATCH
    for k in range(num_parts):
        st.arena[top + k] = st.devices[k]
        st.arena[top + num_parts + k] = -1
    num_exchanges, groups = 0, 0
    if tb.op[i, X_KIND] != 0 and num_parts > 1:
        groups = group_parts(tb, rows, st, i, row, num_parts)
        for g in range(groups):
            seen = -1
            for k in range(num_parts):
                if st.scratch[k] == g:
                    if seen >= 0 and st.devices[k] != seen:
                        num_exchanges += 1
                        break
                    seen = st.devices[k]
    ptr = top + 2 * num_parts
    members = ptr + num_exchanges + 1
    st.arena[ptr] = 0
    position, x = members, 0
    if num_exchanges > 0:
        # Groups on a single device need no exchange; the others keep their number in the key.
        for g in range(groups):
            start, several = position, False
            for k in range(num_parts):
                if st.scratch[k] == g:
                    st.arena[position] = k
                    several = several or st.devices[k] != st.devices[st.arena[start]]
                    position += 1
            if not several:
                position = start
                continue
            for r in range(start, position):
                st.arena[top + num_parts + st.arena[r]] = x
            # Until the slots are known the group's number waits where its pointer's successor will be.
            x += 1
            st.arena[ptr + x] = position - members
    rings = position
    for x in range(num_exchanges):
        count = st.arena[ptr + x + 1] - st.arena[ptr + x]
        for r in range(count):
            st.scratch[2 * num_parts + r] = st.devices[st.arena[members + st.arena[ptr + x] + r]]
        position = ring_through(tb, st, st.scratch[2 * num_parts :], count, 3 * num_parts, position)
        if position < 0:
            return NEED_ARENA if position == -1 else NEED_SCRATCH
    slots = num_parts + num_exchanges
    status = claim_block(st, i, slots * (1 + tb.flags[TRAINING]), top, position - top)
    if status != DONE:
        return status
    block = st.block[i]
    block[PARTS], block[EXCHANGES], block[ROW], block[COMM], block[SERIAL] = num_parts, num_exchanges, row, 0, 0
    kinds = tb.update.shape[0]
    for backward in range(1 + tb.flags[TRAINING]):
        phase = 4 * n - 2 * i - 2 if backward else 2 * i + 1
        for k in range(num_parts):
            device = st.devices[k]
            exe = rows[row, TIMES + backward * kinds + tb.device[device, KIND]]
            set_task(st, block[BASE] + backward * slots + k, exe, pack(phase, 0, k, 0), device, 1, 0)
    fill_exchanges(tb, rows, st, i, rings - top)
    return DONE


@njit(cache=True)
def fill_exchanges(tb, rows, st, i, rings):
    """Fill the slots of an operator's exchanges; their rings stand at offset ``rings`` of its segment.

    Modified in place: the slots, the block's communication.
    """
    block, n = st.block[i], tb.op.shape[0]
    num_parts, num_exchanges, home = block[PARTS], block[EXCHANGES], block[2]
    slots, ptr = num_parts + num_exchanges, home + 2 * num_parts
    members = ptr + num_exchanges + 1
    message, position = rows[block[ROW], MESSAGE], home + rings
    for x in range(num_exchanges):
        first, count = members + st.arena[ptr + x], st.arena[ptr + x + 1] - st.arena[ptr + x]
        for r in range(count):
            st.scratch[2 * num_parts + r] = st.arena[home + st.arena[first + r]]
        end = ring_through(tb, st, st.scratch[2 * num_parts :], count, 3 * num_parts, position)
        exe, num_bytes = exchange_ns(st, tb.op[i, X_KIND], message, count, tb.op[i, X_ROUNDS])
        number = st.scratch[st.arena[first]]
        for backward in range(1 + tb.flags[TRAINING]):
            phase = 4 * n - 2 * i - 2 if backward else 2 * i + 1
            t = block[BASE] + backward * slots + num_parts + x
            set_task(st, t, exe, pack(phase, 1, number, 0), ~position, end - position, num_bytes)
            block[COMM] += num_bytes
        position = end
