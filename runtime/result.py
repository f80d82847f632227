"""RunResult: what was measured while a strategy ran."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from runtime.program import Program
from runtime.steps import ComputeStep
from runtime.weight_layout import weight_layout
from sim.task_graph import TaskGraph

EventKind: TypeAlias = Literal["compute", "exchange", "send", "reduce", "wait", "update"]

Report: TypeAlias = Callable[[int, float, float], None]
"""What is told of an iteration when it has ended: its number, its loss, its time in ms."""

ShardKey: TypeAlias = tuple[int, int]
"""Number of a weight group and of a shard in it."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a rank did.

    Attributes:
        step: number of the program's step that it belongs to.
        kind: ``compute`` is all of a forward or backward step, its ``exchange`` events included; ``send`` and
            ``reduce`` are the time to start a message or an all-reduce, ``wait`` that for which the rank was blocked
            until one was done.
        start_ns: since the iteration's start on this rank.
        end_ns: likewise.
    """

    step: int
    kind: EventKind
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class RankIteration:
    """One iteration on one rank.

    Attributes:
        loss: the rank's share; shares of all ranks add up to the loss.
        origin_ns: when the rank left the barrier, on the clock that all processes of the machine share.
        wall_ns: from there until its weights were updated and its messages sent.
        events: in order.
    """

    loss: float
    origin_ns: int
    wall_ns: int
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class RankResult:
    """What one rank did.

    Attributes:
        rank: which one.
        iterations: in order.
        sent_bytes: in one iteration, for each receiving rank, of transfers and of a parameter server's messages.
        exchanged_bytes: the same of exchanges between the parts of operators.
        reduced_bytes: in one iteration, for each set of ranks, gradients that were all-reduced; how often each byte is
            sent is the backend's choice.
        peak_memory_bytes: from before its weights were made, see ``runtime.peak_memory``.
        weights: of each shard, after the last iteration; empty unless asked for.
        gradients: of each shard, in the last iteration, where this rank updated it; empty unless asked for.
    """

    rank: int
    iterations: tuple[RankIteration, ...]
    sent_bytes: dict[int, int]
    exchanged_bytes: dict[int, int]
    reduced_bytes: dict[tuple[int, ...], int]
    peak_memory_bytes: int
    weights: dict[ShardKey, list[NDArray[np.float64]]] = field(default_factory=dict)
    gradients: dict[ShardKey, list[NDArray[np.float64]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What was measured while a strategy ran.

    Attributes:
        program: what was run.
        task_graph: the simulated task graph; the program's task ids are its tasks.
        ranks: one result for each.
    """

    program: Program
    task_graph: TaskGraph
    ranks: tuple[RankResult, ...]

    @property
    def losses(self) -> list[float]:
        """The loss of each iteration: the sum of what the ranks contributed."""
        return [sum(it.loss for it in same) for same in zip(*(rank.iterations for rank in self.ranks), strict=True)]

    @property
    def wall_ms(self) -> list[float]:
        """Time of each iteration, of the slowest rank, from a common barrier."""
        walls = zip(*(rank.iterations for rank in self.ranks), strict=True)
        return [max(iteration.wall_ns for iteration in same) / 1e6 for same in walls]

    def weights(self) -> dict[str, list[NDArray[np.float64]]]:
        """Tensors of each weight group after the last iteration, put together from the shards that ranks collected."""
        held = {key: tensors for rank in self.ranks for key, tensors in rank.weights.items()}
        graph, whole = self.program.graph, {}
        for group, (name, members) in enumerate(graph.weight_groups.items()):
            shards = self.program.shards[group]
            numbers = sorted(range(len(shards)), key=lambda number: shards[number].low)
            whole[name] = [
                np.concatenate([held[group, number][position] for number in numbers], axis=tensor.unit_axis)
                for position, tensor in enumerate(weight_layout(graph.operators[members[0]]))
            ]
        return whole

    def task_times(self, iteration: int) -> dict[int, tuple[int, int]]:
        """Start and end of each task, ns from the first rank's start.

        A transfer or synchronisation starts when its first sender starts it and ends when the last receiver, who may
        have been busy, finds it done. An exchange lies within its forward or backward tasks. What the runtime does not
        do (the gathers of ZeRO, which runs as an all-reduce; reductions of a single holder) is missing.
        """
        start = min(rank.iterations[iteration].origin_ns for rank in self.ranks)
        spans: dict[int, tuple[int, int]] = {}
        for rank in self.ranks:
            found = rank.iterations[iteration]
            offset = found.origin_ns - start
            for event in found.events:
                # Who waits may do so from long before the task starts; the end of its waiting is the task's.
                begin = (event.end_ns if event.kind == "wait" else event.start_ns) + offset
                for task in self._tasks_of(event, rank.rank):
                    low, high = spans.get(task, (begin, 0))
                    spans[task] = (min(low, begin), max(high, event.end_ns + offset))
        return spans

    def _tasks_of(self, event: Event, rank: int) -> tuple[int, ...]:
        step = self.program.steps[event.step]
        if not isinstance(step, ComputeStep):
            return step.task_ids
        if event.kind == "exchange":
            return step.task_ids[len(step.parts) :]
        return tuple(step.task_ids[i] for i, device in enumerate(step.devices) if device == rank)

    def measured_task_graph(self, iteration: int) -> TaskGraph:
        """The task graph with measured times in place of simulated ones, for ``sim.timeline.write_timeline``."""
        measured = TaskGraph(self.task_graph.device_names, self.task_graph.num_compute_devices)
        measured.memory_bytes = list(self.task_graph.memory_bytes)
        times = self.task_times(iteration)
        for task in self.task_graph.tasks:
            low, high = times.get(task.id, (0, 0))
            measured.tasks.append(replace(task, ready_time=low, start_time=low, end_time=high, exe_time=high - low))
        return measured
