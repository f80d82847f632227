"""Neighbourhood: the strategies around one, in which one operator, or several together, get another config."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.chain import Improvement, Steps
from sim.kernels import neighbourhood as kernel
from sim.kernels.layout import Ints, Lists
from sim.kernels.neighbourhood import S_CUTOFFS, S_IMPROVEMENTS, S_NEXT, S_SIMULATIONS, S_TASKS, SCAN_ENTRIES
from sim.operator_graph import Label
from sim.problem import Problem
from sim.simulation import NO_CUTOFF, Simulation
from sim.space import SoapSpace
from sim.strategy import ParallelConfig


class Candidates(NamedTuple):
    """Configs that some operators may take together.

    Attributes:
        rows: (k, C) for each operator, rows of the candidates' degrees (``sim.tables.Rows``).
        parts: (C,) their numbers of parts.
        devices: (C, D) their devices.
    """

    rows: Ints
    parts: Ints
    devices: Lists

    def __len__(self) -> int:
        return len(self.parts)


class Neighbourhood:
    """Knows the candidates around the strategies of a problem.

    Args:
        problem: graph, topology and space.
        num_samples: where configs have no indices (``free``, ``injective``), so many are drawn for every question.
        rng: draws them, and the order of pricing.
        space: the candidates' configs; the problem's by default.
    """

    def __init__(
        self, problem: Problem, rng: np.random.Generator, *, num_samples: int, space: SoapSpace | None = None
    ) -> None:
        self.problem, self._rng, self._num_samples = problem, rng, num_samples
        self.space = space or problem.space
        self._shared: dict[tuple[tuple[int, ...], tuple[Label, ...]], list[ParallelConfig]] = {}
        self._all: dict[tuple[int, ...], Candidates] = {}

    @property
    def is_complete(self) -> bool:
        """Whether the candidates are all configs of the space, those of one operator in the order of their indices."""
        return self.space.is_enumerable

    def scan(self, simulation: Simulation, members: Sequence[int], highest_ns: int | None = None) -> "Scan":
        """What changes ``members`` to one and the same config each time, in random order; see ``Scan``."""
        candidates = self.candidates(tuple(members))
        return Scan(simulation, members, candidates, self._rng.permutation(len(candidates)), highest_ns)

    def candidates(self, members: tuple[int, ...]) -> Candidates:
        """The configs that are legal for all of ``members``: all of them, or a sample."""
        if not self.is_complete:
            space, first = self.space, members[0]
            drawn = [space.sample(first, self._rng) for _ in range(self._num_samples)]
            tuples = [set(space.degree_tuples(i)) for i in members[1:]]
            return self._arrays(members, [c for c in drawn if all(c.degrees in degrees for degrees in tuples)])
        if members not in self._all:
            self._all[members] = self._arrays(members, self._common(members))
        return self._all[members]

    def _common(self, members: tuple[int, ...]) -> list[ParallelConfig]:
        space, operators = self.space, self.problem.graph.operators
        # Operators may have equal sizes and yet not be divisible along the same dimensions.
        shapes = {(operators[i].sizes, tuple(dim.label for dim in operators[i].dims)): i for i in members}
        configs: list[ParallelConfig] = []
        for number, (key, i) in enumerate(shapes.items()):
            if key not in self._shared:
                self._shared[key] = [space.config(i, index) for index in range(space.num_configs(i))]
            if number == 0:
                configs = self._shared[key]
            else:
                known = set(self._shared[key])
                configs = [config for config in configs if config in known]
        return configs

    def _arrays(self, members: tuple[int, ...], configs: Sequence[ParallelConfig]) -> Candidates:
        rows = self.problem.rows
        devices = np.zeros((len(configs), self.problem.topology.num_devices), np.int32)
        for c, config in enumerate(configs):
            devices[c, : config.num_tasks] = config.devices
        table = [[rows.row(i, config.degrees) for config in configs] for i in members]
        parts = np.array([config.num_tasks for config in configs], np.int64)
        return Candidates(np.array(table, np.int64).reshape(len(members), -1), parts, devices)


class Scan:
    """Prices candidates and keeps each that beats the best so far, without coming back to Python.

    Args:
        simulation: what is changed; it belongs to the scan until that is done.
        members: operators that change together.
        candidates: for these.
        visits: the candidates to price, in order.
        highest_ns: a strategy that fits and costs more is not kept, even if it is better.
    """

    def __init__(
        self,
        simulation: Simulation,
        members: Sequence[int],
        candidates: Candidates,
        visits: NDArray[np.int64],
        highest_ns: int | None = None,
    ) -> None:
        self.simulation = simulation
        self._highest_ns = NO_CUTOFF if highest_ns is None else highest_ns
        self._members, self._candidates, self._visits = np.array(members, np.int64), candidates, visits
        self._scanned = np.zeros(SCAN_ENTRIES, np.int64)

    @property
    def left(self) -> int:
        """Candidates that are still to be priced."""
        return len(self._visits) - int(self._scanned[S_NEXT])

    def walk(self, count: int) -> Steps:
        """Price up to ``count`` candidates."""
        count = min(count, self.left)
        scanned = self._scanned
        scanned[[S_SIMULATIONS, S_CUTOFFS, S_TASKS, S_IMPROVEMENTS]] = 0
        improvements = np.zeros((count, 3), np.int64)
        limits = (self._highest_ns, count)
        self.simulation.run_kernel(
            kernel.scan, self._members, *self._candidates, self._visits, *limits, scanned, improvements
        )
        found = tuple(Improvement(*row) for row in improvements[: scanned[S_IMPROVEMENTS]].tolist())
        return Steps(int(scanned[S_SIMULATIONS]), int(scanned[S_CUTOFFS]), int(scanned[S_TASKS]), found)
