"""PartialTaskGraph: the tasks of the operators that are decided, and what the others do to them at least."""

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from sim.chains import Chains, readers_of
from sim.degree_bounds import DegreeBounds, Ints
from sim.flows import needed_box, volume
from sim.operator_graph import Edge
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.synchronisation import Synchronisation
from sim.task_graph import Key
from sim.task_graph_builder import TaskGraphBuilder


class PartialTaskGraph:
    """A relaxation of the task graph of every strategy that gives some operators these configs.

    Decided operators have the very tasks of ``build_task_graph``, with the transfers between them. An undecided
    operator has one task forward and one backward that occupies nothing and stands for every part of it: it takes
    the least that a part can take, starts no later than any of them and leaves no more to do than any.

    Args:
        problem: graph, topology, costs and synchronisation.
        configs: of the decided operators, by position.
        choices: for each operator, what it costs at least.
        chains: of the operator graph.

    Attributes:
        keys: of all tasks; an undecided operator's are those of its first part.
    """

    def __init__(
        self, problem: Problem, configs: Mapping[int, ParallelConfig], choices: Sequence[DegreeBounds], chains: Chains
    ) -> None:
        self.problem, self.graph = problem, problem.graph
        self._chains = chains
        self.configs, self.choices = configs, choices
        # The builder asks for configs of decided operators alone.
        self._builder = TaskGraphBuilder(problem, cast(Strategy, configs))
        self._add_decided()
        self._tasks = self._builder.task_graph.tasks
        self._task_of_key: dict[Key, int] = {task.key: task.id for task in self._tasks}
        # What waits for what: each entry is a group of tasks, of which one at least must end before / starts after.
        self._before: list[list[tuple[int, ...]]] = [[(pre,) for pre in set(task.in_tasks)] for task in self._tasks]
        self._after: list[list[tuple[int, ...]]] = [[] for _ in self._tasks]
        for task in self._tasks:
            for pre in set(task.in_tasks):
                self._after[pre].append((task.id,))
        self._times = [task.exe_time for task in self._tasks]
        self.keys: list[Key] = [task.key for task in self._tasks]
        self._endings = [0] * len(self._tasks)
        self._add_undecided()
        for edge in self.graph.edges:
            self._connect(edge)

    def bound_ns(self) -> int:
        """Longest path, and head, body and tail of every device and connection.

        Proof. A task starts no earlier than the longest path to it (its head) and leaves at least the longest path
        behind it (its tail), and a device runs one task at a time. So for any set of its tasks, the iteration
        takes at least the least head, their sum and the least tail.
        """
        heads, tails = self.heads_and_tails()
        bound = max(map(sum, zip(heads, self._times, tails, strict=True)))
        on_device: dict[int, list[int]] = {}
        for real in self._tasks:
            for device in real.devices:
                on_device.setdefault(device, []).append(real.id)
        for tasks in on_device.values():
            tasks.sort(key=lambda task: -tails[task])
            first, own, last = (np.array([column[t] for t in tasks]) for column in (heads, self._times, tails))
            bound = max(bound, head_body_tail_ns(first, own, last, 1))
        return bound

    def heads_and_tails(self) -> tuple[list[int], list[int]]:
        """For each task, the longest path to it and behind it, ns."""
        order = sorted(range(len(self.keys)), key=lambda task: self.keys[task])
        heads, tails = [0] * len(order), list(self._endings)
        for task in order:
            for group in self._before[task]:
                heads[task] = max(heads[task], min(heads[pre] + self._times[pre] for pre in group))
        for task in reversed(order):
            for group in self._after[task]:
                tails[task] = max(tails[task], min(self._times[out] + tails[out] for out in group))
        return heads, tails

    def _add_decided(self) -> None:
        builder, graph = self._builder, self.graph
        builder.incoming = [
            [edge for edge in edges if edge.src in self.configs and edge.dst in self.configs]
            for edges in builder.incoming
        ]
        for position in range(len(graph)):
            if position in self.configs:
                builder.add_forward(position)
            else:
                builder.forward_done.append([])
                builder.gradients.append([])
        if not self.problem.training:
            return
        for position in sorted(self.configs, reverse=True):
            builder.add_backward(position)
        if self.problem.sync.overlap:
            synchronisation = Synchronisation(
                self.problem, cast(Strategy, self.configs), builder.task_graph, builder.backward_done
            )
            groups = list(graph.weight_groups.values())
            for number, bucket in enumerate(self.problem.buckets):
                if all(member in self.configs for group in bucket for member in groups[group]):
                    synchronisation.add_bucket(number)

    def _add_undecided(self) -> None:
        """Two tasks for each undecided operator, and where parts of all operators start and end."""
        n, builder = len(self.graph), self._builder
        # [0] forward, [1] backward; for each operator, the task of each part, and the task that completes it.
        self._starts: tuple[list[list[int]], list[list[int]]] = ([], [])
        self._ends: tuple[list[list[int]], list[list[int]]] = ([], [])
        for position, choice in enumerate(self.choices):
            ending = int(choice.ending.min())
            phases = (2 * position + 1, 4 * n - 2 * position - 2)
            for way in range(1 + self.problem.training):
                if position in self.configs:
                    parts = range(self.configs[position].num_tasks)
                    self._starts[way].append([self._task_of_key[phases[way], 0, part, 0] for part in parts])
                    done = (builder.forward_done, builder.backward_done)[way][position]
                    self._ends[way].append([task.id for task in done])
                else:
                    least = (choice.forward, choice.backward)[way].min()
                    self._starts[way].append([self._add(int(least), (phases[way], 0, 0, 0))])
                    self._ends[way].append(self._starts[way][-1])
            if self.problem.training:
                for end in self._ends[1][position]:
                    self._endings[end] = ending
                if position not in self.configs:
                    self._order(self._ends[0][position], self._starts[1][position], (True, True), (True, True))

    def _add(self, time: int, key: Key) -> int:
        self._times.append(time)
        self.keys.append(key)
        self._endings.append(0)
        self._before.append([])
        self._after.append([])
        return len(self._times) - 1

    def _connect(self, edge: Edge) -> None:
        """What an edge to or from an undecided operator makes wait; the builder connected the others."""
        is_open = edge.src not in self.configs, edge.dst not in self.configs
        if not any(is_open):
            return
        is_read, is_fed = self._chains.coverage[edge]
        src = [0] if is_open[0] else self._read_parts(edge)
        dst = [0] if is_open[1] else self._reading_parts(edge)
        if not src or not dst:
            return
        for way in range(1 + self.problem.training):
            ends, starts = self._ends[way], self._starts[way]
            if way == 0:
                first, second = [ends[edge.src][part] for part in src], [starts[edge.dst][part] for part in dst]
                self._order(first, second, is_open, (is_read, is_fed))
            else:
                first, second = [ends[edge.dst][part] for part in dst], [starts[edge.src][part] for part in src]
                self._order(first, second, is_open[::-1], (is_fed, is_read))

    def _order(
        self, first: list[int], second: list[int], is_open: tuple[bool, bool], is_complete: tuple[bool, bool]
    ) -> None:
        """Let tasks wait for others, of which one side at least is the one task of an undecided operator.

        Args:
            first: tasks of one operator, all of which precede some task of the other.
            second: tasks of the other, all of which wait for some of the first.
            is_open: whether each of the two operators is undecided.
            is_complete: for an undecided one, whether what is said about its task holds for each of its parts.
        """
        if not is_open[1]:
            for task in second:
                self._before[task].append((first[0],))
        elif is_complete[1]:
            self._before[second[0]].append(tuple(first))
        if not is_open[0]:
            for task in first:
                self._after[task].append((second[0],))
        elif is_complete[0]:
            self._after[first[0]].append(tuple(second))

    def _read_parts(self, edge: Edge) -> list[int]:
        """Parts of the producer of which every config of the consumer reads something."""
        operator, config = self.graph.operators[edge.src], self.configs[edge.src]
        boxes = [config.box(operator, part) for part in range(config.num_tasks)]
        return [part for part, box in enumerate(boxes) if volume(readers_of(self.graph, edge, box))]

    def _reading_parts(self, edge: Edge) -> list[int]:
        """Parts of the consumer that read something, whatever the producer's config."""
        operator, config = self.graph.operators[edge.dst], self.configs[edge.dst]
        boxes = [config.box(operator, part) for part in range(config.num_tasks)]
        return [part for part, box in enumerate(boxes) if volume(needed_box(self.graph, edge, box))]


def head_body_tail_ns(heads: Ints, bodies: Ints, tails: Ints, num_devices: int) -> int:
    """Greatest least head + bodies / devices + least tail of any set of tasks.

    Args:
        heads: (N,) time before each task.
        bodies: (N,) its own time.
        tails: (N,) time after it; the greatest come first.
        num_devices: that share the bodies.

    Returns:
        The bound in ns; the best sets are those of all tasks whose head and tail reach some thresholds.
    """
    bound = 0
    for head in np.unique(heads).tolist():
        inside = heads >= head
        sums = -(-np.cumsum(bodies[inside]) // num_devices) + tails[inside]
        bound = max(bound, head + int(sums.max()))
    return bound
