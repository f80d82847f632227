"""SimulationBatch: many simulations of one problem, changed in one compiled call, on several threads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.choices import make_choices
from sim.kernels import batch
from sim.kernels.layout import (
    DONE,
    EPOCH,
    MAKESPAN,
    NEED_ARENA,
    NEED_SCRATCH,
    NEED_TASKS,
    OVERFLOW,
    PARTS,
    ROW,
    SEG,
    SEG_TOP,
    SERIAL_SUM,
    STAMP,
    TASK_TOP,
    State,
)
from sim.problem import Problem
from sim.simulation import Simulation
from sim.space import SoapSpace
from sim.state import TASK_FIELDS, copied, grown
from sim.strategy import ParallelConfig, Strategy
from sim.workers import Workers

PROPOSAL_FIELDS = ("new_time", "new_order", "heap_time", "heap_key", "heap_task", "scratch")
"""Fields that hold nothing between two proposals; marks in them are older than EPOCH."""

GROWING = {"task": NEED_TASKS, "arena": NEED_ARENA, "scratch": NEED_SCRATCH}


class SimulationBatch:
    """Simulated iterations of several strategies, each of which can be changed one operator at a time.

    What a change costs is what ``Simulation.propose`` says, whatever the number of threads.

    Args:
        start: every simulation is a copy of this one.
        space: its configs are named by their indices, so it must be enumerable.
        num_simulations: S.
        num_threads: that price at the same time.

    Attributes:
        problem: what is simulated.
        workers: the threads.
    """

    def __init__(self, start: Simulation, space: SoapSpace, num_simulations: int, *, num_threads: int = 1) -> None:
        self.problem, self.space, self.workers = start.problem, space, Workers(num_threads)
        self._tables, self._rows = start.problem.tables, start.problem.rows
        is_own = space is self.problem.space
        self._choices = self.problem.choices if is_own else make_choices(space, self._rows)
        arrays: Any = [np.repeat(array[None], num_simulations, axis=0) for array in start.state]
        self._states = State(*arrays)

    def __len__(self) -> int:
        return len(self._states.num)

    def change(self, operators: NDArray[np.int64], indices: NDArray[np.int64], first: int, last: int) -> None:
        """Price one new config in each simulation from ``first`` to ``last``, and keep it.

        Args:
            operators: (S,) whose config changes.
            indices: (S,) its new config's index in the space.
            first: the first simulation that changes.
            last: the one behind the last that does.
        """
        is_changed = np.zeros(len(self), np.int8)

        def run(low: int, high: int) -> int:
            chosen = (first + low, first + high, operators, indices, is_changed)
            status: int = batch.change(self._tables, self._rows.array, self._states, self._choices, *chosen)
            return status

        while needs := set(self.workers.run(run, last - first)) - {DONE}:
            for status in needs:
                self._states = grown(self._states, status, axis=1)

    def restart(self, chosen: NDArray[np.bool_], start: Simulation) -> None:
        """Make the chosen ones (S,) copies of ``start`` again; nothing is priced."""
        for field, status in GROWING.items():
            while getattr(self._states, field).shape[1] < len(getattr(start.state, field)):
                self._states = grown(self._states, status, axis=1)
        num = start.state.num
        counters = np.maximum(self._states.num[:, [EPOCH, STAMP]], num[[EPOCH, STAMP]])
        used = dict.fromkeys(TASK_FIELDS, int(num[TASK_TOP])) | {"arena": int(num[SEG_TOP])}
        for field in State._fields:
            if field not in PROPOSAL_FIELDS:
                target, source = getattr(self._states, field), getattr(start.state, field)
                length = used.get(field, len(source))
                target[chosen, :length] = source[:length]
        # What is marked in arrays that were not copied stays older than the counters.
        self._states.num[:, [EPOCH, STAMP]] = counters

    def fork(self) -> "SimulationBatch":
        """An independent copy."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._states = copied(self._states)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as strategies: the rest follows from them."""
        strategies = [self.strategy(number) for number in range(len(self))]
        return _restored, (self.problem, self.space, strategies, self.workers.num_threads)

    @property
    def states(self) -> State:
        """The kernels' arrays, (S, ...) each; a change may replace them."""
        return self._states

    @property
    def cost_ns(self) -> NDArray[np.int64]:
        """(S,) iteration times."""
        total: NDArray[np.int64] = self._states.num[:, MAKESPAN] + self._states.num[:, SERIAL_SUM]
        return total

    @property
    def overflow_bytes(self) -> NDArray[np.int64]:
        """(S,) memory needed beyond what the devices have, summed over them."""
        return self._states.num[:, OVERFLOW].copy()

    def config(self, number: int, operator: int) -> ParallelConfig:
        """An operator's config in one of the simulations."""
        block = self._states.block[number, operator]
        home = int(block[SEG])
        devices = self._states.arena[number, home : home + int(block[PARTS])]
        return self._rows.config(operator, int(block[ROW]), devices)

    def configs(self, number: int) -> list[ParallelConfig]:
        """All configs of one of the simulations."""
        return [self.config(number, operator) for operator in range(len(self.problem.graph))]

    def strategy(self, number: int) -> Strategy:
        """The strategy of one of the simulations."""
        return Strategy(self.problem.graph, self.problem.topology, self.configs(number))


def _restored(problem: Problem, space: SoapSpace, strategies: Sequence[Strategy], num_threads: int) -> SimulationBatch:
    starts = [Simulation(problem, strategy) for strategy in strategies]
    simulations = SimulationBatch(starts[0], space, len(starts), num_threads=num_threads)
    for number, start in enumerate(starts):
        simulations.restart(np.arange(len(starts)) == number, start)
    return simulations
