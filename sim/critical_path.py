"""critical_tasks, critical_operators: what an iteration waits for."""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from sim.kernels.layout import END, START
from sim.simulation import Simulation
from sim.task_graph import Key, Task, TaskGraph

Cause: TypeAlias = Literal["start", "dependency", "device"]


@dataclass(frozen=True, slots=True)
class CriticalTask:
    """A task on the critical path.

    Attributes:
        id: of the task.
        cause: what it waited for last: the start of the iteration, a task whose result it needs (``dependency``), or
            one that occupied a device or connection which it needs too (``device``).
        gap_ns: from the end of that task to its start; 0 in a simulated task graph.
    """

    id: int
    cause: Cause
    gap_ns: int


def critical_tasks(task_graph: TaskGraph) -> list[CriticalTask]:
    """The chain of tasks that ends with the iteration, each of which waited for the one before it.

    In a simulated task graph each starts the moment that the one before it ends, and the first at 0, so their times add
    up to the makespan. Where a task waits for several that end together, dependencies go before devices. The times may
    also be measured ones; then there are gaps.

    Args:
        task_graph: with times.

    Returns:
        The path in the order of time.
    """
    occupants = _occupants(task_graph)
    task = max(task_graph.tasks, key=lambda task: (task.end_time, _rank(task)))
    path: list[CriticalTask] = []
    while True:
        candidates = [(before.end_time, True, before) for before in map(task_graph.tasks.__getitem__, task.in_tasks)]
        for device in task.devices:
            place = bisect_left(occupants[device], _rank(task), key=_rank)
            if place:
                before = occupants[device][place - 1]
                candidates.append((before.end_time, False, before))
        # Among tasks of no duration the rank keeps the walk from turning back.
        causes = [c for c in candidates if c[0] <= task.start_time and _rank(c[2]) < _rank(task)]
        if not causes:
            path.append(CriticalTask(task.id, "start", task.start_time))
            return path[::-1]
        end_time, is_dependency, before = max(causes, key=lambda cause: (*cause[:2], _rank(cause[2])))
        path.append(CriticalTask(task.id, "dependency" if is_dependency else "device", task.start_time - end_time))
        task = before


def _rank(task: Task) -> tuple[int, int, Key]:
    """The order in which tasks take a device."""
    return task.start_time, task.ready_time, task.key


def _occupants(task_graph: TaskGraph) -> list[list[Task]]:
    """Tasks on each device and connection, in order."""
    occupants: list[list[Task]] = [[] for _ in task_graph.device_names]
    for task in sorted(task_graph.tasks, key=_rank):
        for device in task.devices:
            occupants[device].append(task)
    return occupants


def critical_operators(simulation: Simulation) -> list[int]:
    """Operators, ascending, on a chain of tasks each of which starts the moment another ends, back from the last one.

    A transfer counts for its consumer, forward and back, and a synchronisation for the members of its weight group. The
    chain needs no edges of the task graph: a task waits for a predecessor or for a resource, so some task ends when it
    starts; where several do, any of them is followed.
    """
    keys, times = simulation.timeline_arrays()
    n, tables = len(simulation.problem.graph), simulation.problem.tables
    order = np.argsort(times[:, END], kind="stable")
    ends = times[order, END]
    found: set[int] = set()
    position = len(order) - 1
    while position >= 0:
        task = order[position]
        phase = int(keys[task]) >> 43
        if phase >= 4 * n:
            group = (phase - 4 * n) // 4
            found.update(tables.member[tables.member_ptr[group] : tables.member_ptr[group + 1]].tolist())
        else:
            found.add(phase // 2 if phase < 2 * n else (4 * n - 1 - phase) // 2)
        start = times[task, START]
        # Tasks of no duration end when they start: the position falls, so the walk ends.
        before = min(int(np.searchsorted(ends, start, side="right")), position) - 1
        position = before if before >= 0 and ends[before] == start else -1
    return sorted(found)
