"""AdditiveCost: the iteration time of a machine that does one thing at a time (OptCNN's cost model)."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from sim.kernels import additive
from sim.kernels.layout import DONE, HALO, Ints, Lists, Tables
from sim.operator_graph import Edge
from sim.problem import Problem
from sim.state import empty_state, grown
from sim.strategy import ParallelConfig


class _Configs(NamedTuple):
    """The configs of one operator in the kernels' arrays: rows of their degrees, pointers, devices of all parts."""

    rows: Ints
    ptr: Ints
    devices: Lists


class AdditiveCost:
    """A cost that is a sum over operators and edges, so that it can be minimised exactly.

    Paper: Jia, Lin, Qi, Aiken, "Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks", ICML 2018
    (OptCNN), equation 1: t_o = sum of t_c + t_s over operators + sum of t_x over edges.

    It is the time of an iteration in which every operator and every edge waits until all that came before it has ended.
    Added are exactly, each simulated alone from an idle machine, in ns:

    - ``compute_ns`` (t_c): an operator's forward tasks with their exchanges, first come, first served; then the same
      for its backward tasks;
    - ``sync_ns`` (t_s): the run's scheme for its weight group as in serial synchronisation (shard after shard on an
      idle network, then the largest update), as if every operator of the group had the same config, and without
      buckets;
    - ``transfer_ns`` (t_x): all transfers of an edge, which contend for connections, first come, first served; then
      their mirrors with the gradients.

    So there is no overlap, and no two operators run at the same time. Memory is not considered. For a graph without
    branches whose operators all have the same degrees on the same devices, with serial synchronisation, nothing is
    moved and the sum is the simulated time.

    Where operators share weights, each of them bears an equal share of ``sync_ns``: exact if their configs are equal.

    Args:
        problem: graph, topology, costs and synchronisation.
        configs: for each operator, the configs that it may take.
        look: is called often while prices are computed, with a text that says how far they are; may raise.

    Attributes:
        compute_ns: for each operator, (C,).
        sync_ns: for each operator, (C,), of the whole weight group; zeros if it has none.
        transfer_ns: for each edge, (C of the producer, C of the consumer).
    """

    def __init__(
        self,
        problem: Problem,
        configs: Sequence[Sequence[ParallelConfig]],
        look: Callable[[str], None] = lambda stage: None,
    ) -> None:
        self.problem, self.configs = problem, tuple(tuple(members) for members in configs)
        self._arrays = [self._configs(i, members) for i, members in enumerate(self.configs)]
        self._tables = _serial(problem).tables
        self._state = empty_state(self._tables)
        self._clear()
        self.compute_ns: list[Ints] = []
        self.sync_ns: list[Ints] = []
        self.transfer_ns: list[Ints] = []
        num_operators, num_edges = len(problem.graph), len(problem.graph.edges)
        for operator in range(num_operators):
            look(f"pricing operator {operator + 1} of {num_operators}")
            self._price_operator(operator)
        known: dict[Hashable, Ints] = {}
        for number, edge in enumerate(problem.graph.edges):
            key = self._likeness(number, edge)
            if key not in known:
                stage = f"pricing edge {number + 1} of {num_edges}"
                known[key] = self._price_edge(number, edge, partial(look, stage))
            self.transfer_ns.append(known[key])

    def operator_ns(self, operator: int) -> Ints:
        """(C,) compute time of an operator and its share of its weight group's synchronisation; int64 ns."""
        weight = self.problem.graph.operators[operator].weight
        if weight is None:
            return self.compute_ns[operator]
        members = self.problem.graph.weight_groups[weight.group]
        # What cannot be divided evenly goes to the first, so that equal configs add up to the whole.
        share, rest = np.divmod(self.sync_ns[operator], len(members))
        return self.compute_ns[operator] + share + rest * (operator == members[0])

    def total_ns(self, choice: Sequence[int]) -> int:
        """The cost of a strategy, ns.

        Args:
            choice: for each operator, the number of its config.
        """
        nodes = sum(int(self.operator_ns(i)[c]) for i, c in enumerate(choice))
        edges = zip(self.problem.graph.edges, self.transfer_ns, strict=True)
        return nodes + sum(int(times[choice[edge.src], choice[edge.dst]]) for edge, times in edges)

    def _configs(self, operator: int, configs: Sequence[ParallelConfig]) -> _Configs:
        rows = np.array([self.problem.rows.row(operator, config.degrees) for config in configs], dtype=np.int64)
        ptr = np.concatenate([[0], np.cumsum([config.num_tasks for config in configs])]).astype(np.int64)
        devices = np.concatenate([config.devices for config in configs]).astype(np.int32)
        return _Configs(rows, ptr, devices)

    def _likeness(self, number: int, edge: Edge) -> Hashable:
        """Equal for edges of equal prices: between operators of equal extents and configs, through equal windows."""
        ends = [(self.problem.graph.operators[end].sizes, self.configs[end]) for end in (edge.src, edge.dst)]
        return (*ends, self._tables.edge[number, HALO:].tobytes())

    def _price_operator(self, operator: int) -> None:
        configs = self._arrays[operator]
        compute, sync = np.zeros(len(configs.rows), np.int64), np.zeros(len(configs.rows), np.int64)
        tables = _alone(self._tables, operator)
        while True:
            status = additive.price_operator(
                tables, self.problem.rows.array, self._state, operator, *configs, compute, sync
            )
            if status == DONE:
                break
            self._grow(status)
        self.compute_ns.append(compute)
        self.sync_ns.append(sync)

    def _price_edge(self, number: int, edge: Edge, look: Callable[[], None]) -> Ints:
        src, dst = self._arrays[edge.src], self._arrays[edge.dst]
        transfer = np.zeros((len(src.rows), len(dst.rows)), np.int64)
        for c, row in enumerate(src.rows):
            look()
            devices = src.devices[src.ptr[c] : src.ptr[c + 1]]
            while True:
                status = additive.price_edge(
                    self._tables, self.problem.rows.array, self._state, number, row, devices, *dst, transfer[c]
                )
                if status == DONE:
                    break
                self._grow(status)
        return transfer

    def _grow(self, status: int) -> None:
        self._state = grown(self._state, status)
        self._clear()

    def _clear(self) -> None:
        """No block is built, and all room is free."""
        for field in (self._state.num, self._state.stamp):
            field[:] = 0
        for field in (self._state.task_free, self._state.seg_free):
            field[:] = -1


def _serial(problem: Problem) -> Problem:
    """The same problem with serial synchronisation of each weight group on its own."""
    sync = replace(problem.sync, overlap=False, bucket_mb=None)
    cost, space, training = problem.cost, problem.space, problem.training
    return Problem(problem.graph, problem.topology, cost=cost, space=space, sync=sync, training=training)


def _alone(tables: Tables, operator: int) -> Tables:
    """The tables of a problem whose weight groups all have the given operator as their only member.

    Members with the same config hold the same shards on the same devices as one of them does. Only the operator's
    own group is priced with these tables.
    """
    num_groups = len(tables.group)
    pointers = np.arange(num_groups + 1, dtype=np.int64)
    return tables._replace(
        member_ptr=pointers, sharer_ptr=pointers, member=np.full(num_groups, operator, dtype=np.int64)
    )
