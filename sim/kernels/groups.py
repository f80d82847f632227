"""The block of a bucket: the weight groups that are synchronised together (``sim.synchronisation``).

Most buckets are one weight group; the kernels call a bucket's block a group.

Slots: an all-reduce per shard, then an update per holder. Parameter server: per shard the pushes, the update, the
pulls. ZeRO: per shard the reduce-scatter, the updates, the all-gather. Serial: none, only the block's SERIAL time.
Segment: a header of offsets, then
    parts: for each member operator its first part's number within the bucket; entry: for each part the tasks that wait
    for its gradient; degree: predecessors of each task; succ: successors of each task; held: for each
    device that holds some of the bucket its number, the bytes that it holds, and those that are its own if ZeRO
    splits them.
"""

from sim.kernels.blocks import claim_block
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    COMM,
    CUTS,
    DONE,
    EXCHANGES,
    INNER,
    LENGTH,
    NEED_ARENA,
    NEED_SCRATCH,
    NEED_TASKS,
    OVERLAP,
    PARAMETER_SERVER,
    PARTS,
    ROW,
    SCHEME,
    SEG,
    SEG_TOP,
    SERIAL,
    STAMP,
    TRAINING,
    WEIGHTS,
    WEIGHTS_END,
    ZERO,
)
from sim.kernels.shards import (
    HELD_COLUMNS,
    P_BOUNDS,
    P_COUNT,
    P_FIRST,
    PIECE_COLUMNS,
    S_COUNT,
    S_END,
    S_HOLDERS,
    S_OF,
    S_SIZE,
    S_TABLE,
    S_TASK,
    SHARD_COLUMNS,
    find_held,
    find_shards,
    piece_at,
)
from sim.kernels.synchronisation import fill_collectives, fill_servers, fill_zero, make_collectives, price_serial

# Offsets in the segment's header.
G_PARTS, G_NUM_PARTS, G_ENTRY, G_DEGREE, G_SUCC, G_HELD, G_NUM_HELD, G_HEADER = 0, 1, 2, 3, 4, 5, 6, 7


@kernel
def build_group(tb, rows, st, g):
    """Build the block of bucket ``g`` from the configs of its members.

    Modified in place: the bucket's block, its slots and segment.
    """
    member_ptr, flags = tb.member_ptr, tb.flags
    scratch, arena, block, num, shards = st.scratch, st.arena, st.block, st.num, st.shards
    b = tb.op.shape[0] + tb.edge.shape[0] + g
    top, scheme = num[SEG_TOP], flags[SCHEME]
    if not find_shards(tb, rows, st, g, shards):
        return NEED_SCRATCH
    num_held = find_held(st, shards)
    if num_held < 0:
        return NEED_SCRATCH
    holders, slots = number_tasks(scheme, scratch, shards, num_held)
    if flags[OVERLAP] == 0 or flags[TRAINING] == 0:
        slots = 0
    if top + G_HEADER + HELD_COLUMNS * num_held + 2 * slots + 1 + 2 * holders + member_ptr[g + 1] > arena.shape[0]:
        return NEED_ARENA
    at = write_held(st, top, G_HEADER, shards, num_held)
    if slots == 0:
        status, serial, sent = DONE, 0, 0
        if flags[TRAINING]:
            status, serial, sent = price_serial(tb, st, g, shards, num_held, top + at)
        if status == DONE:
            status = claim_block(st, b, 0, top, at)
        if status == DONE:
            own = block[b]
            own[PARTS], own[EXCHANGES], own[ROW], own[COMM], own[SERIAL] = 0, 0, 0, sent, serial
        return status
    arena[top + G_DEGREE] = at
    for k in range(slots):
        arena[top + at + k] = 0
    at += slots
    arena[top + G_SUCC] = at
    at = write_successors(tb, st, top, at, shards, slots)
    at = write_entries(tb, rows, st, g, top, at, shards)
    if at < 0:
        return NEED_ARENA
    rings, work = at, shards[S_END] + HELD_COLUMNS * num_held
    if scheme != PARAMETER_SERVER:
        if shards[S_COUNT] > st.heap_time.shape[0]:
            return NEED_TASKS
        position = make_collectives(tb, st, shards, work, top, at)
        if position < 0:
            return NEED_ARENA if position == -1 else NEED_SCRATCH
        at = position - top
    status = claim_block(st, b, slots, top, at)
    if status != DONE:
        return status
    own = block[b]
    own[PARTS], own[EXCHANGES], own[ROW], own[COMM], own[SERIAL] = slots, 0, 0, 0, 0
    if scheme == PARAMETER_SERVER:
        fill_servers(tb, st, g, b, shards)
    elif scheme == ZERO:
        fill_zero(tb, st, g, b, shards, rings)
    else:
        fill_collectives(tb, st, g, b, shards, num_held, rings)
    return DONE


@kernel
def number_tasks(scheme, scratch, shards, num_held):
    """Number the first task of each shard. Modified in place: the shards in ``scratch``.

    Returns:
        Holders of all shards, and how many tasks there are.
    """
    holders, task = 0, 0
    for p in range(shards[S_COUNT]):
        entry = shards[S_TABLE] + SHARD_COLUMNS * p
        size = scratch[entry + S_SIZE]
        scratch[entry + S_TASK] = task
        holders += size
        if scheme == PARAMETER_SERVER:
            task += 2 * size - 1
        else:
            task += size + 2 if scheme == ZERO else 1
    return holders, task if scheme in (PARAMETER_SERVER, ZERO) else task + num_held


@kernel
def write_held(st, top, at, shards, num_held):
    """Copy what the devices hold into the segment at ``top + at``; returns the offset behind it."""
    scratch, arena = st.scratch, st.arena
    arena[top + G_HELD], arena[top + G_NUM_HELD] = at, num_held
    for k in range(HELD_COLUMNS * num_held):
        arena[top + at + k] = scratch[shards[S_END] + k]
    return at + HELD_COLUMNS * num_held


@kernel
def write_successors(tb, st, top, at, shards, slots):
    """Successors within the bucket, and the degrees they cause; returns the offset behind them."""
    scheme, scratch, arena, slot = tb.flags[SCHEME], st.scratch, st.arena, st.slot
    count, degrees = shards[S_COUNT], top + arena[top + G_DEGREE]
    ptr, entries = top + at, top + at + slots + 1
    position = 0
    arena[ptr] = 0
    for p in range(count):
        entry = shards[S_TABLE] + SHARD_COLUMNS * p
        first, size, base = scratch[entry + S_HOLDERS], scratch[entry + S_SIZE], scratch[entry + S_TASK]
        if scheme == ZERO:
            for k in range(size):
                arena[entries + position + k] = base + 1 + k
                arena[entries + position + size + k] = base + 1 + size
                arena[degrees + base + 1 + k] = 1
                arena[ptr + base + 2 + k] = position + size + k + 1
            arena[ptr + base + 1] = position + size
            position += 2 * size
            arena[ptr + base + size + 2] = position
            arena[degrees + base + 1 + size] = size
        elif scheme == PARAMETER_SERVER:
            pushes, update = size - 1, base + size - 1
            for k in range(pushes):
                arena[entries + position] = update
                position += 1
                arena[ptr + base + k + 1] = position
            arena[degrees + update] += pushes
            for k in range(pushes):
                arena[entries + position] = update + 1 + k
                arena[degrees + update + 1 + k] = 1
                position += 1
            for k in range(pushes + 1):
                arena[ptr + update + k + 1] = position
        else:
            for h in range(first, first + size):
                update = count + slot[scratch[h]]  # ``find_held`` has ranked the devices
                arena[entries + position] = update
                arena[degrees + update] += 1
                position += 1
            arena[ptr + p + 1] = position
    if scheme != PARAMETER_SERVER and scheme != ZERO:
        for t in range(count, slots):
            arena[ptr + t + 1] = position
    return at + slots + 1 + position


@kernel
def write_entries(tb, rows, st, g, top, at, shards):
    """For each part of each member, the tasks that wait for its gradient; their predecessors are counted too.

    These are the first task of each shard that holds a piece of the part's weights. Parameter server: holder j's push
    is the shard's j-th task without the server, the update comes behind the pushes.
    Modified in place: the arena from ``top``: G_PARTS, G_ENTRY and the degrees (which must be zero).

    Returns:
        The offset behind the entries, or -1 (no room).
    """
    member_ptr, member, sharer_ptr, scheme = tb.member_ptr, tb.member, tb.sharer_ptr, tb.flags[SCHEME]
    scratch, arena, block, stamp, slot, num = st.scratch, st.arena, st.block, st.stamp, st.slot, st.num
    first_member, first_weight = member_ptr[g], tb.group[g, WEIGHTS]
    degrees = top + arena[top + G_DEGREE]
    at, entries, position = cover_parts(tb, rows, st, g, top, at)
    if at < 0:
        return -1
    ptr = arena[top + G_ENTRY]
    for w in range(first_weight, tb.group[g, WEIGHTS_END]):
        group = PIECE_COLUMNS * (w - first_weight)
        bounds, count = scratch[group + P_BOUNDS], scratch[group + P_COUNT]
        for q in range(count):
            p = scratch[shards[S_OF] + scratch[group + P_FIRST] + q]
            entry = shards[S_TABLE] + SHARD_COLUMNS * p
            start, size, low = scratch[entry + S_HOLDERS], scratch[entry + S_SIZE], scratch[bounds + q]
            task, server = scratch[entry + S_TASK], (g + p) % size
            if scheme == PARAMETER_SERVER:
                num[STAMP] += 1
                for h in range(start, start + size):
                    stamp[scratch[h]], slot[scratch[h]] = num[STAMP], h - start
            for k in range(sharer_ptr[w], sharer_ptr[w + 1]):
                i = member[k]
                row = block[i, ROW]
                index, inner = low // rows[row, LENGTH], rows[row, INNER]
                rank = q - piece_at(scratch, bounds, count, index * rows[row, LENGTH])
                parts = ptr + arena[top + arena[top + G_PARTS] + k - first_member]
                for first in range(index * inner, block[i, PARTS], rows[row, CUTS] * inner):
                    for part in range(first, first + inner):
                        waiting = task
                        if scheme == PARAMETER_SERVER:
                            waiting += push_of(slot[arena[block[i, SEG] + part]], server, size)
                        arena[top + entries + arena[top + parts + part] + rank] = waiting
                        arena[degrees + waiting] += 1
    return entries + position


@kernel
def cover_parts(tb, rows, st, g, top, at):
    """Count the pieces that each part's weights consist of.

    Modified in place: the arena from ``top``: G_PARTS, and the running sums of G_ENTRY.

    Returns:
        ``at`` (-1: no room), the offset behind the running sums, and all pieces of all parts.
    """
    member_ptr, member, sharer_ptr = tb.member_ptr, tb.member, tb.sharer_ptr
    scratch, arena, block = st.scratch, st.arena, st.block
    first_member, first_weight = member_ptr[g], tb.group[g, WEIGHTS]
    members = member_ptr[g + 1] - first_member
    arena[top + G_PARTS] = at
    total = 0
    for k in range(members):
        arena[top + at + k] = total
        total += block[member[first_member + k], PARTS]
    ptr = at + members
    arena[top + G_NUM_PARTS], arena[top + G_ENTRY] = total, ptr
    entries = ptr + total + 1
    if top + entries + 1 > arena.shape[0]:
        return -1, 0, 0
    position, part = 0, top + ptr
    arena[part] = 0
    for w in range(first_weight, tb.group[g, WEIGHTS_END]):
        group = PIECE_COLUMNS * (w - first_weight)
        bounds, count = scratch[group + P_BOUNDS], scratch[group + P_COUNT]
        for k in range(sharer_ptr[w], sharer_ptr[w + 1]):
            i = member[k]
            row = block[i, ROW]
            length, inner, cuts = rows[row, LENGTH], rows[row, INNER], rows[row, CUTS]
            for part_of in range(block[i, PARTS]):
                low = part_of // inner % cuts * length
                position += piece_at(scratch, bounds, count, low + length) - piece_at(scratch, bounds, count, low)
                part += 1
                arena[part] = position
    if top + entries + position > arena.shape[0]:
        return -1, 0, 0
    return at, entries, position


@kernel
def push_of(holder, server, holders):
    """Number, within a shard's tasks, of what waits for a holder's gradient: its push, or the server's update."""
    if holder == server:
        return holders - 1
    return holder if holder < server else holder - 1
