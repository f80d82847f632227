"""The block of a weight group: its shards, their synchronisation and the updates (``sim.synchronisation``).

Slots: an all-reduce per shard, then an update per holder. Parameter server: per shard the pushes, the update, the
pulls. ZeRO: per shard the reduce-scatter, the updates, the all-gather. Serial: none, only the block's SERIAL time.
Segment: a header of offsets, then
    parts: for each member operator its first part's number within the group; entry: for each part the tasks that wait
    for its gradient; degree: predecessors of each task; succ: successors of each task; held: for each
    device that holds some of the group its number, the units that it holds, and its own bytes if ZeRO splits them.
"""

import numpy as np
from numba import njit

from sim.kernels.blocks import claim_block, pack, ring_through, rounded, set_task, transfer_ns
from sim.kernels.collectives import collective_bytes, collective_ns, connect, gather_ns
from sim.kernels.layout import (
    BASE,
    COMM,
    CUT,
    DEGREE,
    DONE,
    EXCHANGES,
    GATHERS,
    KIND,
    NEED_ARENA,
    NEED_SCRATCH,
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
    UNIT_BYTES,
    UNITS,
    ZERO,
)

# Offsets in the segment's header.
G_PARTS, G_NUM_PARTS, G_ENTRY, G_DEGREE, G_SUCC, G_HELD, G_NUM_HELD, G_HEADER = 0, 1, 2, 3, 4, 5, 6, 7

# Columns of held: device, units, own bytes as their low bits and the rest.
HELD_UNITS, HELD_LOW, HELD_HIGH, HELD_COLUMNS = 1, 2, 3, 4
LOW_BITS = 30

# Offsets in the scratch space of ``find_holders``: where the shards' bounds and holders are.
S_SHARDS, S_LOW, S_PTR, S_HOLDERS, S_END = 0, 1, 2, 3, 4


@njit(cache=True)
def cut_degree(op, rows, block, i):
    """Parts into which operator i cuts its weights."""
    dim = op[i, CUT]
    return rows[block[i, ROW], DEGREE + dim] if dim >= 0 else 1


@njit(cache=True)
def part_rule(op, rows, block, i, index):
    """Where the parts with a given index along the cut dimension are.

    Returns:
        (first, outer, inner, step): parts first + o * step + r for o < outer, r < inner.
    """
    row, dim, num_parts = block[i, ROW], op[i, CUT], block[i, PARTS]
    if dim < 0:
        return 0, 1, num_parts, num_parts
    inner = 1
    for d in range(dim + 1, 4):
        inner *= rows[row, DEGREE + d]
    step = inner * rows[row, DEGREE + dim]
    return index * inner, num_parts // step, inner, step


@njit(cache=True)
def find_holders(tb, rows, st, g, work, shards):
    """Cut the group's weights where any member cuts them, and list the devices that hold each shard.

    Modified in place: ``st.scratch`` from ``work``: bounds of the shards, pointers, holders in order of first
    appearance; ``shards``: where these are.

    Returns:
        False if the scratch space is too small.
    """
    op, group, member, member_ptr = tb.op, tb.group, tb.member, tb.member_ptr
    scratch, arena, block, stamp, num = st.scratch, st.arena, st.block, st.stamp, st.num
    units, limit = group[g, UNITS], scratch.shape[0]
    members = member[member_ptr[g] : member_ptr[g + 1]]
    count, low = 0, 0
    while low < units:
        if work + count + 2 > limit:
            return False
        scratch[work + count] = low
        count += 1
        following, last_degree = units, 0
        for m in members:
            degree = cut_degree(op, rows, block, m)
            if degree != last_degree:
                length = units // degree
                following = min(following, (low // length + 1) * length)
                last_degree = degree
        low = following
    scratch[work + count] = units
    ptr = work + count + 1
    holders = ptr + count + 1
    end = holders
    if end > limit:
        return False
    scratch[ptr] = 0
    for p in range(count):
        num[STAMP] += 1
        mark = num[STAMP]
        for m in members:
            index = scratch[work + p] // (units // cut_degree(op, rows, block, m))
            first, outer, inner, step = part_rule(op, rows, block, m, index)
            home = block[m, SEG]
            for o in range(outer):
                for r in range(inner):
                    device = arena[home + first + o * step + r]
                    if stamp[device] != mark:
                        stamp[device] = mark
                        if end >= limit:
                            return False
                        scratch[end] = device
                        end += 1
        scratch[ptr + p + 1] = end - holders
    shards[S_SHARDS], shards[S_LOW], shards[S_PTR], shards[S_HOLDERS], shards[S_END] = count, work, ptr, holders, end
    return True


@njit(cache=True)
def update_ns(device_table, update, device, num_bytes):
    """Time of the optimizer step on some weights."""
    kind = device_table[device, KIND]
    return rounded(update[kind, 0] + num_bytes * update[kind, 1])


@njit(cache=True)
def own_bytes(lists, at):
    """The bytes that are a device's own, in its entry of held at ``lists[at]``."""
    return lists[at + HELD_LOW] + (np.int64(lists[at + HELD_HIGH]) << LOW_BITS)


@njit(cache=True)
def split_bytes(num_bytes, holders):
    """A holder's piece of a shard, in whole elements of four bytes (``sim.synchronisation.Shard.own_bytes``)."""
    return (num_bytes + 4 * holders - 1) // (4 * holders) * 4


@njit(cache=True)
def find_held(st, shards, unit_bytes):
    """Devices of the group in order of first appearance, how many units each holds, and what is its own of them.

    Modified in place: ``st.scratch`` from the end of the shards: see HELD_COLUMNS; ``st.slot``: rank of each
    device, until the next marks are made.

    Returns:
        How many devices, or -1 if the scratch space is too small.
    """
    scratch, stamp, slot, num = st.scratch, st.stamp, st.slot, st.num
    num[STAMP] += 1
    mark, held, count = num[STAMP], shards[S_END], 0
    for p in range(shards[S_SHARDS]):
        length = scratch[shards[S_LOW] + p + 1] - scratch[shards[S_LOW] + p]
        first, last = scratch[shards[S_PTR] + p], scratch[shards[S_PTR] + p + 1]
        piece = split_bytes(unit_bytes * length, last - first)
        for h in range(first, last):
            device = scratch[shards[S_HOLDERS] + h]
            if stamp[device] != mark:
                at = held + HELD_COLUMNS * count
                if at + HELD_COLUMNS > scratch.shape[0]:
                    return -1
                stamp[device], slot[device] = mark, count
                scratch[at], scratch[at + HELD_UNITS] = device, 0
                scratch[at + HELD_LOW], scratch[at + HELD_HIGH] = 0, 0
                count += 1
            at = held + HELD_COLUMNS * slot[device]
            own = own_bytes(scratch, at) + piece
            scratch[at + HELD_UNITS] += length
            scratch[at + HELD_LOW], scratch[at + HELD_HIGH] = own & ((1 << LOW_BITS) - 1), own >> LOW_BITS
    return count


@njit(cache=True)
def write_held(st, top, at, shards, num_held):
    """Copy the held devices and units into the segment at ``top + at``; returns the offset behind them."""
    scratch, arena = st.scratch, st.arena
    arena[top + G_HELD], arena[top + G_NUM_HELD] = at, num_held
    for k in range(HELD_COLUMNS * num_held):
        arena[top + at + k] = scratch[shards[S_END] + k]
    return at + HELD_COLUMNS * num_held


@njit(cache=True)
def write_entries(tb, rows, st, g, top, at, shards):
    """For each part of each member, the tasks that wait for its gradient; their predecessors are counted too.

    All-reduce: shard p's task is p. Parameter server: shard p's tasks start at the sum of 2 h - 1 over the shards
    before, holder j's push is its j-th task without the server, the update comes behind the pushes.
    Modified in place: the arena from ``top``: G_PARTS, G_ENTRY and the degrees (which must be zero).

    Returns:
        The offset behind the entries, or -1 (no room).
    """
    op, group, member, member_ptr, flags = tb.op, tb.group, tb.member, tb.member_ptr, tb.flags
    scratch, arena, block, stamp, slot, num = st.scratch, st.arena, st.block, st.stamp, st.slot, st.num
    first_member, last_member = member_ptr[g], member_ptr[g + 1]
    members = last_member - first_member
    degrees = top + arena[top + G_DEGREE]
    arena[top + G_PARTS] = at
    total = 0
    for k in range(members):
        arena[top + at + k] = total
        total += block[member[first_member + k], PARTS]
    ptr = at + members
    arena[top + G_NUM_PARTS], arena[top + G_ENTRY] = total, ptr
    entries = ptr + total + 1
    if top + entries + 1 > arena.shape[0]:
        return -1
    # How many shards each part covers, as running sums.
    position, part = 0, ptr
    arena[top + part] = 0
    units = group[g, UNITS]
    for k in range(members):
        i = member[first_member + k]
        degree = cut_degree(op, rows, block, i)
        length = units // degree
        for part_of in range(block[i, PARTS]):
            index = part_index(op, rows, block, i, part_of)
            position += shard_at(scratch, shards, (index + 1) * length) - shard_at(scratch, shards, index * length)
            part += 1
            arena[top + part] = position
    if top + entries + position > arena.shape[0]:
        return -1
    base = 0
    for p in range(shards[S_SHARDS]):
        num[STAMP] += 1
        mark = num[STAMP]
        low = scratch[shards[S_LOW] + p]
        start, stop = scratch[shards[S_PTR] + p], scratch[shards[S_PTR] + p + 1]
        for h in range(start, stop):
            device = scratch[shards[S_HOLDERS] + h]
            stamp[device], slot[device] = mark, h - start
        server = (g + p) % (stop - start)
        for k in range(members):
            i = member[first_member + k]
            length = units // cut_degree(op, rows, block, i)
            index = low // length
            first, outer, inner, step = part_rule(op, rows, block, i, index)
            rank = p - shard_at(scratch, shards, index * length)
            for o in range(outer):
                for r in range(inner):
                    part_of = first + o * step + r
                    task = p
                    if flags[SCHEME] == PARAMETER_SERVER:
                        holder = slot[arena[block[i, SEG] + part_of]]
                        task = base + push_of(holder, server, stop - start)
                    elif flags[SCHEME] == ZERO:
                        task = base
                    where = arena[top + ptr + arena[top + at + k] + part_of]
                    arena[top + entries + where + rank] = task
                    arena[degrees + task] += 1
        base += stop - start + 2 if flags[SCHEME] == ZERO else 2 * (stop - start) - 1
    return entries + position


@njit(cache=True)
def push_of(holder, server, holders):
    """Number, within a shard's tasks, of what waits for a holder's gradient: its push, or the server's update."""
    if holder == server:
        return holders - 1
    return holder if holder < server else holder - 1


@njit(cache=True)
def part_index(op, rows, block, i, part):
    """Index of a part along the dimension that cuts the weights."""
    dim, row = op[i, CUT], block[i, ROW]
    if dim < 0:
        return 0
    for d in range(3, dim, -1):
        part //= rows[row, DEGREE + d]
    return part % rows[row, DEGREE + dim]


@njit(cache=True)
def shard_at(scratch, shards, unit):
    """The shard that starts at ``unit`` (the number of shards at the end)."""
    first, last = 0, shards[S_SHARDS]
    while first < last:
        middle = (first + last) // 2
        if scratch[shards[S_LOW] + middle] < unit:
            first = middle + 1
        else:
            last = middle
    return first


@njit(cache=True)
def build_group(tb, rows, st, g):
    """Build the block of weight group ``g`` from the configs of its members.

    Modified in place: the group's block, its slots and segment.
    """
    op, member_ptr, flags, edge = tb.op, tb.member_ptr, tb.flags, tb.edge
    group, scratch, arena, block, num, shards = tb.group, st.scratch, st.arena, st.block, st.num, st.shards
    b = op.shape[0] + edge.shape[0] + g
    top = num[SEG_TOP]
    if not find_holders(tb, rows, st, g, 0, shards):
        return NEED_SCRATCH
    num_held = find_held(st, shards, group[g, UNIT_BYTES])
    if num_held < 0:
        return NEED_SCRATCH
    count = shards[S_SHARDS]
    holders = shards[S_END] - shards[S_HOLDERS]
    scheme = flags[SCHEME]
    has_server = scheme == PARAMETER_SERVER
    slots = 2 * holders - count if has_server else count + num_held
    if scheme == ZERO:
        slots = holders + 2 * count
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
    at = write_successors(tb, st, g, top, at, shards, slots)
    at = write_entries(tb, rows, st, g, top, at, shards)
    if at < 0:
        return NEED_ARENA
    rings, work = at, shards[S_END] + HELD_COLUMNS * num_held
    if not has_server:
        # The collectives' lengths must be known before the segment finds its home; they are made again when it has.
        position = top + at
        for p in range(count):
            start = scratch[shards[S_PTR] + p]
            size = scratch[shards[S_PTR] + p + 1] - start
            position = connect(tb, st, scheme, scratch[shards[S_HOLDERS] + start :], size, work, position)
            if position < 0:
                return NEED_ARENA if position == -1 else NEED_SCRATCH
        at = position - top
    status = claim_block(st, b, slots, top, at)
    if status != DONE:
        return status
    own = block[b]
    own[PARTS], own[EXCHANGES], own[ROW], own[COMM], own[SERIAL] = slots, 0, 0, 0, 0
    if has_server:
        fill_servers(tb, st, g, b, shards)
    elif scheme == ZERO:
        fill_zero(tb, st, g, b, shards, rings, work)
    else:
        fill_collectives(tb, st, g, b, shards, rings, work)
    return DONE


@njit(cache=True)
def write_successors(tb, st, g, top, at, shards, slots):
    """Successors within the group, and the degrees they cause; returns the offset behind them."""
    flags = tb.flags
    scratch, arena, slot = st.scratch, st.arena, st.slot
    count, degrees = shards[S_SHARDS], top + arena[top + G_DEGREE]
    ptr, entries = top + at, top + at + slots + 1
    position = 0
    arena[ptr] = 0
    if flags[SCHEME] not in (PARAMETER_SERVER, ZERO):
        for p in range(count):
            for h in range(scratch[shards[S_PTR] + p], scratch[shards[S_PTR] + p + 1]):
                update = count + slot[scratch[shards[S_HOLDERS] + h]]
                arena[entries + position] = update
                arena[degrees + update] += 1
                position += 1
            arena[ptr + p + 1] = position
        for t in range(count, slots):
            arena[ptr + t + 1] = position
        return at + slots + 1 + position
    base = 0
    if flags[SCHEME] == ZERO:
        for p in range(count):
            size = scratch[shards[S_PTR] + p + 1] - scratch[shards[S_PTR] + p]
            for k in range(size):
                arena[entries + position + k] = base + 1 + k
                arena[entries + position + size + k] = base + 1 + size
                arena[degrees + base + 1 + k] = 1
                arena[ptr + base + 2 + k] = position + size + k + 1
            arena[ptr + base + 1] = position + size
            position += 2 * size
            arena[ptr + base + size + 2] = position
            arena[degrees + base + 1 + size] = size
            base += size + 2
        return at + slots + 1 + position
    for p in range(count):
        pushes = scratch[shards[S_PTR] + p + 1] - scratch[shards[S_PTR] + p] - 1
        update = base + pushes
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
        base += 2 * pushes + 1
    return at + slots + 1 + position


@njit(cache=True)
def fill_collectives(tb, st, g, b, shards, rings, work):
    """Fill the slots of a group with an all-reduce per shard.

    Modified in place: slots, segment, the block's communication.
    """
    op, group, device_table, update = tb.op, tb.group, tb.device, tb.update
    scratch, arena, block, num, tasks, real = st.scratch, st.arena, st.block, st.num, st.task, st.real
    own, count = block[b], shards[S_SHARDS]
    scheme, unit_bytes, phase = tb.flags[SCHEME], group[g, UNIT_BYTES], 4 * op.shape[0] + 4 * g
    position = own[SEG] + rings
    for p in range(count):
        start = scratch[shards[S_PTR] + p]
        size = scratch[shards[S_PTR] + p + 1] - start
        end = connect(tb, st, scheme, scratch[shards[S_HOLDERS] + start :], size, work, position)
        num_bytes = unit_bytes * (scratch[shards[S_LOW] + p + 1] - scratch[shards[S_LOW] + p])
        sent = collective_bytes(num, scheme, size, num_bytes)
        exe, key = collective_ns(num, real, scheme, num_bytes), pack(phase, 0, p, 0)
        set_task(tasks, own[BASE] + p, exe, key, ~position, end - position, sent)
        own[COMM] += sent
        position = end
    held = own[SEG] + arena[own[SEG] + G_HELD]
    for k in range(arena[own[SEG] + G_NUM_HELD]):
        at = held + HELD_COLUMNS * k
        device = arena[at]
        exe = update_ns(device_table, update, device, unit_bytes * arena[at + HELD_UNITS])
        set_task(tasks, own[BASE] + count + k, exe, pack(phase + 3, 0, k, 0), device, 1, 0)


@njit(cache=True)
def fill_zero(tb, st, g, b, shards, rings, work):
    """Fill the slots of a group synchronised by ZeRO. Modified in place: slots, segment, communication."""
    group, device_table, update, gathers = tb.group, tb.device, tb.update, tb.flags[GATHERS]
    scratch, block, num, tasks, real = st.scratch, st.block, st.num, st.task, st.real
    own, unit_bytes, phase = block[b], group[g, UNIT_BYTES], 4 * tb.op.shape[0] + 4 * g
    position, t = own[SEG] + rings, own[BASE]
    for p in range(shards[S_SHARDS]):
        start = shards[S_HOLDERS] + scratch[shards[S_PTR] + p]
        size = scratch[shards[S_PTR] + p + 1] - scratch[shards[S_PTR] + p]
        end = ring_through(tb, st, scratch[start:], size, work, position)
        num_bytes = unit_bytes * (scratch[shards[S_LOW] + p + 1] - scratch[shards[S_LOW] + p])
        sent, links, piece = (size - 1) * num_bytes, end - position, split_bytes(num_bytes, size)
        exe, key = gather_ns(num, real, num_bytes, 1), pack(phase, 0, p, 0)
        set_task(tasks, t, exe, key, ~position, links, sent)
        for h in range(size):
            device = scratch[start + h]
            exe, key = update_ns(device_table, update, device, piece), pack(phase + 1, 0, p, h)
            set_task(tasks, t + 1 + h, exe, key, device, 1, 0)
        exe, key = gather_ns(num, real, num_bytes, gathers), pack(phase + 2, 0, p, 0)
        set_task(tasks, t + size + 1, exe, key, ~position, links, gathers * sent)
        own[COMM] += (1 + gathers) * sent
        position = end
        t += size + 2


@njit(cache=True)
def fill_servers(tb, st, g, b, shards):
    """Fill the slots of a group with parameter servers. Modified in place: slots, the block's communication."""
    op, group, device_table, update = tb.op, tb.group, tb.device, tb.update
    route_ptr, route_ns, route_bandwidth = tb.route_ptr, tb.route_ns, tb.route_bandwidth
    scratch, block, tasks = st.scratch, st.block, st.task
    own, num_devices = block[b], device_table.shape[0]
    phase, t = 4 * op.shape[0] + 4 * g, own[BASE]
    for p in range(shards[S_SHARDS]):
        start = shards[S_HOLDERS] + scratch[shards[S_PTR] + p]
        size = scratch[shards[S_PTR] + p + 1] - scratch[shards[S_PTR] + p]
        length = scratch[shards[S_LOW] + p + 1] - scratch[shards[S_LOW] + p]
        num_bytes, server = group[g, UNIT_BYTES] * length, scratch[start + (g + p) % size]
        exe, key = update_ns(device_table, update, server, num_bytes), pack(phase + 1, 0, p, 0)
        set_task(tasks, t + size - 1, exe, key, server, 1, 0)
        k = 0
        for h in range(size):
            device = scratch[start + h]
            if h == (g + p) % size:
                continue
            for pull in range(2):
                src, dst = (server, device) if pull else (device, server)
                pair = src * num_devices + dst
                length = route_ptr[pair + 1] - route_ptr[pair]
                exe = transfer_ns(route_ns, route_bandwidth, num_devices, src, dst, num_bytes)
                key, push = pack(phase + 2 * pull, 0, p, h), t + k + pull * size
                set_task(tasks, push, exe, key, route_ptr[pair], length, num_bytes)
                own[COMM] += num_bytes
            k += 1
        t += 2 * size - 1


@njit(cache=True)
def price_serial(tb, st, g, shards, num_held, position):
    """Synchronise shard after shard on an idle network, then the largest update (``sim.synchronisation``).

    Modified in place: ``st.scratch`` behind the shards; the arena from ``position`` (work space).

    Returns:
        Status, ns, bytes.
    """
    group, device_table, update, flags = tb.group, tb.device, tb.update, tb.flags
    route_ns, route_bandwidth, num_devices = tb.route_ns, tb.route_bandwidth, tb.device.shape[0]
    scratch, slot, num, real = st.scratch, st.slot, st.num, st.real
    unit_bytes, scheme = group[g, UNIT_BYTES], flags[SCHEME]
    held, work = shards[S_END], shards[S_END] + HELD_COLUMNS * num_held
    serial, sent = 0, 0
    if scheme == PARAMETER_SERVER:
        for k in range(num_held):
            scratch[held + HELD_COLUMNS * k + HELD_UNITS] = 0
    for p in range(shards[S_SHARDS]):
        start = shards[S_HOLDERS] + scratch[shards[S_PTR] + p]
        size = scratch[shards[S_PTR] + p + 1] - scratch[shards[S_PTR] + p]
        length = scratch[shards[S_LOW] + p + 1] - scratch[shards[S_LOW] + p]
        num_bytes = unit_bytes * length
        if scheme != PARAMETER_SERVER:
            end = connect(tb, st, scheme, scratch[start:], size, work, position)
            if end < 0:
                return NEED_ARENA if end == -1 else NEED_SCRATCH, 0, 0
            if scheme == ZERO:
                gathers = flags[GATHERS]
                serial += gather_ns(num, real, num_bytes, 1) + gather_ns(num, real, num_bytes, gathers)
                sent += (1 + gathers) * (size - 1) * num_bytes
            else:
                serial += collective_ns(num, real, scheme, num_bytes)
                sent += collective_bytes(num, scheme, size, num_bytes)
            continue
        sent += 2 * (size - 1) * num_bytes
        server = scratch[start + (g + p) % size]
        # ``find_held`` has ranked the devices.
        scratch[held + HELD_COLUMNS * slot[server] + HELD_UNITS] += length
        for h in range(size):
            device = scratch[start + h]
            serial += transfer_ns(route_ns, route_bandwidth, num_devices, device, server, num_bytes)
            serial += transfer_ns(route_ns, route_bandwidth, num_devices, server, device, num_bytes)
    slowest = 0
    for k in range(num_held):
        at = held + HELD_COLUMNS * k
        num_bytes = own_bytes(scratch, at) if scheme == ZERO else unit_bytes * scratch[at + HELD_UNITS]
        if num_bytes > 0:
            slowest = max(slowest, update_ns(device_table, update, scratch[at], num_bytes))
    return DONE, serial + slowest, sent
