"""The boxes of a tensor that parts write and need: intervals along each axis, and volumes of unions."""

from sim.kernels.kernel import kernel
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
    HALO,
)


@kernel
def prepare_axes(edge, src_sizes, dst_sizes, src_degrees, dst_degrees, need, meet):
    """Intervals of the tensor's axes: what each index of the consumer's dimensions needs, and which indices meet.

    Intervals only grow with the index, so the consumer's indices that meet a source index are a range.

    Args:
        edge: (EDGE_COLUMNS,) the edge.
        src_sizes: extents of the producer's dimensions; dst_sizes: of the consumer's.
        src_degrees: parts along the producer's dimensions; dst_degrees: along the consumer's.

    Modified in place: ``need[2a]`` (low) and ``need[2a + 1]`` (high) of the consumer's index along axis a;
    ``meet[2a]`` (first) and ``meet[2a + 1]`` (behind the last) of the producer's index.
    """
    for a in range(4):
        at = AXIS + a * AXIS_COLUMNS
        size, src_dim, dim = edge[at + A_SIZE], edge[at + A_SRC_DIM], edge[at + A_DIM]
        if dim < 0:
            need[2 * a, 0], need[2 * a + 1, 0] = 0, size
            continue
        degree = dst_degrees[dim]
        length = dst_sizes[dim] // degree
        stride, divisor, pad, kernel = edge[at + A_STRIDE], edge[at + A_DIVISOR], edge[at + A_PAD], edge[at + A_KERNEL]
        for y in range(degree):
            need[2 * a, y] = max(0, y * length * stride // divisor - pad)
            need[2 * a + 1, y] = min(size, ((y + 1) * length - 1) * stride // divisor - pad + kernel)
        src_degree, src_length = 1, size
        if src_dim >= 0:
            src_degree = src_degrees[src_dim]
            src_length = src_sizes[src_dim] // src_degree
        y = 0
        for x in range(src_degree):
            low, high = x * src_length, (x + 1) * src_length
            while y > 0 and need[2 * a + 1, y - 1] > low:
                y -= 1
            while y < degree and min(high, need[2 * a + 1, y]) <= max(low, need[2 * a, y]):
                y += 1
            meet[2 * a, x] = y
            while y < degree and min(high, need[2 * a + 1, y]) > max(low, need[2 * a, y]):
                y += 1
            meet[2 * a + 1, x] = y


@kernel
def coordinate(degrees, part, dim):
    """Index of a part along a dimension."""
    for d in range(3, dim, -1):
        part //= degrees[d]
    return part % degrees[dim]


@kernel
def source_box(edge, src_sizes, src_degrees, part, box):
    """The box of the edge's tensor that a source part writes.

    Modified in place: ``box``, (8,): low ends, then high ends.
    """
    for a in range(4):
        size, dim = edge[AXIS + a * AXIS_COLUMNS + A_SIZE], edge[AXIS + a * AXIS_COLUMNS + A_SRC_DIM]
        box[a], box[4 + a] = 0, size
        if dim >= 0:
            length = src_sizes[dim] // src_degrees[dim]
            index = coordinate(src_degrees, part, dim)
            box[a], box[4 + a] = index * length, (index + 1) * length


@kernel
def clipped(edge, dst_degrees, need, box, part, a):
    """What a destination part needs of the source box along axis a."""
    dim = edge[AXIS + a * AXIS_COLUMNS + A_DIM]
    y = coordinate(dst_degrees, part, dim) if dim >= 0 else 0
    return max(box[a], need[2 * a, y]), min(box[4 + a], need[2 * a + 1, y])


@kernel
def box_elements(edge, dst_degrees, need, box, part):
    """Elements of the source box that one destination part needs."""
    elements = 1
    for a in range(4):
        first, last = clipped(edge, dst_degrees, need, box, part, a)
        elements *= max(0, last - first)
    return elements


@kernel
def same_box(edge, dst_degrees, p, q):
    """Whether two destination parts need the same box."""
    for a in range(4):
        dim = edge[AXIS + a * AXIS_COLUMNS + A_DIM]
        if dim >= 0 and coordinate(dst_degrees, p, dim) != coordinate(dst_degrees, q, dim):
            return False
    return True


@kernel
def union_elements(edge, dst_degrees, need, box, parts, count):
    """Elements of the source box that at least one of the destination ``parts[:count]`` needs.

    Parts with the same indices along the windowed dimensions need the same; without halo all others' boxes are
    disjoint.
    """
    if edge[HALO]:
        return union_along(edge, dst_degrees, need, box, parts, count)
    total = 0
    for p in range(count):
        is_first = True
        for q in range(p):
            if same_box(edge, dst_degrees, parts[p], parts[q]):
                is_first = False
                break
        if is_first:
            total += box_elements(edge, dst_degrees, need, box, parts[p])
    return total


@kernel
def next_bound(edge, dst_degrees, need, box, parts, count, a, position):
    """The next interval end beyond ``position`` along axis a."""
    bound = box[4 + a]
    for p in range(count):
        first, last = clipped(edge, dst_degrees, need, box, parts[p], a)
        if position < first < bound:
            bound = first
        if position < last < bound:
            bound = last
    return bound


@kernel
def is_needed(edge, dst_degrees, need, box, parts, count, w0, w1, w2, w3):
    """Whether some destination part needs the element at (w0, w1, w2, w3)."""
    for p in range(count):
        f0, l0 = clipped(edge, dst_degrees, need, box, parts[p], 0)
        f1, l1 = clipped(edge, dst_degrees, need, box, parts[p], 1)
        f2, l2 = clipped(edge, dst_degrees, need, box, parts[p], 2)
        f3, l3 = clipped(edge, dst_degrees, need, box, parts[p], 3)
        if f0 <= w0 < l0 and f1 <= w1 < l1 and f2 <= w2 < l2 and f3 <= w3 < l3:
            return True
    return False


@kernel
def union_along(edge, dst_degrees, need, box, parts, count):
    """Volume of a union of boxes: the cells between all interval ends, each in or out."""
    total = 0
    w0 = box[0]
    while w0 < box[4]:
        e0 = next_bound(edge, dst_degrees, need, box, parts, count, 0, w0)
        w1 = box[1]
        while w1 < box[5]:
            e1 = next_bound(edge, dst_degrees, need, box, parts, count, 1, w1)
            w2 = box[2]
            while w2 < box[6]:
                e2 = next_bound(edge, dst_degrees, need, box, parts, count, 2, w2)
                w3 = box[3]
                while w3 < box[7]:
                    e3 = next_bound(edge, dst_degrees, need, box, parts, count, 3, w3)
                    if is_needed(edge, dst_degrees, need, box, parts, count, w0, w1, w2, w3):
                        total += (e0 - w0) * (e1 - w1) * (e2 - w2) * (e3 - w3)
                    w3 = e3
                w2 = e2
            w1 = e1
        w0 = e0
    return total
