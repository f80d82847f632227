"""build_program: everything that happens in one iteration of a strategy, in one global order.

The order is that of the simulated timeline: tasks of the plain task graph by (start_time, key), each behind all that it
waits for, where the parts of an exchange group count as one step at the start of the last of them. Each rank's program
is the restriction of this order to the steps that it takes part in.

No deadlock: sending never blocks (a message is kept until it is taken), nor does starting an all-reduce, so that a rank
blocks only on a message or an all-reduce that others start at an earlier step, or in an exchange, which is one step of
all its ranks. Take the first step of the total order that is not done. All steps before it are done, so each of its
ranks has nothing else left to do first and is there, and all that it waits for has been started. So it will be done,
and by induction all are.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from runtime.boxes import disjoint_cover
from runtime.errors import TooFewRanksError, UnsupportedSyncError
from runtime.part_function import check_kinds
from runtime.steps import ComputeStep, MessageStep, ReduceStep, Step, TransferStep, UpdateStep
from runtime.weight_layout import check_weight_groups
from sim.flows import Flow, tensor_flows
from sim.operator_graph import Edge, OperatorGraph
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.synchronisation import weight_pieces
from sim.task_graph import Key, Task, TaskGraph
from sim.task_graph_builder import build_task_graph, exchange_groups


@dataclass(frozen=True, slots=True)
class ProgramShard:
    """A weight shard and the ranks that hold it.

    Attributes:
        low: its first unit.
        high: behind its last unit.
        holders: ranks, in order of first appearance.
    """

    low: int
    high: int
    holders: tuple[int, ...]


@dataclass(frozen=True)
class Program:
    """What all ranks do in one iteration; the same on every rank.

    Attributes:
        graph: the operator graph.
        configs: of the strategy, one for each operator.
        num_ranks: ranks 0 .. num_ranks - 1 are the devices of the topology.
        training: whether backward tasks, synchronisation and updates are part of it.
        flows: of each edge of the graph.
        shards: of each weight group.
        steps: in the global order, numbered by their position.
    """

    graph: OperatorGraph
    configs: tuple[ParallelConfig, ...]
    num_ranks: int
    training: bool
    flows: dict[Edge, tuple[Flow, ...]]
    shards: tuple[tuple[ProgramShard, ...], ...]
    steps: tuple[Step, ...]

    def steps_of(self, rank: int) -> list[Step]:
        """The program of one rank."""
        return [step for step in self.steps if rank in step.ranks]

    @cached_property
    def terminals(self) -> frozenset[int]:
        """Operators that nobody reads: they give the loss."""
        return frozenset(range(len(self.graph))) - {edge.src for edge in self.graph.edges}

    @cached_property
    def rank_sets(self) -> tuple[tuple[int, ...], ...]:
        """The sets of several ranks that run collectives, in order of first appearance."""
        sets = {
            tuple(sorted(step.ranks)): None
            for step in self.steps
            if isinstance(step, ComputeStep | ReduceStep) and len(step.ranks) > 1
        }
        return tuple(sets)


def build_program(problem: Problem, strategy: Strategy, *, num_ranks: int | None = None) -> tuple[Program, TaskGraph]:
    """The program of one iteration, and the simulated task graph that its order and its task ids come from.

    Args:
        problem: graph, topology, costs and synchronisation.
        strategy: one config for each operator.
        num_ranks: ranks at hand; by default one for each device of the topology.

    Raises:
        TooFewRanksError: the strategy places parts on devices without a rank.
        UnsupportedOperatorError: an operator is of a kind that the runtime cannot compute.
        UnsupportedSyncError: gradients are synchronised in a way that the runtime cannot run.
    """
    if problem.sync.bucket_mb is not None:
        raise UnsupportedSyncError("in buckets (sync.bucket_mb)")
    num_ranks = problem.topology.num_devices if num_ranks is None else num_ranks
    num_needed = 1 + max(device for config in strategy.configs for device in config.devices)
    if num_needed > num_ranks:
        raise TooFewRanksError(num_needed, num_ranks)
    check_kinds(problem.graph)
    check_weight_groups(problem.graph)
    task_graph = build_task_graph(problem, strategy)
    task_graph.simulate()
    flows = {edge: tuple(tensor_flows(problem.graph, strategy, edge)) for edge in problem.graph.edges}
    shards = _shards(problem, strategy, task_graph)
    steps = _Order(problem, strategy, task_graph, shards).steps()
    return Program(problem.graph, strategy.configs, num_ranks, problem.training, flows, shards, steps), task_graph


def _shards(problem: Problem, strategy: Strategy, task_graph: TaskGraph) -> tuple[tuple[ProgramShard, ...], ...]:
    """Shards of every weight group; they lie one behind another and cover all units."""
    # Only the holders matter here, so that any task may stand for the one that completes a gradient.
    done = [[task_graph.tasks[0]] * config.num_tasks for config in strategy.configs]
    groups = []
    for number, members in enumerate(problem.graph.weight_groups.values()):
        operator, low, shards = problem.graph.operators[members[0]], 0, []
        for shard in weight_pieces(problem, strategy, number, done):
            total = 4 * operator.num_weight_elements
            high = low + shard.num_bytes * operator.num_weight_units // total
            shards.append(ProgramShard(low, high, tuple(shard.gradients)))
            low = high
        groups.append(tuple(shards))
    return tuple(groups)


class _Order:
    """Turns the tasks of a simulated task graph into steps in one total order."""

    def __init__(
        self,
        problem: Problem,
        strategy: Strategy,
        task_graph: TaskGraph,
        shards: tuple[tuple[ProgramShard, ...], ...],
    ) -> None:
        self.problem, self.strategy, self.shards = problem, strategy, shards
        self.graph, self.tasks = problem.graph, task_graph.tasks
        self.edges = {(edge.dst, edge.input): edge for edge in self.graph.edges}
        # Several tasks may be one step, and one task several steps: nodes stand between them.
        self.node_of: dict[int, int] = {}
        self.nodes: list[list[Task]] = []

    def steps(self) -> tuple[Step, ...]:
        """All steps, numbered in the order of the simulated timeline."""
        self._add_nodes()
        ordered = [step for node in self._ordered_nodes() for step in self._steps_of(node)]
        return tuple(replace(step, number=number) for number, step in enumerate(ordered))

    def _add_nodes(self) -> None:
        """Each task is a node, but parts that exchange are one, together with their exchange."""
        groups: dict[tuple[int, int], int] = {}
        for task in self.tasks:
            if task.kind in ("forward", "backward"):
                key = (task.key[0], self._group_number(task))
                self.node_of[task.id] = groups.setdefault(key, len(self.nodes))
            elif task.kind == "exchange":
                self.node_of[task.id] = self.node_of[task.in_tasks[0]]
            else:
                self.node_of[task.id] = len(self.nodes)
            if self.node_of[task.id] == len(self.nodes):
                self.nodes.append([])
            self.nodes[self.node_of[task.id]].append(task)

    def _group_number(self, task: Task) -> int:
        position, part = self._operator(task.key), task.key[2]
        exchange = self.graph.operators[position].exchange
        if exchange is None:
            return part
        groups = exchange_groups(exchange, self.strategy[position])
        return next(number for number, parts in enumerate(groups) if part in parts)

    def _operator(self, key: Key) -> int:
        """The operator that a forward or backward task, or a transfer into it or of its gradients, belongs to."""
        phase, num_operators = key[0], len(self.graph)
        return (phase if phase < 2 * num_operators else 4 * num_operators - 1 - phase) // 2

    def _ordered_nodes(self) -> Iterable[list[Task]]:
        """Topological order; among nodes that wait for nothing, the one that starts first."""
        before = [
            {self.node_of[pre] for task in tasks for pre in task.in_tasks} - {node}
            for node, tasks in enumerate(self.nodes)
        ]
        after: list[list[int]] = [[] for _ in self.nodes]
        for node, pre_nodes in enumerate(before):
            for pre in pre_nodes:
                after[pre].append(node)
        num_missing = [len(pre_nodes) for pre_nodes in before]
        ready = [(self._start(node), node) for node, count in enumerate(num_missing) if not count]
        heapq.heapify(ready)
        while ready:
            _, node = heapq.heappop(ready)
            yield self.nodes[node]
            for following in after[node]:
                num_missing[following] -= 1
                if not num_missing[following]:
                    heapq.heappush(ready, (self._start(following), following))

    def _start(self, node: int) -> tuple[int, Key]:
        """When a node's last part starts in the simulated timeline; an exchange is behind all of them."""
        return max((task.start_time, task.key) for task in self.nodes[node] if task.kind != "exchange")

    def _steps_of(self, tasks: list[Task]) -> list[Step]:
        first = tasks[0]
        if first.kind in ("forward", "backward"):
            return [self._compute(tasks)]
        if first.kind == "transfer":
            return [self._transfer(first)]
        phase = first.key[0] - 4 * len(self.graph)
        group, stage = divmod(phase, 4)
        make = self._serial if not self.problem.sync.overlap else _SCHEMES.get(self.problem.sync.scheme, _all_reduce)
        return make(self.shards[group], group, stage, first)

    def _compute(self, tasks: list[Task]) -> Step:
        position = self._operator(tasks[0].key)
        parts = tuple(task.key[2] for task in tasks if task.kind != "exchange")
        devices = tuple(self.strategy[position].devices[part] for part in parts)
        ids, is_backward = tuple(task.id for task in tasks), tasks[0].kind == "backward"
        return ComputeStep(0, ids, tuple(sorted(set(devices))), position, parts, devices, is_backward)

    def _transfer(self, task: Task) -> Step:
        assert task.flow is not None
        is_backward = task.key[0] >= 2 * len(self.graph)
        ranks = (task.flow.src_device, task.flow.dst_device)
        edge = self.edges[self._operator(task.key), task.key[1]]
        pieces = disjoint_cover(task.flow.boxes)
        return TransferStep(0, (task.id,), ranks[::-1] if is_backward else ranks, edge, task.flow, pieces, is_backward)

    def _serial(self, shards: tuple[ProgramShard, ...], group: int, stage: int, task: Task) -> list[Step]:
        """All of a group's synchronisation behind each other; there is one task for it and one for the updates."""
        if self.problem.sync.scheme == "parameter_server":
            return [] if stage else _serial_parameter_server(shards, group, task)
        if stage == 0:
            return [ReduceStep(0, (task.id,), shard.holders, group, s) for s, shard in enumerate(shards)]
        return [
            UpdateStep(
                0, (task.id,), (rank,), group, tuple(s for s, shard in enumerate(shards) if rank in shard.holders)
            )
            for rank in dict.fromkeys(rank for shard in shards for rank in shard.holders)
        ]


def _all_reduce(shards: tuple[ProgramShard, ...], group: int, stage: int, task: Task) -> list[Step]:
    """An all-reduce for each shard; then each holder updates all that it holds of the group."""
    if stage == 0:
        number = task.key[2]
        return [ReduceStep(0, (task.id,), shards[number].holders, group, number)]
    rank = task.devices[0]
    held = tuple(s for s, shard in enumerate(shards) if rank in shard.holders)
    return [UpdateStep(0, (task.id,), (rank,), group, held)]


def _zero(shards: tuple[ProgramShard, ...], group: int, stage: int, task: Task) -> list[Step]:
    """Run as an all-reduce in place of the reduce-scatter: every holder updates all of the shard, gathers nothing."""
    number = task.key[2]
    if stage == 0:
        return [ReduceStep(0, (task.id,), shards[number].holders, group, number)]
    return [UpdateStep(0, (task.id,), (task.devices[0],), group, (number,))] if stage == 1 else []


def _parameter_server(shards: tuple[ProgramShard, ...], group: int, stage: int, task: Task) -> list[Step]:
    """Push, update, pull."""
    number, holder = task.key[2:]
    holders = shards[number].holders
    server = _server(group, number, holders)
    if stage == 0:
        return [MessageStep(0, (task.id,), (holders[holder], server), group, number, "push")]
    if stage == 1:
        return [UpdateStep(0, (task.id,), (server,), group, (number,))]
    return [MessageStep(0, (task.id,), (server, holders[holder]), group, number, "pull")]


def _serial_parameter_server(shards: tuple[ProgramShard, ...], group: int, task: Task) -> list[Step]:
    steps: list[Step] = []
    for number, shard in enumerate(shards):
        server = _server(group, number, shard.holders)
        others = [rank for rank in shard.holders if rank != server]
        steps += [MessageStep(0, (task.id,), (rank, server), group, number, "push") for rank in others]
        steps.append(UpdateStep(0, (task.id,), (server,), group, (number,)))
        steps += [MessageStep(0, (task.id,), (server, rank), group, number, "pull") for rank in others]
    return steps


def _server(group: int, number: int, holders: tuple[int, ...]) -> int:
    """The holder that updates a shard; servers are taken in turn, as in the simulator."""
    return holders[(group + number) % len(holders)]


_SCHEMES: dict[str, Callable[[tuple[ProgramShard, ...], int, int, Task], list[Step]]] = {
    "parameter_server": _parameter_server,
    "zero": _zero,
}
