"""critical_path: what an iteration waits for."""

import numpy as np

from sim.kernels.layout import END, START
from sim.simulation import Simulation


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
