"""Breakdown: what the devices and the kinds of operators of a simulated task graph spend their time on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from sim.critical_path import CriticalTask
from sim.operator_graph import Operator
from sim.problem import Problem
from sim.task_graph import Task, TaskGraph, TaskKind

Span: TypeAlias = tuple[int, int]
"""Start and end, ns."""

Category: TypeAlias = Literal["compute", "transfer", "synchronisation"]

CATEGORIES: Mapping[TaskKind, Category] = {
    "forward": "compute",
    "backward": "compute",
    "update": "compute",
    "transfer": "transfer",
    "exchange": "transfer",
    "sync": "synchronisation",
}


@dataclass(frozen=True, slots=True)
class Shares:
    """What one device spends an iteration on; the four times add up to it.

    Attributes:
        compute_ns: a task of the device computes.
        transfer_ns: it does not, but a transfer or an exchange from or to it is under way.
        synchronisation_ns: neither, but gradients of weights that it holds are being synchronised.
        idle_ns: none of these.
    """

    compute_ns: int
    transfer_ns: int
    synchronisation_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks of one category that belong to one layer.

    Attributes:
        category: what they do.
        layer: the operators that they belong to, those that share weights together; of synchronisation and updates, the
            weight group or the first of the bucket. A transfer counts for its consumer, forward and back.
        kind: of these operators.
        num_tasks: how many.
        total_ns: their execution times together.
        queued_ns: on a critical path, the part of it that the next task only waited for since it occupied a device or
            connection.
    """

    category: Category
    layer: str
    kind: str
    num_tasks: int
    total_ns: int
    queued_ns: int


def device_shares(task_graph: TaskGraph) -> list[Shares]:
    """What each compute device spends a simulated iteration on."""
    num_devices = task_graph.num_compute_devices
    layers: list[dict[Category, list[Span]]] = [
        {"compute": [], "transfer": [], "synchronisation": []} for _ in range(num_devices)
    ]
    for task in task_graph.tasks:
        category = CATEGORIES[task.kind]
        # Serial synchronisation occupies nothing; it ends in an update that all devices make.
        devices = (task.devices or range(num_devices)) if category == "compute" else task.participants
        for device in devices:
            layers[device][category].append((task.start_time, task.end_time))
    return [Shares(*layered(list(spans.values()), task_graph.makespan)) for spans in layers]


def layered(layers: Sequence[Iterable[Span]], total_ns: int) -> list[int]:
    """How much of 0 .. ``total_ns`` each layer of spans covers that no layer before it does; last, what is left."""
    together: list[Span] = []
    ends = [0]
    for layer in layers:
        together = union([*together, *layer])
        ends.append(sum(max(0, min(high, total_ns) - max(low, 0)) for low, high in together))
    return [high - low for low, high in pairwise([*ends, total_ns])]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same times as disjoint spans, in order."""
    found: list[Span] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def task_groups(problem: Problem, tasks: Iterable[Task]) -> list[Group]:
    """Tasks by category and layer, the longest first."""
    return _grouped(problem, ((task, task.exe_time, 0) for task in tasks))


def path_groups(problem: Problem, task_graph: TaskGraph, path: Sequence[CriticalTask]) -> list[Group]:
    """The critical path of a simulated task graph by category and layer, the longest first; adds up to the makespan."""
    is_queued = [step.cause == "device" for step in path[1:]] + [False]
    tasks = [task_graph.tasks[step.id] for step in path]
    return _grouped(problem, ((t, t.exe_time, t.exe_time * q) for t, q in zip(tasks, is_queued, strict=True)))


def _grouped(problem: Problem, times: Iterable[tuple[Task, int, int]]) -> list[Group]:
    found: dict[tuple[Category, str, str], list[int]] = {}
    for task, total_ns, queued_ns in times:
        operator = problem.graph.operators[task_operators(problem, task)[0]]
        sums = found.setdefault((CATEGORIES[task.kind], layer_name(operator), operator.kind), [0, 0, 0])
        for place, value in enumerate((1, total_ns, queued_ns)):
            sums[place] += value
    groups = [Group(*key, *sums) for key, sums in found.items()]
    return sorted(groups, key=lambda group: -group.total_ns)


def task_operators(problem: Problem, task: Task) -> tuple[int, ...]:
    """Positions of the operators that a task belongs to, by its key (``sim.task_graph_builder``)."""
    phase, n = task.key[0], len(problem.graph)
    if phase < 4 * n:
        return (phase // 2 if phase < 2 * n else (4 * n - 1 - phase) // 2,)
    groups = list(problem.graph.weight_groups.values())
    return tuple(member for group in problem.buckets[(phase - 4 * n) // 4] for member in groups[group])


def layer_name(operator: Operator) -> str:
    """The operator's weight group, which the steps of a recurrent layer have in common, or else its own name."""
    return operator.weight.group if operator.weight is not None else operator.name
