"""The block of an edge of the operator graph: its transfers, forward and mirrored.

The parts that share a sub-tensor are found by arithmetic on the intervals, axis by axis; no pair is looked at that
does not meet. Slots: m forward transfers; if training, their m mirrors.
Segment: a header of five offsets and m, then
    out: for each source part its entries; in: for each destination part its entries; dst: parts of each transfer;
    src: source part and device of each transfer.
An entry >= 0 is a transfer; ~p stands for part p itself, on the same device.
"""

from numba import njit

from sim.kernels.blocks import claim_block, pack, set_task, transfer_ns
from sim.kernels.layout import (
    A_DIM,
    A_DIVISOR,
    A_KERNEL,
    A_PAD,
    A_SIZE,
    A_SRC_DIM,
    A_STRIDE,
    AXIS,
    AXIS_COLUMNS,
    BASE,
    COMM,
    DEGREE,
    DONE,
    DST,
    EXCHANGES,
    HALO,
    INPUT,
    NEED_ARENA,
    NEED_SCRATCH,
    PARTS,
    ROW,
    SEG,
    SEG_TOP,
    SERIAL,
    SIZE,
    SRC,
    STAMP,
    TRAINING,
)

# Offsets in the segment's header.
E_OUT, E_IN, E_DST_LIST, E_SRC_LIST, E_COUNT, E_HEADER = 0, 1, 2, 3, 4, 5

BYTES_PER_ELEMENT = 4


@njit(cache=True)
def needed_intervals(tb, rows, st, e, dst_row):
    """Intervals of the tensor's axes that each index of the consumer's dimensions needs.

    Modified in place: ``st.need[2a]`` (low) and ``st.need[2a + 1]`` (high) for axis a.
    """
    dst = tb.edge[e, DST]
    for a in range(4):
        axis = tb.edge[e, AXIS + a * AXIS_COLUMNS : AXIS + (a + 1) * AXIS_COLUMNS]
        dim = axis[A_DIM]
        if dim < 0:
            st.need[2 * a, 0], st.need[2 * a + 1, 0] = 0, axis[A_SIZE]
            continue
        degree = rows[dst_row, DEGREE + dim]
        length = tb.op[dst, SIZE + dim] // degree
        for y in range(degree):
            first = y * length * axis[A_STRIDE] // axis[A_DIVISOR] - axis[A_PAD]
            last = ((y + 1) * length - 1) * axis[A_STRIDE] // axis[A_DIVISOR] - axis[A_PAD]
            st.need[2 * a, y] = max(0, first)
            st.need[2 * a + 1, y] = min(axis[A_SIZE], last + axis[A_KERNEL])


@njit(cache=True)
def union_elements(tb, rows, st, e, dst_row, low, high, parts, count):
    """Elements of [low, high) that at least one of the destination ``parts[:count]`` needs.

    Boxes with the same indices along the windowed dimensions are equal; without halo all others are disjoint.
    """
    windowed = tb.edge[e, AXIS + A_DIM :: AXIS_COLUMNS]
    total = 0
    if tb.edge[e, HALO] == 0:
        for p in range(count):
            is_first = True
            for q in range(p):
                if same_box(rows, dst_row, windowed, parts[p], parts[q]):
                    is_first = False
                    break
            if is_first:
                total += box_elements(rows, st, dst_row, windowed, low, high, parts[p])
        return total
    # Every element of the source box is in or out: walk along the first axis in runs that all boxes treat alike.
    return union_along(rows, st, dst_row, windowed, low, high, parts, count)


@njit(cache=True, inline="always")
def coordinate(rows, row, part, dim):
    """Index of a part along a dimension."""
    for d in range(3, dim, -1):
        part //= rows[row, DEGREE + d]
    return part % rows[row, DEGREE + dim]


@njit(cache=True, inline="always")
def same_box(rows, row, windowed, p, q):
    """Whether two destination parts need the same box."""
    for a in range(4):
        dim = windowed[a]
        if dim >= 0 and coordinate(rows, row, p, dim) != coordinate(rows, row, q, dim):
            return False
    return True


@njit(cache=True, inline="always")
def clipped(rows, st, row, windowed, low, high, part, a):
    """What a destination part needs of the source box along axis a."""
    y = coordinate(rows, row, part, windowed[a]) if windowed[a] >= 0 else 0
    return max(low[a], st.need[2 * a, y]), min(high[a], st.need[2 * a + 1, y])


@njit(cache=True, inline="always")
def box_elements(rows, st, row, windowed, low, high, part):
    """Elements of the source box that one destination part needs."""
    elements = 1
    for a in range(4):
        first, last = clipped(rows, st, row, windowed, low, high, part, a)
        elements *= max(0, last - first)
    return elements


@njit(cache=True)
def next_bound(rows, st, row, windowed, low, high, parts, count, a, position):
    """The next interval end beyond ``position`` along axis a."""
    bound = high[a]
    for p in range(count):
        first, last = clipped(rows, st, row, windowed, low, high, parts[p], a)
        if position < first < bound:
            bound = first
        if position < last < bound:
            bound = last
    return bound


@njit(cache=True)
def union_along(rows, st, row, windowed, low, high, parts, count):
    """Volume of a union of boxes: the cells between all interval ends, each in or out."""
    total = 0
    w0 = low[0]
    while w0 < high[0]:
        e0 = next_bound(rows, st, row, windowed, low, high, parts, count, 0, w0)
        w1 = low[1]
        while w1 < high[1]:
            e1 = next_bound(rows, st, row, windowed, low, high, parts, count, 1, w1)
            w2 = low[2]
            while w2 < high[2]:
                e2 = next_bound(rows, st, row, windowed, low, high, parts, count, 2, w2)
                w3 = low[3]
                while w3 < high[3]:
                    e3 = next_bound(rows, st, row, windowed, low, high, parts, count, 3, w3)
                    for p in range(count):
                        f0, l0 = clipped(rows, st, row, windowed, low, high, parts[p], 0)
                        f1, l1 = clipped(rows, st, row, windowed, low, high, parts[p], 1)
                        f2, l2 = clipped(rows, st, row, windowed, low, high, parts[p], 2)
                        f3, l3 = clipped(rows, st, row, windowed, low, high, parts[p], 3)
                        if f0 <= w0 < l0 and f1 <= w1 < l1 and f2 <= w2 < l2 and f3 <= w3 < l3:
                            total += (e0 - w0) * (e1 - w1) * (e2 - w2) * (e3 - w3)
                            break
                    w3 = e3
                w2 = e2
            w1 = e1
        w0 = e0
    return total


@njit(cache=True, inline="always")
def source_box(tb, rows, e, src_row, part, low, high):
    """The box of the edge's tensor that a source part writes. Modified in place: ``low`` and ``high``, (4,)."""
    src = tb.edge[e, SRC]
    for a in range(4):
        size, dim = tb.edge[e, AXIS + a * AXIS_COLUMNS + A_SIZE], tb.edge[e, AXIS + a * AXIS_COLUMNS + A_SRC_DIM]
        low[a], high[a] = 0, size
        if dim >= 0:
            length = tb.op[src, SIZE + dim] // rows[src_row, DEGREE + dim]
            index = coordinate(rows, src_row, part, dim)
            low[a], high[a] = index * length, (index + 1) * length


@njit(cache=True, inline="always")
def meeting_range(tb, rows, st, e, dst_row, low, high, first, last):
    """Indices along each consumer dimension whose needs meet the source box.

    Intervals only grow with the index, so the indices that meet are a range.
    Modified in place: ``first`` and ``last`` (exclusive), (4,).
    """
    for d in range(4):
        first[d], last[d] = 0, rows[dst_row, DEGREE + d]
    for a in range(4):
        dim = tb.edge[e, AXIS + a * AXIS_COLUMNS + A_DIM]
        if dim < 0:
            continue
        y, end = first[dim], last[dim]
        while y < end and min(high[a], st.need[2 * a + 1, y]) <= max(low[a], st.need[2 * a, y]):
            y += 1
        first[dim] = y
        while y < end and min(high[a], st.need[2 * a + 1, y]) > max(low[a], st.need[2 * a, y]):
            y += 1
        last[dim] = y


@njit(cache=True)
def list_pairs(tb, rows, st, e, bounds):
    """All pairs of parts that share a sub-tensor, by source part, then destination part.

    Modified in place: ``st.scratch`` from 0: (source part, destination part, transfer or -1 if on one device).

    Returns:
        Pairs and transfers, or -1 pairs if the scratch space is too small.
    """
    src, dst = tb.edge[e, SRC], tb.edge[e, DST]
    src_row, dst_row = st.block[src, ROW], st.block[dst, ROW]
    src_devices, dst_devices = st.arena[st.block[src, SEG] :], st.arena[st.block[dst, SEG] :]
    low, high, first, last = bounds[0], bounds[1], bounds[2], bounds[3]
    d1, d2, d3 = rows[dst_row, DEGREE + 1], rows[dst_row, DEGREE + 2], rows[dst_row, DEGREE + 3]
    limit = st.scratch.shape[0]
    pairs, transfers = 0, 0
    for s in range(st.block[src, PARTS]):
        source_box(tb, rows, e, src_row, s, low, high)
        meeting_range(tb, rows, st, e, dst_row, low, high, first, last)
        st.num[STAMP] += 1
        mark, here = st.num[STAMP], src_devices[s]
        for y0 in range(first[0], last[0]):
            for y1 in range(first[1], last[1]):
                for y2 in range(first[2], last[2]):
                    for y3 in range(first[3], last[3]):
                        if 3 * pairs + 3 > limit:
                            return -1, 0
                        q = ((y0 * d1 + y1) * d2 + y2) * d3 + y3
                        device, transfer = dst_devices[q], -1
                        if device != here:
                            if st.stamp[device] != mark:
                                st.stamp[device], st.slot[device] = mark, transfers
                                transfers += 1
                            transfer = st.slot[device]
                        st.scratch[3 * pairs] = s
                        st.scratch[3 * pairs + 1] = q
                        st.scratch[3 * pairs + 2] = transfer
                        pairs += 1
    return pairs, transfers


@njit(cache=True)
def write_lists(st, top, num_src, num_dst, pairs, transfers):
    """Turn the pairs in the scratch space into the segment's lists at ``top``.

    Modified in place: the arena from ``top``.

    Returns:
        Length of the segment.
    """
    arena, scratch = st.arena, st.scratch
    out = E_HEADER
    into = out + num_src + 1 + pairs
    dst_list = into + num_dst + 1 + pairs
    src_list = dst_list + transfers + 1 + pairs
    arena[top + E_OUT], arena[top + E_IN], arena[top + E_DST_LIST] = out, into, dst_list
    arena[top + E_SRC_LIST], arena[top + E_COUNT] = src_list, transfers
    for k in range(out, src_list):
        arena[top + k] = 0
    # Counts first, one place ahead; then running sums; then the entries, in the order of the pairs.
    known = -1
    for p in range(pairs):
        s, q, x = scratch[3 * p], scratch[3 * p + 1], scratch[3 * p + 2]
        arena[top + into + q + 1] += 1
        if x < 0 or x > known:
            arena[top + out + s + 1] += 1
        if x >= 0:
            arena[top + dst_list + x + 1] += 1
            known = max(known, x)
    for s in range(num_src):
        arena[top + out + s + 1] += arena[top + out + s]
    for q in range(num_dst):
        arena[top + into + q + 1] += arena[top + into + q]
    for x in range(transfers):
        arena[top + dst_list + x + 1] += arena[top + dst_list + x]
    out_entries, in_entries = top + out + num_src + 1, top + into + num_dst + 1
    dst_entries = top + dst_list + transfers + 1
    known, position = -1, out_entries
    for p in range(pairs):
        s, q, x = scratch[3 * p], scratch[3 * p + 1], scratch[3 * p + 2]
        if x < 0 or x > known:
            arena[position] = x if x >= 0 else ~q
            position += 1
            known = max(known, x)
            if x >= 0:
                arena[top + src_list + 2 * x] = s
    # The pointers serve as cursors and are shifted back afterwards.
    for p in range(pairs):
        s, q, x = scratch[3 * p], scratch[3 * p + 1], scratch[3 * p + 2]
        arena[in_entries + arena[top + into + q]] = x if x >= 0 else ~s
        arena[top + into + q] += 1
        if x >= 0:
            arena[dst_entries + arena[top + dst_list + x]] = q
            arena[top + dst_list + x] += 1
    for q in range(num_dst, 0, -1):
        arena[top + into + q] = arena[top + into + q - 1]
    arena[top + into] = 0
    for x in range(transfers, 0, -1):
        arena[top + dst_list + x] = arena[top + dst_list + x - 1]
    arena[top + dst_list] = 0
    return src_list + 2 * transfers


@njit(cache=True)
def build_edge(tb, rows, st, e, bounds):
    """Build the block of edge ``e`` from the configs of its two operators.

    Args:
        bounds: (4, 4) int64 work space.

    Modified in place: block n + e, its slots and segment.
    """
    n, b, top = tb.op.shape[0], tb.op.shape[0] + e, st.num[SEG_TOP]
    src, dst = tb.edge[e, SRC], tb.edge[e, DST]
    src_row, dst_row = st.block[src, ROW], st.block[dst, ROW]
    num_src, num_dst = st.block[src, PARTS], st.block[dst, PARTS]
    needed_intervals(tb, rows, st, e, dst_row)
    pairs, transfers = list_pairs(tb, rows, st, e, bounds)
    if pairs < 0:
        return NEED_SCRATCH
    bound = E_HEADER + num_src + num_dst + 3 + 3 * pairs + 3 * transfers
    if top + bound > st.arena.shape[0]:
        return NEED_ARENA
    length = write_lists(st, top, num_src, num_dst, pairs, transfers)
    status = claim_block(st, b, transfers * (1 + tb.flags[TRAINING]), top, length)
    if status != DONE:
        return status
    block = st.block[b]
    block[PARTS], block[EXCHANGES], block[ROW], block[COMM], block[SERIAL] = transfers, 0, 0, 0, 0
    home, base = block[SEG], block[BASE]
    src_devices, dst_devices = st.arena[st.block[src, SEG] :], st.arena[st.block[dst, SEG] :]
    ptr, sources = home + st.arena[home + E_DST_LIST], home + st.arena[home + E_SRC_LIST]
    num_devices = tb.device.shape[0]
    windowed = tb.edge[e, AXIS + A_DIM :: AXIS_COLUMNS]
    low, high = bounds[0], bounds[1]
    last_source = -1
    for x in range(transfers):
        s = st.arena[sources + 2 * x]
        if s != last_source:
            source_box(tb, rows, e, src_row, s, low, high)
            last_source = s
        first, count = ptr + transfers + 1 + st.arena[ptr + x], st.arena[ptr + x + 1] - st.arena[ptr + x]
        q = st.arena[first]
        device, here = dst_devices[q], src_devices[s]
        st.arena[sources + 2 * x + 1] = device
        if count == 1:
            elements = box_elements(rows, st, dst_row, windowed, low, high, q)
        else:
            elements = union_elements(tb, rows, st, e, dst_row, low, high, st.arena[first:], count)
        num_bytes = BYTES_PER_ELEMENT * elements
        for backward in range(1 + tb.flags[TRAINING]):
            phase = 4 * n - 2 * dst - 1 if backward else 2 * dst
            pair = device * num_devices + here if backward else here * num_devices + device
            exe = transfer_ns(tb, device, here, num_bytes) if backward else transfer_ns(tb, here, device, num_bytes)
            key = pack(phase, tb.edge[e, INPUT], s, q)
            length = tb.route_ptr[pair + 1] - tb.route_ptr[pair]
            set_task(st, base + backward * transfers + x, exe, key, tb.route_ptr[pair], length, num_bytes)
            block[COMM] += num_bytes
    return DONE
