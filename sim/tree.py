"""All strategies of a space, one after the other, or by branch and bound; in compiled code."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import permutations, product

import numpy as np

from sim.additive_bounds import WEIGHT_BITS, AdditiveBounds
from sim.chain import Improvement, Steps
from sim.cost_to_go import cost_to_go
from sim.kernels import tree as kernel
from sim.kernels.kernel import NEVER
from sim.kernels.layout import Ints, Lists
from sim.kernels.tree import (
    T_BEST_COST,
    T_BEST_OVERFLOW,
    T_CUTOFFS,
    T_DEPTH,
    T_IMPROVEMENTS,
    T_NEXT,
    T_NODES,
    T_SIMULATIONS,
    T_TASKS,
    TREE_ENTRIES,
    Options,
    Tree,
)
from sim.mixtures import mixtures
from sim.problem import Problem
from sim.simulation import Simulation
from sim.space import SoapSpace
from sim.strategy import ParallelConfig, Strategy
from sim.symmetries import image_array, symmetries

NODES_PER_SIMULATION = 64
"""A call that may simulate so often ends after so many times more choices, so that it comes back in a moment."""

MAX_VALUES = 2**25
"""Of all tables of a branch and bound together; more bounds are left out."""


def listed_configs(space: SoapSpace, operator: int, max_configs: int) -> list[ParallelConfig] | None:
    """All configs of an operator, also where they have no indices; None if there are too many."""
    if space.is_enumerable:
        count = space.num_configs(operator)
        return [space.config(operator, c) for c in range(count)] if count <= max_configs else None
    devices = range(space.topology.num_devices)
    configs: list[ParallelConfig] = []
    for degrees in space.degree_tuples(operator):
        parts = math.prod(degrees)
        is_free = space.variant == "free"
        count = len(devices) ** parts if is_free else math.perm(len(devices), parts)
        if len(configs) + count > max_configs:
            return None
        placements = product(devices, repeat=parts) if is_free else permutations(devices, parts)
        configs += [ParallelConfig(degrees, placement) for placement in placements]
    return configs


class Choice:
    """The configs of all operators, listed, and an order in which operators choose.

    Args:
        problem: what the strategies are for.
        configs: for each operator, all that it may take.
    """

    def __init__(self, problem: Problem, configs: Sequence[Sequence[ParallelConfig]]) -> None:
        self.problem, self.configs = problem, configs
        self.order = list(range(len(configs)))

    @property
    def num_strategies(self) -> int:
        """How many there are."""
        return math.prod(map(len, self.configs))

    def strategy(self, numbers: Sequence[int]) -> Strategy:
        """The strategy of each operator's config of this number."""
        configs = [own[c] for own, c in zip(self.configs, numbers, strict=True)]
        return Strategy(self.problem.graph, self.problem.topology, configs)

    @cached_property
    def options(self) -> Options:
        """For the kernels."""
        listed = [(operator, config) for operator in self.order for config in self.configs[operator]]
        devices = np.zeros((len(listed), self.problem.topology.num_devices), np.int32)
        for number, (_, config) in enumerate(listed):
            devices[number, : config.num_tasks] = config.devices
        sizes = [len(self.configs[operator]) for operator in self.order]
        return Options(
            order=np.array(self.order, np.int64),
            first=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
            row=np.array([self.problem.rows.row(operator, config.degrees) for operator, config in listed], np.int64),
            parts=np.array([config.num_tasks for _, config in listed], np.int64),
            devices=devices,
        )


class Walk(ABC):
    """Prices strategies, one after the other, and keeps the best.

    Args:
        choice: among what.
        simulation: where it starts; it belongs to the walk from now on.
        best: overflow and cost of a strategy that is known, its ``configs``; only better ones are looked for.
        configs: of that strategy.
    """

    def __init__(
        self, choice: Choice, simulation: Simulation, best: tuple[int, int], configs: Sequence[ParallelConfig]
    ) -> None:
        self.choice, self.simulation = choice, simulation
        self._seen = np.zeros(TREE_ENTRIES, np.int64)
        self._seen[[T_BEST_OVERFLOW, T_BEST_COST]] = best
        num_operators = len(choice.configs)
        self._best_rows = np.zeros(num_operators, np.int64)
        self._best_devices: Lists = np.zeros((num_operators, choice.problem.topology.num_devices), np.int32)
        self._best_configs = list(configs)

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether no strategy is better than the best."""

    @property
    def nodes(self) -> int:
        """Choices made, or strategies enumerated."""
        return int(self._seen[T_NODES])

    @property
    def best_ns(self) -> int:
        """Cost of the best strategy."""
        return int(self._seen[T_BEST_COST])

    @property
    def best_configs(self) -> list[ParallelConfig]:
        """Its configs."""
        return list(self._best_configs)

    @abstractmethod
    def _run(self, count: int, improvements: Ints) -> None: ...

    def walk(self, count: int) -> Steps:
        """Go on until so many strategies are priced, or for a moment."""
        seen = self._seen
        seen[[T_SIMULATIONS, T_CUTOFFS, T_TASKS, T_IMPROVEMENTS]] = 0
        improvements = np.zeros((count, 3), np.int64)
        self._run(count, improvements)
        found = tuple(Improvement(*row) for row in improvements[: seen[T_IMPROVEMENTS]].tolist())
        if found:
            rows = self.choice.problem.rows
            self._best_configs = [
                rows.config(operator, row, self._best_devices[operator])
                for operator, row in enumerate(self._best_rows.tolist())
            ]
        return Steps(int(seen[T_SIMULATIONS]), int(seen[T_CUTOFFS]), int(seen[T_TASKS]), found)


class Enumeration(Walk):
    """All strategies of a part of the space, in an order in which neighbours differ in one operator's config.

    Args:
        choice: among what.
        simulation: where it starts.
        best: overflow and cost of a known strategy.
        configs: of that strategy.
        part: number and count of the parts that share the space.
    """

    def __init__(
        self,
        choice: Choice,
        simulation: Simulation,
        best: tuple[int, int],
        configs: Sequence[ParallelConfig],
        part: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(choice, simulation, best, configs)
        places = math.prod(len(choice.configs[operator]) for operator in choice.order[:-1])
        number, count = part
        self._seen[T_NEXT], self._end = places * number // count, places * (number + 1) // count
        self._digits = np.zeros(len(choice.order) - 1, np.int64)

    @property
    def is_done(self) -> bool:
        """Whether all are priced."""
        return bool(self._seen[T_NEXT] >= self._end)

    def _run(self, count: int, improvements: Ints) -> None:
        best = (self._seen, improvements, self._best_rows, self._best_devices)
        self.simulation.run_kernel(kernel.enumerate_all, self.choice.options, self._digits, self._end, count, *best)


class SearchTree:
    """What a branch and bound knows beforehand: bounds by what is chosen, and symmetries.

    Args:
        choice: among what.
        rounds: of the method that finds the bounds (``sim.mixtures``).
        has_symmetries: leave out strategies that differ from another one by a renumbering of equal devices.
        look: is called often; may raise.
    """

    def __init__(
        self, choice: Choice, *, rounds: int, has_symmetries: bool = True, look: Callable[[], None] = lambda: None
    ) -> None:
        self.choice = choice
        bounds = AdditiveBounds(choice.problem, choice.configs, look)
        means = mixtures(bounds, choice.order, rounds=rounds, look=look)
        entries = sum(map(len, choice.configs)) + sum(
            table.size for pairs in (bounds.delays, bounds.ending_pairs) for table, _ in pairs.values()
        )
        self.networks = [bounds.network(mean) for mean in means[: max(1, MAX_VALUES // entries)]]
        self.root, self.tables = cost_to_go(self.networks, choice.order)
        look()
        images = symmetries(choice.problem, choice.configs) if has_symmetries else []
        self.image = image_array(images, choice.order, sum(map(len, choice.configs)))

    @property
    def root_ns(self) -> int:
        """No strategy is faster."""
        return -(-int(self.root.max()) >> WEIGHT_BITS)

    def arrays(self, share: tuple[int, int, int]) -> Tree:
        """For the kernels, with all that a search modifies new."""
        depths, num_bounds = len(self.choice.order), len(self.root)
        most = max(map(len, self.choice.configs))
        tables = sorted(self.tables, key=lambda table: table.depth)
        strides = [np.cumprod([1, *table.added.shape[-2:0:-1]])[1:][::-1] for table in tables]
        num_symmetries = len(self.image)
        return Tree(
            table_ptr=np.searchsorted([table.depth for table in tables], np.arange(depths + 1)).astype(np.int64),
            table_base=_running_sum([table.added.size for table in tables])[:-1],
            table_scope=_running_sum([len(table.scope) for table in tables]),
            scope=np.array([depth for table in tables for depth in table.scope], np.int64),
            stride=np.array([stride for own in strides for stride in own], np.int64),
            added=self._added,
            image=self.image,
            is_tied=np.ones((depths + 1, num_symmetries), np.int32),
            partial=np.concatenate([self.root[None], np.zeros((depths, num_bounds), np.int64)]),
            children=np.zeros((depths, most), np.int32),
            bound=np.zeros((depths, most), np.int64),
            num_children=np.zeros(depths, np.int64),
            cursor=np.zeros(depths, np.int64),
            choice=np.zeros(depths, np.int32),
            share=np.array(share, np.int64),
        )

    @cached_property
    def _added(self) -> Ints:
        tables = sorted(self.tables, key=lambda table: table.depth)
        return np.concatenate([table.added.ravel() for table in tables])


class Branching(Walk):
    """Depth-first branch and bound over a part of a search tree.

    Args:
        tree: what is known beforehand.
        simulation: where it starts.
        best: overflow and cost of a known strategy.
        configs: of that strategy.
        part: number and count of the parts that share the tree, at the third operator.
    """

    def __init__(
        self,
        tree: SearchTree,
        simulation: Simulation,
        best: tuple[int, int],
        configs: Sequence[ParallelConfig],
        part: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(tree.choice, simulation, best, configs)
        self._tree = tree.arrays((min(2, len(tree.choice.order) - 1), *part))
        limit = self.best_ns - 1 if best[0] == 0 else NEVER
        kernel.expand(tree.choice.options, self._tree, 0, limit, 1 << WEIGHT_BITS)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left that could be better."""
        return bool(self._seen[T_DEPTH] < 0)

    @property
    def open_ns(self) -> int | None:
        """No strategy that is still to be looked at is faster; None if there is none."""
        tree = self._tree
        left = [
            int(tree.bound[depth, tree.cursor[depth]])
            for depth in range(int(self._seen[T_DEPTH]) + 1)
            if tree.cursor[depth] < tree.num_children[depth]
        ]
        return min(left, default=None)

    def _run(self, count: int, improvements: Ints) -> None:
        best = (self._seen, improvements, self._best_rows, self._best_devices)
        max_nodes = self.nodes + NODES_PER_SIMULATION * count
        limits = (1 << WEIGHT_BITS, count, max_nodes)
        self.simulation.run_kernel(kernel.branch, self.choice.options, self._tree, *limits, *best)


def _running_sum(counts: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
