"""The block of an edge of the operator graph: its transfers, forward and mirrored.

The parts that share a sub-tensor are found by arithmetic on the intervals, axis by axis; no pair is looked at that
does not meet. Slots: m forward transfers; if training, their m mirrors.
Segment: a header of five offsets and m, then
    out: for each source part its entries; in: for each destination part its entries; dst: parts of each transfer;
    src: source part and device of each transfer.
An entry >= 0 is a transfer; ~p stands for part p itself, on the same device.
"""

from sim.kernels.blocks import claim_block, pack, rounded, set_task
from sim.kernels.boxes import prepare_axes, source_box, union_elements
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    A_DIM,
    A_SIZE,
    A_SRC_DIM,
    AXIS,
    AXIS_COLUMNS,
    BASE,
    COMM,
    DEGREE,
    DONE,
    DST,
    EXCHANGES,
    INPUT,
    NEED_ARENA,
    NEED_SCRATCH,
    NEED_TASKS,
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

# Columns of State.span: for each dimension of the consumer the range of its indices that meet a source part, the axis
# that it cuts and the source's interval there; for each dimension of the producer the part's index.
FIRST, LAST, AXIS_OF, LOW, HIGH, INDEX = 0, 1, 2, 3, 4, 5

BYTES_PER_ELEMENT = 4


@kernel
def overlap(need, axis, y, low, high):
    """Extent of what index ``y`` needs of a source's interval along an axis; 1 without an axis."""
    if axis < 0:
        return 1
    return min(high, need[2 * axis + 1, y]) - max(low, need[2 * axis, y])


@kernel
def list_pairs(tb, st, e, src_degrees, dst_degrees, src_devices, num_src, dst_devices):
    """All pairs of parts that share a sub-tensor, by source part, then destination part.

    Modified in place: ``st.scratch`` from 0: (source part, destination part, transfer or -1 if on one device);
    ``st.heap_time`` (work space): elements of each transfer, -1 where several parts of a device need some; marks.

    Returns:
        Pairs and transfers; -1 pairs if the scratch space is too small, -2 if the task slots are too few.
    """
    edge, scratch, elements, stamp, slot, num = tb.edge[e], st.scratch, st.heap_time, st.stamp, st.slot, st.num
    need, meet, span = st.need, st.meet, st.span
    limit, most = scratch.shape[0], elements.shape[0]
    mark, pairs, transfers = num[STAMP], 0, 0
    d1, d2, d3 = dst_degrees[1], dst_degrees[2], dst_degrees[3]
    for d in range(4):
        span[d, FIRST], span[d, LAST], span[d, AXIS_OF], span[d, INDEX] = 0, dst_degrees[d], -1, 0
    for s in range(num_src):
        whole = 1
        for a in range(4):
            at = AXIS + a * AXIS_COLUMNS
            dim, src_dim, length = edge[at + A_DIM], edge[at + A_SRC_DIM], edge[at + A_SIZE]
            x = 0
            if src_dim >= 0:
                length //= src_degrees[src_dim]
                x = span[src_dim, INDEX]
            if dim < 0:
                whole *= length
            else:
                span[dim, FIRST], span[dim, LAST], span[dim, AXIS_OF] = meet[2 * a, x], meet[2 * a + 1, x], a
                span[dim, LOW], span[dim, HIGH] = x * length, (x + 1) * length
        mark += 1
        here = src_devices[s]
        for y0 in range(span[0, FIRST], span[0, LAST]):
            w0 = whole * overlap(need, span[0, AXIS_OF], y0, span[0, LOW], span[0, HIGH])
            for y1 in range(span[1, FIRST], span[1, LAST]):
                w1 = w0 * overlap(need, span[1, AXIS_OF], y1, span[1, LOW], span[1, HIGH])
                for y2 in range(span[2, FIRST], span[2, LAST]):
                    w2 = w1 * overlap(need, span[2, AXIS_OF], y2, span[2, LOW], span[2, HIGH])
                    for y3 in range(span[3, FIRST], span[3, LAST]):
                        if 3 * pairs + 3 > limit:
                            return -1, 0
                        q = ((y0 * d1 + y1) * d2 + y2) * d3 + y3
                        device, transfer = dst_devices[q], -1
                        if device != here:
                            if stamp[device] != mark:
                                if transfers >= most:
                                    return -2, 0
                                stamp[device], slot[device] = mark, transfers
                                w3 = w2 * overlap(need, span[3, AXIS_OF], y3, span[3, LOW], span[3, HIGH])
                                elements[transfers] = w3
                                transfers += 1
                            else:
                                elements[slot[device]] = -1
                            transfer = slot[device]
                        scratch[3 * pairs] = s
                        scratch[3 * pairs + 1] = q
                        scratch[3 * pairs + 2] = transfer
                        pairs += 1
        for d in range(3, -1, -1):
            span[d, INDEX] += 1
            if span[d, INDEX] < src_degrees[d]:
                break
            span[d, INDEX] = 0
    num[STAMP] = mark
    return pairs, transfers


@kernel
def write_lists(arena, scratch, top, num_src, num_dst, pairs, transfers):
    """Turn the pairs in the scratch space into the segment's lists at ``top``.

    Modified in place: the arena from ``top``.

    Returns:
        Length of the segment.
    """
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


@kernel
def build_edge(tb, rows, st, e):
    """Build the block of edge ``e`` from the configs of its two operators.

    Modified in place: block n + e, its slots and segment.
    """
    b, top, arena, scratch = tb.op.shape[0] + e, st.num[SEG_TOP], st.arena, st.scratch
    edge, src, dst = tb.edge[e], tb.edge[e, SRC], tb.edge[e, DST]
    src_sizes, dst_sizes = tb.op[src, SIZE : SIZE + 4], tb.op[dst, SIZE : SIZE + 4]
    src_degrees = rows[st.block[src, ROW], DEGREE : DEGREE + 4]
    dst_degrees = rows[st.block[dst, ROW], DEGREE : DEGREE + 4]
    num_src, num_dst = st.block[src, PARTS], st.block[dst, PARTS]
    src_devices = arena[st.block[src, SEG] : st.block[src, SEG] + num_src]
    dst_devices = arena[st.block[dst, SEG] : st.block[dst, SEG] + num_dst]
    prepare_axes(edge, src_sizes, dst_sizes, src_degrees, dst_degrees, st.need, st.meet)
    pairs, transfers = list_pairs(tb, st, e, src_degrees, dst_degrees, src_devices, num_src, dst_devices)
    if pairs < 0:
        return NEED_SCRATCH if pairs == -1 else NEED_TASKS
    bound = E_HEADER + num_src + num_dst + 3 + 3 * pairs + 3 * transfers
    if top + bound > arena.shape[0]:
        return NEED_ARENA
    length = write_lists(arena, scratch, top, num_src, num_dst, pairs, transfers)
    status = claim_block(st, b, transfers * (1 + tb.flags[TRAINING]), top, length)
    if status != DONE:
        return status
    block = st.block[b]
    block[PARTS], block[EXCHANGES], block[ROW], block[COMM], block[SERIAL] = transfers, 0, 0, 0, 0
    if transfers > 0:
        fill_transfers(tb, st, edge, block, src_sizes, src_degrees, dst_degrees, src_devices, dst_devices)
    return DONE


@kernel
def fill_transfers(tb, st, edge, block, src_sizes, src_degrees, dst_degrees, src_devices, dst_devices):
    """Fill the slots of an edge's transfers, forward and mirrored.

    Modified in place: slots, devices in the segment's source list, the block's communication.
    """
    n, num_devices, training = tb.op.shape[0], tb.device.shape[0], tb.flags[TRAINING]
    arena, need, box, task, elements = st.arena, st.need, st.box, st.task, st.heap_time
    route_ptr, route_ns, route_bandwidth = tb.route_ptr, tb.route_ns, tb.route_bandwidth
    home, base, transfers = block[SEG], block[BASE], block[PARTS]
    ptr, sources = home + arena[home + E_DST_LIST], home + arena[home + E_SRC_LIST]
    entries, phase, total = ptr + transfers + 1, 2 * edge[DST], 0
    for x in range(transfers):
        s = arena[sources + 2 * x]
        first, count = entries + arena[ptr + x], arena[ptr + x + 1] - arena[ptr + x]
        q = arena[first]
        device, here = dst_devices[q], src_devices[s]
        arena[sources + 2 * x + 1] = device
        size = BYTES_PER_ELEMENT * elements[x]
        if size < 0:
            source_box(edge, src_sizes, src_degrees, s, box)
            size = BYTES_PER_ELEMENT * union_elements(edge, dst_degrees, need, box, arena[first : first + count], count)
        t, pair = base + x, here * num_devices + device
        for _ in range(1 + training):
            exe, key = rounded(route_ns[pair] + size / route_bandwidth[pair]), pack(phase, edge[INPUT], s, q)
            set_task(task, t, exe, key, route_ptr[pair], route_ptr[pair + 1] - route_ptr[pair], size)
            total += size
            # The mirror, from the consumer back.
            t, pair = t + transfers, device * num_devices + here
            phase = 4 * n - 2 * edge[DST] - 1
        phase = 2 * edge[DST]
    block[COMM] = total
