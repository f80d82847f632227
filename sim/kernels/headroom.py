"""Lower bounds of the makespan from what a device has to compute before the last gradients are synchronised.

All work of operators that lead to bucket g (row g of ``Tables.ahead``) is done before some gradient of g is
there, and behind it at least the group's synchronisation and an update: its tail. So a device that has computed up
to time t is at t + the rest of that work + the tail, at least, when the iteration ends.
"""

from sim.kernels.blocks import copy_to
from sim.kernels.groups import G_ENTRY, G_NUM_PARTS, G_SUCC
from sim.kernels.kernel import inlined, kernel
from sim.kernels.layout import BASE, EXE, GROUP, KIND, PARTS, ROW, SEG, TAIL, TASKS, TIMES, TRAINING


@inlined
def find_tail(st, b):
    """Note the least time between a gradient's completion and the end of the tasks that it makes group block ``b`` do.

    Modified in place: the block's TAIL, ``st.heap_time`` (work space).
    """
    block, arena, task, tail = st.block, st.arena, st.task, st.heap_time
    base, home, count = block[b, BASE], block[b, SEG], block[b, TASKS]
    block[b, TAIL] = 0
    if count == 0:
        return
    ptr = home + arena[home + G_SUCC]
    entries = ptr + count + 1
    for t in range(count - 1, -1, -1):
        longest = 0
        for q in range(entries + arena[ptr + t], entries + arena[ptr + t + 1]):
            longest = max(longest, tail[arena[q]])
        tail[t] = task[base + t, EXE] + longest
    ptr = home + arena[home + G_ENTRY]
    entries, last = ptr + arena[home + G_NUM_PARTS] + 1, arena[ptr + arena[home + G_NUM_PARTS]]
    least = tail[arena[entries]]
    for q in range(entries, entries + last):
        least = min(least, tail[arena[q]])
    block[b, TAIL] = least


@inlined
def part_ns(tb, rows, row, device):
    """Forward and backward time of a part with degrees ``row``."""
    kind, kinds = tb.device[device, KIND], tb.update.shape[0]
    forward = rows[row, TIMES + kind]
    return forward + rows[row, TIMES + kinds + kind] if tb.flags[TRAINING] else forward


@inlined
def find_gain(tb, rows, st, i, row, num_parts):
    """What new degrees ``row`` of operator ``i`` on ``st.devices[:num_parts]`` add to each device's work.

    Modified in place: ``st.gain``.
    """
    gain, devices = st.gain, st.devices
    gain[:] = 0
    home, old_row = st.block[i, SEG], st.block[i, ROW]
    for k in range(st.block[i, PARTS]):
        device = st.arena[home + k]
        gain[device] -= part_ns(tb, rows, old_row, device)
    for k in range(num_parts):
        gain[devices[k]] += part_ns(tb, rows, row, devices[k])


@inlined
def work_bound(tb, st, i, num_parts):
    """A lower bound of the makespan from the devices that get work: before any block is built."""
    n, block, work, gain, devices = tb.op.shape[0], st.block, st.work, st.gain, st.devices
    groups, own, ahead = work.shape[0] - 1, tb.op[i, GROUP], tb.ahead
    first = n + tb.edge.shape[0]
    bound = 0
    for g in range(groups + 1):
        if ahead[g, i] == 0:
            continue
        tail = block[first + g, TAIL] if g < groups and g != own else 0
        for k in range(num_parts):
            device = devices[k]
            bound = max(bound, work[g, device] + gain[device] + tail)
    return bound


@inlined
def group_bound(tb, st, g):
    """A lower bound of the makespan from the synchronisation of group ``g``, just built for the proposal."""
    tail, highest = st.block[tb.op.shape[0] + tb.edge.shape[0] + g, TAIL], 0
    for device in range(st.gain.shape[0]):
        highest = max(highest, st.work[g, device] + st.gain[device])
    return highest + tail


@kernel
def add_work(tb, rows, st, i):
    """Add operator i's parts to the work. Modified in place: ``st.work``."""
    work, home, row = st.work, st.block[i, SEG], st.block[i, ROW]
    for k in range(st.block[i, PARTS]):
        device = st.arena[home + k]
        ns = part_ns(tb, rows, row, device)
        for g in range(work.shape[0]):
            work[g, device] += ns * tb.ahead[g, i]


@kernel
def keep_gain(tb, st, i):
    """Add the accepted proposal's gain to the work. Modified in place: ``st.work``."""
    work, gain = st.work, st.gain
    for g in range(work.shape[0]):
        if tb.ahead[g, i]:
            for device in range(gain.shape[0]):
                work[g, device] += gain[device]


@kernel
def choose_rows(tb, st):
    """Choose for each device the work that bounds the accepted makespan best. Modified in place: ``st.row``."""
    work, block, load = st.work, st.block, st.load
    groups, first = work.shape[0] - 1, tb.op.shape[0] + tb.edge.shape[0]
    for device in range(work.shape[1]):
        best, highest = groups + 1, load[device]
        for g in range(groups):
            bound = work[g, device] + block[first + g, TAIL]
            if bound > highest:
                best, highest = g, bound
        st.row[device] = best


@inlined
def start_rest(tb, st, i):
    """The least time from the start of the iteration to its end that each resource allows in a proposal.

    Args:
        i: the operator whose config changes, or -1.

    Modified in place: ``st.rest``.
    """
    rest, row, work, gain, block = st.rest, st.row, st.work, st.gain, st.block
    groups, first = work.shape[0] - 1, tb.op.shape[0] + tb.edge.shape[0]
    copy_to(rest, st.new_load)
    if i < 0:
        return
    for device in range(work.shape[1]):
        g = row[device]
        if g < groups:
            rest[device] = work[g, device] + gain[device] * tb.ahead[g, i] + block[first + g, TAIL]
