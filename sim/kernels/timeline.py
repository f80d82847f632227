"""The timeline: full simulation and the replay of its suffix (FlexFlow, algorithm 1; REFERENCE 2.3 C).

With topological keys the timeline is the only solution of the ready/start/end equations, so tasks that are dequeued
before anything has changed keep their times: they are walked through in their old order, without the queue, and the
rest is simulated.
"""

from sim.kernels.edges import E_COUNT, E_DST_LIST, E_IN, E_OUT, E_SRC_LIST
from sim.kernels.groups import G_ENTRY, G_NUM_PARTS, G_PARTS, G_SUCC
from sim.kernels.headroom import start_rest
from sim.kernels.kernel import kernel
from sim.kernels.layout import (
    BASE,
    DONE,
    DST,
    END,
    EPOCH,
    EXCHANGES,
    EXE,
    GROUP,
    IS_CUTOFF,
    KEY,
    MEMBER,
    NEED_SCRATCH,
    NEW_MAKESPAN,
    NEW_TASKS,
    NEXT,
    NUM_IN,
    OWNER,
    PARTS,
    POPPED,
    READY,
    RES,
    RES_LEN,
    SEG,
    SRC,
    START,
    TASKS,
    TRAINING,
    WAIT,
    WAIT_BITS,
)
from sim.kernels.waiting import count_changed, force_sources

LOW_HALF = (1 << WAIT_BITS) - 1


@kernel
def push(heap_time, heap_key, heap_task, size, time, key, task):
    """Enqueue a task by (time, key) in a binary heap; returns the new size. Modified in place: the heap."""
    k = size
    while k > 0:
        parent = (k - 1) >> 1
        if heap_time[parent] < time or (heap_time[parent] == time and heap_key[parent] < key):
            break
        heap_time[k], heap_key[k], heap_task[k] = heap_time[parent], heap_key[parent], heap_task[parent]
        k = parent
    heap_time[k], heap_key[k], heap_task[k] = time, key, task
    return size + 1


@kernel
def sift(heap_time, heap_key, heap_task, size, time, key, task):
    """Put a task in the first one's place. Modified in place: the heap."""
    k = 0
    while True:
        child = 2 * k + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            heap_time[right] < heap_time[child]
            or (heap_time[right] == heap_time[child] and heap_key[right] < heap_key[child])
        ):
            child = right
        if time < heap_time[child] or (time == heap_time[child] and key < heap_key[child]):
            break
        heap_time[k], heap_key[k], heap_task[k] = heap_time[child], heap_key[child], heap_task[child]
        k = child
    heap_time[k], heap_key[k], heap_task[k] = time, key, task


@kernel
def simulate(tb, st, i, cut_position, cut_time, cut_key, cutoff):
    """Simulate the task graph, keeping the first ``cut_position`` tasks of the accepted timeline.

    One long function, with the fields it uses as locals: calls that hand arrays on, inlined or not, made it 1.7 times
    slower (2,331 tasks of NMT on 16 devices: 331 instead of 190 us).

    Args:
        i: operator whose config changes; -1 for a full simulation.
        cut_position: accepted tasks before (cut_time, cut_key); 0 for a full simulation.
        cut_time: no task changes, appears or disappears before (cut_time, cut_key).
        cut_key: see ``cut_time``.
        cutoff: stop as soon as a task ends later, or ends so late that the iteration must (``st.rest``).

    Modified in place: ``st.new_time`` and ``st.new_order`` from the cut on, the heap, counts; ``st.num``: new number
    of tasks, new makespan (or, if cut off, a lower bound of it that exceeds ``cutoff``), tasks dequeued.
    """
    n, num_edges, training, num = tb.op.shape[0], tb.edge.shape[0], tb.flags[TRAINING], st.num
    block, arena, out, task = st.block, st.arena, st.scratch, st.task
    time, new_time, free_at, rest = st.time, st.new_time, st.free_at, st.rest
    row, ahead, reach, forced = st.row, tb.ahead, st.reach, st.forced
    num_devices = tb.device.shape[0]
    heap_time, heap_key, heap_task = st.heap_time, st.heap_key, st.heap_task
    op, edge, in_ptr, out_ptr, out_edge, route = tb.op, tb.edge, tb.in_ptr, tb.out_ptr, tb.out_edge, tb.route
    order, new_order = st.order, st.new_order
    limit = out.shape[0]
    free_at[:] = 0
    size, position, makespan, bound = 0, 0, 0, 0
    run_time, run_key, run_end = -1, 0, 0
    num[IS_CUTOFF] = 0
    start_rest(tb, st, i)
    num[EPOCH] += 1
    mark, epoch = 0, num[EPOCH]
    if i >= 0:
        count_changed(tb, st, epoch)
        mark = force_sources(tb, st, i)
    for b in range(n):
        if in_ptr[b] == in_ptr[b + 1]:
            for t in range(block[b, BASE], block[b, BASE] + block[b, PARTS]):
                task[t, NEXT] = -1
                if cut_time == 0 and task[t, KEY] >= cut_key:
                    size = push(heap_time, heap_key, heap_task, size, 0, task[t, KEY], t)
    while True:
        if position < cut_position:
            t = order[position]
            end, b, exe = time[t, END], task[t, OWNER], task[t, EXE]
        else:
            if size == 0:
                break
            t = heap_task[0]
            start = heap_time[0]
            new_time[t, READY] = start
            b, exe = task[t, OWNER], task[t, EXE]
            following = task[t, NEXT]
            if following >= 0:
                sift(heap_time, heap_key, heap_task, size, start, task[following, KEY], following)
            else:
                size -= 1
                sift(heap_time, heap_key, heap_task, size, heap_time[size], heap_key[size], heap_task[size])
                if run_end == t:
                    run_time = -1
            first = task[t, RES]
            if first >= 0:
                for r in range(first, first + task[t, RES_LEN]):
                    start = max(start, free_at[route[r]])
            else:
                for r in range(~first, ~first + task[t, RES_LEN]):
                    start = max(start, free_at[arena[r]])
            end = start + exe
            new_time[t, START] = start
            new_time[t, END] = end
            new_order[position] = t
        first = task[t, RES]
        bound = end
        if first >= 0:
            for r in range(first, first + task[t, RES_LEN]):
                resource = route[r]
                free_at[resource] = end
                if resource >= num_devices or ahead[row[resource], b]:
                    rest[resource] -= exe
                    bound = max(bound, end + rest[resource])
        else:
            for r in range(~first, ~first + task[t, RES_LEN]):
                free_at[arena[r]] = end
                rest[arena[r]] -= exe
                bound = max(bound, end + rest[arena[r]])
        if bound > cutoff:
            num[IS_CUTOFF], num[NEW_MAKESPAN], num[POPPED] = 1, bound, max(0, position - cut_position)
            return DONE
        position += 1
        makespan = max(makespan, end)
        base, home = block[b, BASE], block[b, SEG]
        local, waiting = t - base, 0
        if position <= cut_position and forced[b] != mark:
            forward = block[b, TASKS] >> training if b < n + num_edges else block[b, TASKS]
            if reach[b, 1 if local >= forward else 0] < cut_position:
                continue
        if b < n:
            parts = block[b, PARTS]
            slots = parts + block[b, EXCHANGES]
            backward = local >= slots
            if backward:
                local -= slots
            if local < parts and arena[home + parts + local] >= 0:
                out[0] = t - local + parts + arena[home + parts + local]
                waiting = 1
            else:
                # The task completes one part, or the exchange all of its members.
                ptr = home + 2 * parts
                r, stop = -1, 0
                if local >= parts:
                    r, stop = arena[ptr + local - parts], arena[ptr + local - parts + 1]
                while r < stop:
                    k = local if r < 0 else arena[ptr + slots - parts + 1 + r]
                    r += 1
                    if not backward:
                        before = waiting
                        for a in range(out_ptr[b], out_ptr[b + 1]):
                            e = out_edge[a]
                            edge_home = block[n + e, SEG]
                            ptrs = edge_home + arena[edge_home + E_OUT]
                            entries = ptrs + parts + 1
                            if waiting + arena[ptrs + k + 1] - arena[ptrs + k] + 1 > limit:
                                return NEED_SCRATCH
                            transfer, part = block[n + e, BASE], block[edge[e, DST], BASE]
                            for q in range(entries + arena[ptrs + k], entries + arena[ptrs + k + 1]):
                                entry = arena[q]
                                out[waiting] = transfer + entry if entry >= 0 else part + ~entry
                                waiting += 1
                        if training and waiting == before:
                            if waiting >= limit:
                                return NEED_SCRATCH
                            out[waiting] = base + slots + k
                            waiting += 1
                    else:
                        for e in range(in_ptr[b], in_ptr[b + 1]):
                            edge_home, src = block[n + e, SEG], edge[e, SRC]
                            ptrs = edge_home + arena[edge_home + E_IN]
                            entries = ptrs + parts + 1
                            if waiting + arena[ptrs + k + 1] - arena[ptrs + k] > limit:
                                return NEED_SCRATCH
                            transfer = block[n + e, BASE] + arena[edge_home + E_COUNT]
                            part = block[src, BASE] + block[src, PARTS] + block[src, EXCHANGES]
                            for q in range(entries + arena[ptrs + k], entries + arena[ptrs + k + 1]):
                                entry = arena[q]
                                out[waiting] = transfer + entry if entry >= 0 else part + ~entry
                                waiting += 1
                        g = op[b, GROUP]
                        if g >= 0 and block[n + num_edges + g, TASKS] > 0:
                            group_home = block[n + num_edges + g, SEG]
                            member_part = arena[group_home + arena[group_home + G_PARTS] + op[b, MEMBER]] + k
                            ptrs = group_home + arena[group_home + G_ENTRY]
                            entries = ptrs + arena[group_home + G_NUM_PARTS] + 1
                            first, last = arena[ptrs + member_part], arena[ptrs + member_part + 1]
                            if waiting + last - first > limit:
                                return NEED_SCRATCH
                            for q in range(entries + first, entries + last):
                                out[waiting] = block[n + num_edges + g, BASE] + arena[q]
                                waiting += 1
        elif b < n + num_edges:
            transfers = arena[home + E_COUNT]
            if local < transfers:
                ptr = home + arena[home + E_DST_LIST]
                entries, part = ptr + transfers + 1, block[edge[b - n, DST], BASE]
                if arena[ptr + local + 1] - arena[ptr + local] > limit:
                    return NEED_SCRATCH
                for q in range(entries + arena[ptr + local], entries + arena[ptr + local + 1]):
                    out[waiting] = part + arena[q]
                    waiting += 1
            else:
                src = edge[b - n, SRC]
                source = arena[home + arena[home + E_SRC_LIST] + 2 * (local - transfers)]
                out[0] = block[src, BASE] + block[src, PARTS] + block[src, EXCHANGES] + source
                waiting = 1
        else:
            ptr = home + arena[home + G_SUCC]
            entries = ptr + block[b, TASKS] + 1
            if arena[ptr + local + 1] - arena[ptr + local] > limit:
                return NEED_SCRATCH
            for q in range(entries + arena[ptr + local], entries + arena[ptr + local + 1]):
                out[waiting] = base + arena[q]
                waiting += 1
        for w in range(waiting):
            s = out[w]
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
    num[NEW_TASKS], num[NEW_MAKESPAN], num[POPPED] = position, makespan, position - cut_position
    return DONE
