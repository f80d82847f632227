"""The tasks of a bucket, scheme by scheme: durations, keys and resources (``sim.synchronisation``)."""

from sim.kernels.blocks import pack, rounded, set_task, transfer_ns
from sim.kernels.collectives import collective_bytes, collective_ns, connect, gather_ns, scatter_ns
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    BASE,
    COMM,
    DONE,
    GATHERS,
    KIND,
    NEED_ARENA,
    NEED_SCRATCH,
    PARAMETER_SERVER,
    SCHEME,
    SEG,
    ZERO,
)
from sim.kernels.shards import (
    H_BYTES,
    H_OWN,
    HELD_COLUMNS,
    S_BYTES,
    S_COUNT,
    S_END,
    S_HOLDERS,
    S_OWN,
    S_SIZE,
    S_TABLE,
    SHARD_COLUMNS,
    long_at,
    put_long,
)


@kernel
def update_ns(device_table, update, device, num_bytes):
    """Time of the optimizer step on some weights."""
    kind = device_table[device, KIND]
    return rounded(update[kind, 0] + num_bytes * update[kind, 1])


@kernel
def make_collectives(tb, st, shards, work, top, at):
    """List what each shard's collective occupies in the segment at ``top``, from offset ``at`` on.

    Modified in place: the arena; an entry for each shard in the work spaces ``st.heap_time`` (duration),
    ``st.heap_key`` (bytes) and ``st.heap_task`` (where its list ends, as an offset).

    Returns:
        The position behind the lists, or what ``connect`` said.
    """
    scratch, num, real, scheme, position = st.scratch, st.num, st.real, tb.flags[SCHEME], top + at
    for p in range(shards[S_COUNT]):
        entry = shards[S_TABLE] + SHARD_COLUMNS * p
        size, num_bytes = scratch[entry + S_SIZE], long_at(scratch, entry + S_BYTES)
        position = connect(tb, st, scheme, scratch[scratch[entry + S_HOLDERS] :], size, work, position)
        if position < 0:
            break
        if scheme == ZERO:
            st.heap_time[p] = scatter_ns(tb, num, real, num_bytes)
            st.heap_key[p] = gather_ns(num, real, num_bytes, tb.flags[GATHERS])
        else:
            st.heap_time[p] = collective_ns(tb, num, real, scheme, num_bytes)
            st.heap_key[p] = collective_bytes(num, scheme, size, num_bytes)
        st.heap_task[p] = position - top
    return position


@kernel
def fill_collectives(tb, st, g, b, shards, num_held, rings):
    """Fill the slots of a bucket with the all-reduces that ``make_collectives`` made, then an update per device.

    Modified in place: slots, the block's communication.
    """
    op, device_table, update = tb.op, tb.device, tb.update
    scratch, block, tasks, start = st.scratch, st.block, st.task, rings
    base, home, count, phase = block[b, BASE], block[b, SEG], shards[S_COUNT], 4 * op.shape[0] + 4 * g
    for p in range(count):
        exe, sent, end = st.heap_time[p], st.heap_key[p], st.heap_task[p]
        set_task(tasks, base + p, exe, pack(phase, 0, p, 0), ~(home + start), end - start, sent)
        block[b, COMM] += sent
        start = end
    for k in range(num_held):
        at = shards[S_END] + HELD_COLUMNS * k
        device = scratch[at]
        exe = update_ns(device_table, update, device, long_at(scratch, at + H_BYTES))
        set_task(tasks, base + count + k, exe, pack(phase + 3, 0, k, 0), device, 1, 0)


@kernel
def fill_zero(tb, st, g, b, shards, rings):
    """Fill the slots of a bucket with what ``make_collectives`` made for ZeRO, and the updates.

    Modified in place: slots, the block's communication.
    """
    device_table, update, gathers = tb.device, tb.update, tb.flags[GATHERS]
    scratch, block, tasks = st.scratch, st.block, st.task
    phase, home, position, t = 4 * tb.op.shape[0] + 4 * g, block[b, SEG], rings, block[b, BASE]
    for p in range(shards[S_COUNT]):
        entry = shards[S_TABLE] + SHARD_COLUMNS * p
        start, size = scratch[entry + S_HOLDERS], scratch[entry + S_SIZE]
        sent, end = (size - 1) * long_at(scratch, entry + S_BYTES), st.heap_task[p]
        first, length = ~(home + position), end - position
        set_task(tasks, t, st.heap_time[p], pack(phase, 0, p, 0), first, length, sent)
        for h in range(size):
            device = scratch[start + h]
            exe = update_ns(device_table, update, device, long_at(scratch, entry + S_OWN))
            set_task(tasks, t + 1 + h, exe, pack(phase + 1, 0, p, h), device, 1, 0)
        set_task(tasks, t + size + 1, st.heap_key[p], pack(phase + 2, 0, p, 0), first, length, gathers * sent)
        block[b, COMM] += (1 + gathers) * sent
        position = end
        t += size + 2


@kernel
def fill_servers(tb, st, g, b, shards):
    """Fill the slots of a bucket with parameter servers. Modified in place: slots, the block's communication."""
    op, device_table, update = tb.op, tb.device, tb.update
    route_ptr, route_ns, route_bandwidth = tb.route_ptr, tb.route_ns, tb.route_bandwidth
    scratch, block, tasks = st.scratch, st.block, st.task
    own, num_devices = block[b], device_table.shape[0]
    phase, t = 4 * op.shape[0] + 4 * g, own[BASE]
    for p in range(shards[S_COUNT]):
        entry = shards[S_TABLE] + SHARD_COLUMNS * p
        start, size = scratch[entry + S_HOLDERS], scratch[entry + S_SIZE]
        num_bytes, server = long_at(scratch, entry + S_BYTES), scratch[start + (g + p) % size]
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


@kernel
def price_serial(tb, st, g, shards, num_held, position):
    """Synchronise shard after shard on an idle network, then the largest update (``sim.synchronisation``).

    Modified in place: ``st.scratch`` behind the shards; the arena from ``position`` (work space).

    Returns:
        Status, ns, bytes.
    """
    device_table, update, scheme, gathers = tb.device, tb.update, tb.flags[SCHEME], tb.flags[GATHERS]
    route_ns, route_bandwidth, num_devices = tb.route_ns, tb.route_bandwidth, tb.device.shape[0]
    scratch, slot, num, real = st.scratch, st.slot, st.num, st.real
    held, work = shards[S_END], shards[S_END] + HELD_COLUMNS * num_held
    serial, sent = 0, 0
    if scheme == PARAMETER_SERVER:
        for k in range(num_held):
            put_long(scratch, held + HELD_COLUMNS * k + H_BYTES, 0)
    for p in range(shards[S_COUNT]):
        entry = shards[S_TABLE] + SHARD_COLUMNS * p
        start, size = scratch[entry + S_HOLDERS], scratch[entry + S_SIZE]
        num_bytes = long_at(scratch, entry + S_BYTES)
        if scheme != PARAMETER_SERVER:
            end = connect(tb, st, scheme, scratch[start:], size, work, position)
            if end < 0:
                return NEED_ARENA if end == -1 else NEED_SCRATCH, 0, 0
            if scheme == ZERO:
                serial += scatter_ns(tb, num, real, num_bytes) + gather_ns(num, real, num_bytes, gathers)
                sent += (1 + gathers) * (size - 1) * num_bytes
            else:
                serial += collective_ns(tb, num, real, scheme, num_bytes)
                sent += collective_bytes(num, scheme, size, num_bytes)
            continue
        sent += 2 * (size - 1) * num_bytes
        server = scratch[start + (g + p) % size]
        # ``find_held`` has ranked the devices.
        at = held + HELD_COLUMNS * slot[server] + H_BYTES
        put_long(scratch, at, num_bytes + long_at(scratch, at))
        for h in range(size):
            device = scratch[start + h]
            serial += transfer_ns(route_ns, route_bandwidth, num_devices, device, server, num_bytes)
            serial += transfer_ns(route_ns, route_bandwidth, num_devices, server, device, num_bytes)
    slowest = 0
    for k in range(num_held):
        at = held + HELD_COLUMNS * k
        num_bytes = long_at(scratch, at + (H_OWN if scheme == ZERO else H_BYTES))
        if num_bytes > 0:
            slowest = max(slowest, update_ns(device_table, update, scratch[at], num_bytes))
    return DONE, serial + slowest, sent
