"""The timeline: full simulation and the replay of its suffix (FlexFlow, algorithm 1; REFERENCE 2.3 C).

With topological keys the timeline is the only solution of the ready/start/end equations, so tasks that are dequeued
before anything has changed keep their times: they are walked through in their old order, without the queue. So are
stretches behind them that are only shifted (``sim.kernels.stretch``); the rest is simulated.
"""

from sim.kernels.headroom import start_rest
from sim.kernels.heap import push, sift
from sim.kernels.kernel import NEVER, ZERO, kernel
from sim.kernels.layout import (
    BASE,
    DONE,
    END,
    EPOCH,
    EXE,
    IS_CUTOFF,
    KEY,
    MAKESPAN,
    MAX_STRETCHES,
    NEAR,
    NEED_SCRATCH,
    NEW_MAKESPAN,
    NEW_TASKS,
    NEXT,
    NUM_IN,
    NUM_STRETCHES,
    NUM_TASKS,
    OWNER,
    PARTS,
    PLACE,
    POPPED,
    READY,
    REPLACED,
    RES,
    RES_LEN,
    ROLES,
    SHIFTED,
    START,
    TASKS,
    TRAINING,
    WAIT,
    WAIT_BITS,
)
from sim.kernels.stretch import assign_roles, find_stretch, note_stretch
from sim.kernels.successors import list_successors
from sim.kernels.waiting import count_changed, force_sources

CALM = 8
LOW_HALF = (1 << WAIT_BITS) - 1


@kernel
def simulate(tb, st, i, cut_position, cut_time, cut_key, cutoff, is_seeking):
    """Simulate the task graph, keeping the first ``cut_position`` tasks of the accepted timeline.

    One long function, with the fields it uses as locals: calls that hand arrays on, inlined or not, made it 1.7 times
    slower (2,331 tasks of NMT on 16 devices: 331 instead of 190 us).

    Args:
        i: operator whose config changes; -1 for a full simulation.
        cut_position: accepted tasks before (cut_time, cut_key); 0 for a full simulation.
        cut_time: no task changes, appears or disappears before (cut_time, cut_key).
        cut_key: see ``cut_time``.
        cutoff: stop as soon as a task ends later, or ends so late that the iteration must (``st.rest``).
        is_seeking: whether to look for stretches that are only shifted (``sim.kernels.stretch``).

    Modified in place: ``st.new_time`` and ``st.new_order`` from the cut on, but for what is in ``st.stretch``; the
    heap, counts; ``st.num``: new number of tasks, new makespan (or, if cut off, a lower bound of it that exceeds
    ``cutoff``), tasks dequeued, tasks shifted.
    """
    n, num_edges, training, num = tb.op.shape[0], tb.edge.shape[0], tb.flags[TRAINING], st.num
    block, arena, out, task = st.block, st.arena, st.scratch, st.task
    time, new_time, free_at, rest = st.time, st.new_time, st.free_at, st.rest
    row, ahead, reach, forced = st.row, tb.ahead, st.reach, st.forced
    num_devices, all_blocks = tb.device.shape[0], tb.ahead.shape[0] - 1
    heap_time, heap_key, heap_task = st.heap_time, st.heap_key, st.heap_task
    in_ptr, route, order, new_order = tb.in_ptr, tb.route, st.order, st.new_order
    role = st.role
    free_at[:] = 0
    size, position, makespan, bound = ZERO, 0, 0, 0
    run_time, run_key, run_end = -1, 0, 0
    num[IS_CUTOFF], num[NUM_STRETCHES], num[SHIFTED] = 0, 0, 0
    start_rest(tb, st, i)
    num[EPOCH] += 1
    mark, epoch = 0, num[EPOCH]
    num_new = ZERO
    if i >= 0:
        count_changed(tb, st, epoch)
        mark = force_sources(tb, st, i)
    if is_seeking:
        num_new = assign_roles(st, mark)
    near, replaced = ROLES * mark + NEAR, ROLES * mark + REPLACED
    # Kept tasks dequeued, the last place among them, how many in a row were shifted alike, and when to look back again.
    num_kept, last_place, calm, later = cut_position, cut_position - 1, 0, 0
    usual, usual_latest, latest, odd, old_odd = 0, 0, 0, 0, 0
    place, until, shift = 0, cut_position, 0
    for b in range(n):
        if in_ptr[b] == in_ptr[b + 1]:
            for t in range(block[b, BASE], block[b, BASE] + block[b, PARTS]):
                task[t, NEXT] = -1
                if cut_time == 0 and task[t, KEY] >= cut_key:
                    size = push(heap_time, heap_key, heap_task, size, 0, task[t, KEY], t)
    while True:
        is_walking = place < until
        if is_walking:
            t = order[place]
            place += 1
            end, b, exe = time[t, END] + shift, task[t, OWNER], task[t, EXE]
            latest = max(latest, end)
            usual_latest = latest
        else:
            if size == 0:
                break
            t = heap_task[0]
            start = heap_time[0]
            b, exe = task[t, OWNER], task[t, EXE]
            if (
                calm >= CALM
                and start > max(odd, old_odd + shift)
                and start - time[t, READY] == shift
                and start > later
                and role[b] != replaced
                and time[t, PLACE] > last_place
            ):
                calm = 0
                place, until, size, later = find_stretch(tb, st, i, mark, size, num_kept, num_new)
                if size < 0:
                    return NEED_SCRATCH
                length = until - place
                if length > 0:
                    note_stretch(st, position, place, length, shift)
                    num_kept, last_place, run_time = num_kept + length, until - 1, -1
                    num[SHIFTED] += length
                    if num[NUM_STRETCHES] == MAX_STRETCHES:
                        later = NEVER
                    if until == num[NUM_TASKS] and size == 0:
                        # Nothing new is still to come.
                        position += length
                        makespan = max(makespan, num[MAKESPAN] + shift)
                        if makespan > cutoff:
                            num[IS_CUTOFF] = 1
                        break
                continue
            new_time[t, READY] = start
            following = task[t, NEXT]
            if following >= 0:
                sift(heap_time, heap_key, heap_task, size, start, task[following, KEY], following)
            else:
                size -= 1
                sift(heap_time, heap_key, heap_task, size, heap_time[size], heap_key[size], heap_task[size])
                if run_end == t:
                    run_time = -1
            first = task[t, RES]
            if 0 <= first < num_devices:
                start = max(start, free_at[first])
            elif first >= 0:
                for r in range(first, first + task[t, RES_LEN]):
                    start = max(start, free_at[route[r]])
            else:
                for r in range(~first, ~first + task[t, RES_LEN]):
                    start = max(start, free_at[arena[r]])
            end = start + exe
            new_time[t, START] = start
            new_time[t, END] = end
            new_order[position] = t
            if is_seeking:
                if role[b] == replaced:
                    num_new, calm, odd = num_new - 1, 0, max(odd, end)
                else:
                    num_kept, last_place, lag = num_kept + 1, max(last_place, time[t, PLACE]), end - time[t, END]
                    if lag != shift:
                        if shift != usual:
                            odd, old_odd = max(odd, latest), max(old_odd, latest - shift)
                        calm, shift, latest = 0, lag, usual_latest if lag == usual else end
                    calm, latest = calm + 1, max(latest, end)
                    if shift == usual:
                        usual_latest = latest
                    elif calm == CALM:
                        odd, old_odd = max(odd, usual_latest), max(old_odd, usual_latest - usual)
                        usual, usual_latest = shift, latest
        first = task[t, RES]
        bound = end
        if 0 <= first < num_devices:
            # The routes begin with the devices themselves.
            free_at[first] = end
            if ahead[row[first], b]:
                rest[first] -= exe
                bound = end + rest[first]
        elif first >= 0:
            for r in range(first, first + task[t, RES_LEN]):
                resource = route[r]
                free_at[resource] = end
                if resource >= num_devices or ahead[row[resource], b]:
                    rest[resource] -= exe
                    bound = max(bound, end + rest[resource])
        else:
            for r in range(~first, ~first + task[t, RES_LEN]):
                resource = arena[r]
                free_at[resource] = end
                # Of what a device's rest is made up, messages are part in the last row alone.
                if resource >= num_devices or row[resource] == all_blocks:
                    rest[resource] -= exe
                    bound = max(bound, end + rest[resource])
        if bound > cutoff:
            num[IS_CUTOFF], num[NEW_MAKESPAN], num[POPPED] = 1, bound, max(0, position - cut_position - num[SHIFTED])
            return DONE
        position += 1
        makespan = max(makespan, end)
        if is_walking and (forced[b] != mark or position > cut_position):
            forward = block[b, TASKS] >> training if b < n + num_edges else block[b, TASKS]
            if reach[b, 1 if t - block[b, BASE] >= forward else 0] < until:
                continue
        waiting = list_successors(tb, st, t, b)
        if waiting < 0:
            return NEED_SCRATCH
        for w in range(waiting):
            s = out[w]
            # In a stretch, changed and near tasks have been told before, and others behind it alone are to be told.
            if is_walking and position > cut_position and (role[task[s, OWNER]] >= near or time[s, PLACE] < until):
                continue
            when, wait = end, new_time[s, WAIT]
            if wait >> WAIT_BITS == epoch:
                when = max(new_time[s, READY], end)
            else:
                wait = epoch << WAIT_BITS | task[s, NUM_IN]
            wait -= 1
            new_time[s, READY], new_time[s, WAIT] = when, wait
            if wait & LOW_HALF == 0:
                key = task[s, KEY]
                if when > cut_time or (when == cut_time and key >= cut_key):
                    task[s, NEXT] = -1
                    if when == run_time and key > run_key:
                        task[run_end, NEXT] = s
                    else:
                        size = push(heap_time, heap_key, heap_task, size, when, key, s)
                    run_time, run_key, run_end = when, key, s
    num[NEW_TASKS], num[NEW_MAKESPAN], num[POPPED] = position, makespan, position - cut_position - num[SHIFTED]
    return DONE
