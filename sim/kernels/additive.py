"""Prices of the additive cost model: the tasks of one operator, edge or weight group, on machines that do nothing else.

The state holds no timeline here: blocks are built, timed and released again. Whenever an array is too small the caller
enlarges it, clears the state and calls again.
"""

from sim.kernels.blocks import release_block
from sim.kernels.edges import E_COUNT, build_edge
from sim.kernels.groups import build_group
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    BASE,
    DONE,
    DST,
    END,
    EXCHANGES,
    EXE,
    GROUP,
    PARTS,
    READY,
    RES,
    RES_LEN,
    SEG,
    SERIAL,
    SRC,
    START,
    TRAINING,
)
from sim.kernels.operators import build_operator


@kernel
def run_task(exe, resources, first, length, free_at, ready):
    """Start a task of ``exe`` ns as soon as it is ready and its ``resources[first : first + length]`` are free.

    Modified in place: ``free_at``.

    Returns:
        Its end.
    """
    start = ready
    for r in range(first, first + length):
        start = max(start, free_at[resources[r]])
    end = start + exe
    for r in range(first, first + length):
        free_at[resources[r]] = end
    return end


@kernel
def operator_ns(tb, st, i):
    """Time of operator i's forward tasks and exchanges alone, plus that of its backward tasks and exchanges.

    Modified in place: ``st.free_at``, ``st.time`` of its slots.
    """
    own, arena, time, free_at = st.block[i], st.arena, st.time, st.free_at
    task, route = st.task, tb.route
    num_parts, num_exchanges = own[PARTS], own[EXCHANGES]
    ptr = own[SEG] + 2 * num_parts
    members, total = ptr + num_exchanges + 1, 0
    for way in range(1 + tb.flags[TRAINING]):
        free_at[:] = 0
        base, latest = own[BASE] + way * (num_parts + num_exchanges), 0
        for k in range(num_parts):
            t = base + k
            time[t, END] = run_task(task[t, EXE], route, task[t, RES], task[t, RES_LEN], free_at, 0)
            latest = max(latest, time[t, END])
        first = base + num_parts
        for x in range(num_exchanges):
            time[first + x, READY], time[first + x, START] = 0, -1
            for r in range(arena[ptr + x], arena[ptr + x + 1]):
                time[first + x, READY] = max(time[first + x, READY], time[base + arena[members + r], END])
        # First come, first served; ties go to the lower number.
        for _ in range(num_exchanges):
            following = -1
            for t in range(first, first + num_exchanges):
                if time[t, START] < 0 and (following < 0 or time[t, READY] < time[following, READY]):
                    following = t
            t, time[following, START] = following, 0
            # Rings are written to the arena.
            end = run_task(task[t, EXE], arena, ~task[t, RES], task[t, RES_LEN], free_at, time[t, READY])
            latest = max(latest, end)
        total += latest
    return total


@kernel
def edge_ns(tb, st, e):
    """Time of an edge's transfers alone, all ready at once, plus that of their mirrors. Modified: ``st.free_at``."""
    own = st.block[tb.op.shape[0] + e]
    task, route, free_at = st.task, tb.route, st.free_at
    transfers, base, total = st.arena[own[SEG] + E_COUNT], own[BASE], 0
    for way in range(1 + tb.flags[TRAINING]):
        free_at[:] = 0
        latest = 0
        for t in range(base + way * transfers, base + (1 + way) * transfers):
            latest = max(latest, run_task(task[t, EXE], route, task[t, RES], task[t, RES_LEN], free_at, 0))
        total += latest
    return total


@kernel
def build_config(tb, rows, st, i, row, devices):
    """Build operator i with degrees ``row`` on ``devices``. Modified in place: its block, ``st.devices``."""
    for k in range(devices.shape[0]):
        st.devices[k] = devices[k]
    return build_operator(tb, rows, st, i, row, devices.shape[0])


@kernel
def price_operator(tb, rows, st, i, config_rows, config_ptr, config_devices, compute, sync):
    """Price the configs of operator i.

    Args:
        tb: with serial synchronisation and no buckets, and operator i alone in its weight group, if it has one.
        i: the operator.
        config_rows: (C,) row of each config's degrees.
        config_ptr: (C + 1,) where each config's devices start.
        config_devices: devices of all parts.
        compute: (C,) written: tasks and exchanges, ns.
        sync: (C,) written: synchronisation and update, ns.

    Modified in place: ``compute``, ``sync``; the state is as before, unless the status is not DONE.
    """
    g = tb.op[i, GROUP]
    b = tb.op.shape[0] + tb.edge.shape[0] + g
    for c in range(config_rows.shape[0]):
        status = build_config(tb, rows, st, i, config_rows[c], config_devices[config_ptr[c] : config_ptr[c + 1]])
        if status != DONE:
            return status
        compute[c], sync[c] = operator_ns(tb, st, i), 0
        if g >= 0:
            status = build_group(tb, rows, st, g)
            if status != DONE:
                return status
            sync[c] = st.block[b, SERIAL]
            release_block(st, st.block[b])
        release_block(st, st.block[i])
    return DONE


@kernel
def price_edge(tb, rows, st, e, row, devices, config_rows, config_ptr, config_devices, transfer):
    """Price edge e for one config of its producer and all configs of its consumer.

    Args:
        e: the edge.
        row: row of the producer's degrees.
        devices: of the producer's parts.
        config_rows: (C,) row of each of the consumer's degrees.
        config_ptr: (C + 1,) where each config's devices start.
        config_devices: devices of all parts.
        transfer: (C,) written: transfers and their mirrors, ns.

    Modified in place: ``transfer``; the state is as before, unless the status is not DONE.
    """
    src, dst, b = tb.edge[e, SRC], tb.edge[e, DST], tb.op.shape[0] + e
    status = build_config(tb, rows, st, src, row, devices)
    if status != DONE:
        return status
    for c in range(config_rows.shape[0]):
        status = build_config(tb, rows, st, dst, config_rows[c], config_devices[config_ptr[c] : config_ptr[c + 1]])
        if status != DONE:
            return status
        status = build_edge(tb, rows, st, e)
        if status != DONE:
            return status
        transfer[c] = edge_ns(tb, st, e)
        release_block(st, st.block[b])
        release_block(st, st.block[dst])
    release_block(st, st.block[src])
    return DONE
