"""What a proposal keeps on each device and does on each resource, added up, and whether that is too much."""

from sim.kernels.edges import E_COUNT, E_SRC_LIST
from sim.kernels.groups import G_HELD, G_NUM_HELD
from sim.kernels.kernel import inlined, kernel
from sim.kernels.layout import (
    BASE,
    BYTES,
    CAPACITY,
    EXE,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    PARTS,
    RES,
    RES_LEN,
    ROW,
    SAVED,
    SEG,
    SERIAL,
    SPLIT_COPIES,
    TASKS,
    WHOLE_COPIES,
)
from sim.kernels.shards import H_BYTES, H_OWN, HELD_COLUMNS, long_at


@inlined
def add_block(tb, rows, st, b, sign):
    """Add (or take away) what block ``b`` keeps on each device and does on each resource.

    Modified in place: ``st.new_memory``, ``st.new_load``.
    """
    n, block, arena, memory, load = tb.op.shape[0], st.block, st.arena, st.new_memory, st.new_load
    home, base, count = block[b, SEG], block[b, BASE], block[b, TASKS]
    route, task = tb.route, st.task
    if b < n:
        saved = sign * rows[block[b, ROW], SAVED]
        for k in range(block[b, PARTS]):
            memory[arena[home + k]] += saved
    elif b < n + tb.edge.shape[0]:
        sources = home + arena[home + E_SRC_LIST]
        for x in range(arena[home + E_COUNT]):
            memory[arena[sources + 2 * x + 1]] += sign * task[base + x, BYTES]
    else:
        whole, split = sign * tb.flags[WHOLE_COPIES], sign * tb.flags[SPLIT_COPIES]
        held = home + arena[home + G_HELD]
        for k in range(arena[home + G_NUM_HELD]):
            at = held + HELD_COLUMNS * k
            memory[arena[at]] += whole * long_at(arena, at + H_BYTES) + split * long_at(arena, at + H_OWN)
    for t in range(base, base + count):
        first, length, exe = task[t, RES], task[t, RES_LEN], sign * task[t, EXE]
        if first >= 0:
            for r in range(first, first + length):
                load[route[r]] += exe
        else:
            for r in range(~first, ~first + length):
                load[arena[r]] += exe


@inlined
def add_up(tb, st):
    """What is summed over all groups and devices. Modified in place: the proposal's serial time and overflow."""
    serial = 0
    for b in range(tb.op.shape[0] + tb.edge.shape[0], st.block.shape[0]):
        serial += st.block[b, SERIAL]
    st.num[NEW_SERIAL_SUM], st.num[NEW_OVERFLOW] = serial, new_overflow(tb, st)


@kernel
def new_overflow(tb, st):
    """By how much the blocks that the proposal has built so far overflow memory, summed over devices."""
    overflow, device, memory = 0, tb.device, st.new_memory
    for d in range(device.shape[0]):
        overflow += max(0, memory[d] - device[d, CAPACITY])
    return overflow


@inlined
def is_dearer(overflow, bound, limit, cutoff):
    """Whether a proposal that overflows at least this much and takes at least ``bound`` is sure to be of no interest.

    Args:
        limit: overflow above which no proposal is of interest, and below which every one is; -1 if memory does
            not matter.
        cutoff: largest cost of interest where it overflows as much as ``limit``, or whatever it does if that is -1.
    """
    if limit < 0:
        return bound > cutoff
    return overflow > limit or (overflow == limit and bound > cutoff)
