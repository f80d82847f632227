"""Stretches of the accepted timeline that a proposal only shifts: they are walked through, not simulated.

Where a change has worn off, all that is still to come is as before, but for a constant shift of the time. Two things
are told apart: *changed* tasks, new or replaced, and all others, which are *kept*. Compare the replay, before it
dequeues a kept task, with the accepted simulation before it did the same, at times ``now`` and ``old``, and let shift
be now - old. If

1. the same kept tasks had been dequeued,
2. all changed tasks that had been dequeued ended before now and old,
3. each kept task that ends at now or old or later ends shift later than it did,

then what both know of the kept tasks differs by the shift alone: a resource is free that much later, or in both before
the moment; and a task that waits becomes ready when a predecessor ends that ends at the moment or later, hence is
condition 3's, or is still to be dequeued. So both go on alike until the accepted order comes to a replaced task, or a
new one, or a kept one that has waited for one of these, is first in the replay's queue. Condition 3 is kept for each
resource (``State.lane``): since when have all tasks on it been shifted alike?
"""

from sim.kernels.heap import push, sift
from sim.kernels.kernel import inlined, kernel
from sim.kernels.layout import (
    BASE,
    DST,
    END,
    FIRST_PLACE,
    FIRST_POSITION,
    GROUP,
    KEY,
    NEAR,
    NEXT,
    NUM_NEAR,
    NUM_SAVED,
    NUM_SHIFTED,
    NUM_STRETCHES,
    NUM_TASKS,
    OWNER,
    PAUSE,
    PLACE,
    POPPED,
    READY,
    REPLACED,
    REST,
    ROLES,
    SHIFT,
    SHIFTED,
    SRC,
    TASKS,
    WAIT,
    WAIT_BITS,
    WATCHED,
)
from sim.kernels.successors import list_successors

LOW_HALF = (1 << WAIT_BITS) - 1
NO_ROOM = -1
PAYS, LONGEST_PAUSE = 2, 31


@inlined
def assign_roles(st, mark):
    """Mark the blocks that the proposal has replaced, and those beside them.

    Modified in place: ``st.role``.

    Returns:
        New tasks.
    """
    num, role, saved_id, new_tasks = st.num, st.role, st.saved_id, 0
    for k in range(num[NUM_SAVED], num[NUM_NEAR]):
        role[saved_id[k]] = ROLES * mark + NEAR
    for k in range(num[NUM_SAVED]):
        role[saved_id[k]] = ROLES * mark + REPLACED
        new_tasks += st.block[saved_id[k], TASKS]
    return new_tasks


@inlined
def watch(tb, st, i, mark):
    """Mark the blocks that replaced and near ones wait for. Modified in place: ``st.role``."""
    n, role, saved_id, g = tb.op.shape[0], st.role, st.saved_id, tb.op[i, GROUP]
    watched = ROLES * mark + WATCHED
    for k in range(st.num[NUM_NEAR]):
        b = saved_id[k]
        if b >= n:
            continue
        for e in range(tb.in_ptr[b], tb.in_ptr[b + 1]):
            role[n + e] = max(role[n + e], watched)
            role[tb.edge[e, SRC]] = max(role[tb.edge[e, SRC]], watched)
        for r in range(tb.out_ptr[b], tb.out_ptr[b + 1]):
            e = tb.out_edge[r]
            role[n + e] = max(role[n + e], watched)
            role[tb.edge[e, DST]] = max(role[tb.edge[e, DST]], watched)
    if g >= 0:
        for r in range(tb.member_ptr[g], tb.member_ptr[g + 1]):
            role[tb.member[r]] = max(role[tb.member[r]], watched)


@inlined
def look_back(st, first, num_kept, shift):
    """Check the conditions before the replay dequeues kept task ``first`` (see the module's description).

    Args:
        num_kept: kept tasks that came before in the replay.

    Returns:
        The place of the next replaced task, or -1 if a condition fails; whether there is none; and the time
        until which the conditions cannot hold.
    """
    num, time, saved = st.num, st.time, st.saved
    old, place = time[first, READY], time[first, PLACE]
    now, later, replaced, limit = old + shift, 0, 0, num[NUM_TASKS]
    for k in range(num[NUM_SAVED]):
        for t in range(saved[k, BASE], saved[k, BASE] + saved[k, TASKS]):
            if time[t, PLACE] > place:
                limit = min(limit, time[t, PLACE])
            else:
                replaced += 1
                if time[t, END] >= old:
                    later = max(later, time[t, END] + shift)
    if later >= now:
        return -1, later
    if num_kept + replaced != place:
        return -1, now
    return limit, now


@kernel
def find_stretch(tb, st, i, mark, size, num_kept, num_new):
    """Find out how far the accepted order can be followed from the first task in the queue on.

    Tasks of the queue that come up leave it, and those that wait for changed ones enter it.

    Args:
        size: of the queue.
        num_kept: kept tasks dequeued.
        num_new: new tasks not yet dequeued.

    Modified in place: the queue; READY and WAIT of new and near tasks.

    Returns:
        First place, and the one behind the last (no greater if the conditions fail), size of the queue, and the time
        until which it is no use to ask again. A size of -1 says that the scratch space is too small.
    """
    num, order, time, task, role, new_time, out = st.num, st.order, st.time, st.task, st.role, st.new_time, st.scratch
    heap_time, heap_key, heap_task = st.heap_time, st.heap_key, st.heap_task
    first = heap_task[0]
    shift, place = heap_time[0] - time[first, READY], time[first, PLACE]
    near, watched = ROLES * mark + NEAR, ROLES * mark + WATCHED
    limit, later = look_back(st, first, num_kept, shift)
    if limit < 0:
        return 0, 0, size, later
    if num_new == 0 and limit == num[NUM_TASKS]:
        return place, limit, 0, later
    watch(tb, st, i, mark)
    until = place
    while until < limit:
        t = order[until]
        b, ready, key = task[t, OWNER], time[t, READY] + shift, task[t, KEY]
        if size > 0 and (heap_time[0] < ready or (heap_time[0] == ready and heap_key[0] <= key)):
            if heap_task[0] != t or heap_time[0] != ready:
                break
            following = task[t, NEXT]
            if following >= 0:
                sift(heap_time, heap_key, heap_task, size, ready, task[following, KEY], following)
            else:
                size -= 1
                sift(heap_time, heap_key, heap_task, size, heap_time[size], heap_key[size], heap_task[size])
        elif role[b] >= near:
            break
        until += 1
        if role[b] < watched:
            continue
        waiting, end = list_successors(tb, st, t, b), time[t, END] + shift
        if waiting < 0:
            return 0, 0, NO_ROOM, later
        for w in range(waiting):
            s = out[w]
            if role[task[s, OWNER]] < near:
                continue
            new_time[s, READY] = max(new_time[s, READY], end)
            new_time[s, WAIT] -= 1
            if new_time[s, WAIT] & LOW_HALF == 0:
                task[s, NEXT] = -1
                size = push(heap_time, heap_key, heap_task, size, new_time[s, READY], task[s, KEY], s)
    return place, until, size, later


@inlined
def keep_score(st, i, is_seeking):
    """Decide when to look for stretches again after a change of operator ``i``. Modified in place: ``st.trial``.

    To look for them slows the replay of each task by about a fifth, and a shifted task costs about half as much as a
    replayed one. Whether it pays depends on the operator most.
    """
    trial = st.trial
    if not is_seeking:
        trial[i, REST] -= 1
    elif PAYS * st.num[SHIFTED] >= st.num[POPPED]:
        trial[i, PAUSE] = trial[i, PAUSE] >> 1
        trial[i, REST] = trial[i, PAUSE]
    else:
        trial[i, PAUSE] = min(2 * trial[i, PAUSE] + 1, LONGEST_PAUSE)
        trial[i, REST] = trial[i, PAUSE]


@inlined
def note_stretch(st, position, place, length, shift):
    """Note that a stretch of the accepted order is part of the proposal's. Modified in place: ``st.stretch``."""
    number = st.num[NUM_STRETCHES]
    st.stretch[number, FIRST_POSITION], st.stretch[number, FIRST_PLACE] = position, place
    st.stretch[number, NUM_SHIFTED], st.stretch[number, SHIFT] = length, shift
    st.num[NUM_STRETCHES] = number + 1


@inlined
def write_stretches(st):
    """Write what the proposal shifts to its timeline. Modified in place: ``st.new_time``, ``st.new_order``."""
    order, new_order, time, new_time, stretch = st.order, st.new_order, st.time, st.new_time, st.stretch
    for number in range(st.num[NUM_STRETCHES]):
        position, place, shift = stretch[number, FIRST_POSITION], stretch[number, FIRST_PLACE], stretch[number, SHIFT]
        for k in range(stretch[number, NUM_SHIFTED]):
            t = order[place + k]
            new_order[position + k] = t
            for c in range(3):
                new_time[t, c] = time[t, c] + shift
