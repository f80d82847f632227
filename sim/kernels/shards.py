"""The shards of a bucket, and what each device holds of them (``sim.synchronisation``).

Scratch space, from 0: for each weight group of the bucket, see PIECE_COLUMNS; the bounds of its pieces; the shard of
each piece; if shards are merged, for each device the last shard whose least device it is; the shards, see
SHARD_COLUMNS; their holders in order of first appearance; the devices of the bucket, see HELD_COLUMNS.
"""

from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    CUTS,
    INNER,
    IS_MERGED,
    LENGTH,
    PARTS,
    ROW,
    SEG,
    STAMP,
    UNIT_BYTES,
    UNITS,
    WEIGHTS,
    WEIGHTS_END,
)

# Entries of ``State.shards``: how many shards, and where in the scratch space things are.
S_COUNT, S_OF, S_TABLE, S_END = 0, 1, 2, 3

# Columns of a weight group: where its bounds are, how many pieces they make, number of the first of them.
P_BOUNDS, P_COUNT, P_FIRST, PIECE_COLUMNS = 0, 1, 2, 3

# Columns of a shard: its holders, bytes (long), bytes that are each holder's own (long), its first task, and the
# shard before with the same least device.
S_HOLDERS, S_SIZE, S_BYTES, S_OWN, S_TASK, S_BEFORE, SHARD_COLUMNS = 0, 1, 2, 4, 6, 7, 8

# Columns of held: device, bytes (long), its own bytes (long).
H_BYTES, H_OWN, HELD_COLUMNS = 1, 3, 5

LOW_BITS = 30


@kernel
def long_at(lists, at):
    """A number that takes two entries: the low bits at ``lists[at]``, then the rest."""
    return lists[at] + (lists[at + 1] << LOW_BITS)


@kernel
def put_long(lists, at, value):
    """Modified in place: ``lists[at]`` and the entry behind it (see ``long_at``)."""
    lists[at], lists[at + 1] = value & ((1 << LOW_BITS) - 1), value >> LOW_BITS


@kernel
def piece_at(scratch, bounds, count, unit):
    """The piece that starts at ``unit`` (the number of pieces at the end)."""
    first, last = 0, count
    while first < last:
        middle = (first + last) // 2
        if scratch[bounds + middle] < unit:
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def split_bytes(num_bytes, holders):
    """A holder's part of a piece, in whole elements of four bytes (``sim.synchronisation.Shard.own_bytes``)."""
    return (num_bytes + 4 * holders - 1) // (4 * holders) * 4


@kernel
def cut_weights(tb, rows, st, g):
    """Cut each weight group of bucket ``g`` where any of its operators cuts it.

    Modified in place: ``st.scratch`` from 0: the weight groups and the bounds.

    Returns:
        How many pieces there are (-1: the scratch space is too small), and the position behind the bounds.
    """
    weight, member, sharer_ptr, block = tb.weight, tb.member, tb.sharer_ptr, st.block
    scratch, first, last, limit = st.scratch, tb.group[g, WEIGHTS], tb.group[g, WEIGHTS_END], st.scratch.shape[0]
    pieces, end = 0, PIECE_COLUMNS * (last - first)
    if end > limit:
        return -1, 0
    for w in range(first, last):
        at, units, count, low = PIECE_COLUMNS * (w - first), weight[w, UNITS], 0, 0
        members = member[sharer_ptr[w] : sharer_ptr[w + 1]]
        while low < units:
            if end + count + 2 > limit:
                return -1, 0
            scratch[end + count] = low
            count += 1
            following, last_length = units, 0
            for m in members:
                length = rows[block[m, ROW], LENGTH]
                if length != last_length:
                    following = min(following, (low // length + 1) * length)
                    last_length = length
            low = following
        scratch[end + count] = units
        scratch[at + P_BOUNDS], scratch[at + P_COUNT], scratch[at + P_FIRST] = end, count, pieces
        pieces += count
        end += count + 1
    return pieces, end


@kernel
def find_shards(tb, rows, st, g, shards):
    """List the shards of bucket ``g`` and their holders: pieces, or all pieces that the same devices hold.

    Modified in place: ``st.scratch``: all but what is held; ``shards``: where it is.

    Returns:
        False if the scratch space is too small.
    """
    weight, member, sharer_ptr, is_merged = tb.weight, tb.member, tb.sharer_ptr, tb.flags[IS_MERGED]
    scratch, arena, block, stamp, num = st.scratch, st.arena, st.block, st.stamp, st.num
    limit, first_weight = scratch.shape[0], tb.group[g, WEIGHTS]
    pieces, shard_of = cut_weights(tb, rows, st, g)
    heads = shard_of + pieces
    table = heads + (tb.device.shape[0] if is_merged else 0)
    holders, count = table + SHARD_COLUMNS * pieces, 0
    if pieces < 0 or holders > limit:
        return False
    scratch[heads:table] = -1
    for w in range(first_weight, tb.group[g, WEIGHTS_END]):
        at, unit_bytes = PIECE_COLUMNS * (w - first_weight), weight[w, UNIT_BYTES]
        members, bounds = member[sharer_ptr[w] : sharer_ptr[w + 1]], scratch[at + P_BOUNDS]
        for q in range(scratch[at + P_COUNT]):
            num[STAMP] += 1
            mark, low, end = num[STAMP], scratch[bounds + q], holders
            for m in members:
                row, home, behind = block[m, ROW], block[m, SEG], block[m, SEG] + block[m, PARTS]
                inner = rows[row, INNER]
                for first in range(home + low // rows[row, LENGTH] * inner, behind, rows[row, CUTS] * inner):
                    for at_part in range(first, first + inner):
                        device = arena[at_part]
                        if stamp[device] != mark:
                            stamp[device] = mark
                            if end >= limit:
                                return False
                            scratch[end] = device
                            end += 1
            num_bytes = unit_bytes * (scratch[bounds + q + 1] - low)
            own = split_bytes(num_bytes, end - holders)
            p = find_same(scratch, stamp, mark, heads, table, holders, end, count) if is_merged else count
            entry = table + SHARD_COLUMNS * p
            if p == count:
                scratch[entry + S_HOLDERS], scratch[entry + S_SIZE] = holders, end - holders
                holders = end
                count += 1
            else:
                num_bytes += long_at(scratch, entry + S_BYTES)
                own += long_at(scratch, entry + S_OWN)
            put_long(scratch, entry + S_BYTES, num_bytes)
            put_long(scratch, entry + S_OWN, own)
            scratch[shard_of + scratch[at + P_FIRST] + q] = p
    shards[S_COUNT], shards[S_OF], shards[S_TABLE], shards[S_END] = count, shard_of, table, holders
    return True


@kernel
def find_same(scratch, stamp, mark, heads, table, holders, end, count):
    """The shard that the devices in ``scratch[holders:end]`` hold, which carry the mark; ``count`` if it is new.

    Modified in place: the new shard becomes the last one with its least device.
    """
    least = scratch[holders]
    for h in range(holders, end):
        least = min(least, scratch[h])
    p = scratch[heads + least]
    while p >= 0:
        entry = table + SHARD_COLUMNS * p
        first, size, shared = scratch[entry + S_HOLDERS], scratch[entry + S_SIZE], 0
        if size == end - holders:
            while shared < size and stamp[scratch[first + shared]] == mark:
                shared += 1
            if shared == size:
                return p
        p = scratch[entry + S_BEFORE]
    scratch[table + SHARD_COLUMNS * count + S_BEFORE] = scratch[heads + least]
    scratch[heads + least] = count
    return count


@kernel
def find_held(st, shards):
    """Devices of the bucket in order of first appearance, what each holds, and what is its own of that.

    Modified in place: ``st.scratch`` from the end of the shards: see HELD_COLUMNS; ``st.slot``: rank of each
    device, until the next marks are made.

    Returns:
        How many devices, or -1 if the scratch space is too small.
    """
    scratch, stamp, slot, num = st.scratch, st.stamp, st.slot, st.num
    num[STAMP] += 1
    mark, held, count = num[STAMP], shards[S_END], 0
    for p in range(shards[S_COUNT]):
        entry = shards[S_TABLE] + SHARD_COLUMNS * p
        first = scratch[entry + S_HOLDERS]
        num_bytes, own = long_at(scratch, entry + S_BYTES), long_at(scratch, entry + S_OWN)
        for h in range(first, first + scratch[entry + S_SIZE]):
            device = scratch[h]
            if stamp[device] != mark:
                at = held + HELD_COLUMNS * count
                if at + HELD_COLUMNS > scratch.shape[0]:
                    return -1
                stamp[device], slot[device] = mark, count
                scratch[at] = device
                put_long(scratch, at + H_BYTES, num_bytes)
                put_long(scratch, at + H_OWN, own)
                count += 1
            else:
                at = held + HELD_COLUMNS * slot[device]
                put_long(scratch, at + H_BYTES, num_bytes + long_at(scratch, at + H_BYTES))
                put_long(scratch, at + H_OWN, own + long_at(scratch, at + H_OWN))
    return count
