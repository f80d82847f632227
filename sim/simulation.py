"""Simulation: the price of a strategy, and of changes to it, by compiled delta simulation.

The timeline is always identical to the one that ``TaskGraph.simulate`` computes from nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernels import delta, joint
from sim.kernels.layout import (
    COMM,
    DONE,
    EXE,
    IS_CUTOFF,
    KEY,
    MAKESPAN,
    NEED_ARENA,
    NEED_SCRATCH,
    NEED_TASKS,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    NUM_TASKS,
    OVERFLOW,
    PARTS,
    POPPED,
    RES,
    ROW,
    SEG,
    SERIAL_SUM,
    WAIT,
    State,
)
from sim.problem import Problem
from sim.state import copied, empty_state, grown
from sim.strategy import ParallelConfig, Strategy
from sim.tables import Rows

NO_CUTOFF = np.iinfo(np.int64).max
NO_LIMIT = -1


class Proposal(NamedTuple):
    """The price of a proposed change.

    Attributes:
        cost_ns: iteration time; if ``is_cutoff``, only a proven lower bound of it, greater than the cutoff.
        overflow_bytes: memory needed beyond what the devices have, summed over them; 0 if the strategy fits. Of no
            meaning if ``is_cutoff``.
        is_cutoff: pricing stopped because the cost exceeds the cutoff.
    """

    cost_ns: int
    overflow_bytes: int
    is_cutoff: bool


class Simulation:
    """The simulated iteration of one strategy, which can be changed one operator at a time.

    Args:
        problem: what is simulated.
        strategy: where it starts; priced by full simulation.

    Attributes:
        problem: what is simulated.

    Raises:
        MismatchError: the strategy is one of another graph or topology.
    """

    def __init__(self, problem: Problem, strategy: Strategy) -> None:
        self.problem = problem
        self._tables = problem.tables
        self._rows: Rows = problem.rows
        self._configs: list[ParallelConfig] = list(strategy.configs)
        self._proposed: dict[int, ParallelConfig] | None = None
        self._is_acceptable = False
        self._state = empty_state(self._tables)
        self.restart(strategy)

    def restart(self, strategy: Strategy) -> int:
        """Build the task graph of another strategy and simulate all of it; returns its cost in ns.

        Raises:
            MismatchError: the strategy is one of another graph or topology.
        """
        self.problem.require_own("strategy", strategy)
        self._configs = list(strategy.configs)
        self._proposed = None
        rows = [self._rows.row(i, config.degrees) for i, config in enumerate(self._configs)]
        lengths = [config.num_tasks for config in self._configs]
        pointers = np.concatenate([[0], np.cumsum(lengths)])
        devices = np.concatenate([config.devices for config in self._configs]).astype(np.int32)
        while True:
            arguments = (np.array(rows), pointers, devices)
            status = delta.full(self._tables, self._rows.array, self._state, *arguments)
            if status == DONE:
                break
            self._state = grown(self._state, status)
        self._is_acceptable = False
        return self.cost_ns

    def rebuild(self) -> None:
        """Build the accepted strategy's task graph again and simulate all of it: what delta simulation saves."""
        status = delta.rebuild(self._tables, self._rows.array, self._state)
        assert status == DONE, "a task graph that was there before fits again"

    def propose(self, operator: int, config: ParallelConfig, cutoff_ns: int | None = None) -> Proposal:
        """Price the strategy that differs in one operator's config.

        Args:
            operator: position of the operator.
            config: its new config, legal for the operator (``ParallelConfig.check``).
            cutoff_ns: stop as soon as the cost is proven to exceed this.

        Returns:
            The price; ``accept`` or ``reject`` comes next (a new proposal rejects the last one).
        """
        if self._proposed is not None:
            self.reject()
        row = self._rows.row(operator, config.degrees)
        num_parts = len(config.devices)
        cutoff = NO_CUTOFF if cutoff_ns is None else cutoff_ns
        while True:
            self._state.devices[:num_parts] = config.devices
            arguments = (operator, row, num_parts, cutoff, NO_LIMIT)
            status = delta.propose(self._tables, self._rows.array, self._state, *arguments)
            if status == DONE:
                break
            self._state = grown(self._state, status)
        return self._priced({operator: config})

    def propose_together(self, changes: Mapping[int, ParallelConfig], cutoff_ns: int | None = None) -> Proposal:
        """Price the strategy that differs in several operators' configs, in one go.

        Args:
            changes: new configs by position of the operator, at least one.
            cutoff_ns: see ``propose``, as for all else.
        """
        if len(changes) == 1:
            return Simulation.propose(self, *next(iter(changes.items())), cutoff_ns)  # not of a subclass, which charges
        if self._proposed is not None:
            self.reject()
        members = np.array(list(changes), np.int64)
        rows = np.array([self._rows.row(i, config.degrees) for i, config in changes.items()])
        parts = np.array([config.num_tasks for config in changes.values()])
        devices = np.zeros((len(changes), self.problem.topology.num_devices), np.int32)
        for k, config in enumerate(changes.values()):
            devices[k, : config.num_tasks] = config.devices
        arguments = (members, rows, parts, devices, NO_CUTOFF if cutoff_ns is None else cutoff_ns, NO_LIMIT)
        while True:
            status = joint.propose_together(self._tables, self._rows.array, self._state, *arguments)
            if status == DONE:
                break
            self._state = grown(self._state, status)
        return self._priced(dict(changes))

    def _priced(self, changes: dict[int, ParallelConfig]) -> Proposal:
        """What the kernel found out about a proposal, which waits for its answer from now on."""
        num = self._state.num
        is_cutoff = bool(num[IS_CUTOFF])
        self._proposed, self._is_acceptable = changes, not is_cutoff
        return Proposal(int(num[NEW_MAKESPAN] + num[NEW_SERIAL_SUM]), int(num[NEW_OVERFLOW]), is_cutoff)

    def accept(self) -> None:
        """Keep the proposed config."""
        assert self._proposed is not None, "nothing was proposed"
        assert self._is_acceptable, "a proposal that was cut off cannot be accepted"
        if len(self._proposed) == 1:
            delta.accept(self._tables, self._state)
        else:
            joint.accept_together(self._tables, self._rows.array, self._state)
        for operator, config in self._proposed.items():
            self._configs[operator] = config
        self._proposed = None

    def reject(self) -> None:
        """Drop the proposed config; everything is as it was before."""
        assert self._proposed is not None, "nothing was proposed"
        delta.reject(self._state)
        self._proposed = None

    def run_kernel(self, kernel: Callable[..., int], *arguments: Any) -> int:
        """Run a compiled searcher on the state; it is called again whenever an array had to grow.

        Args:
            kernel: takes tables, rows and state before its own arguments; every proposal that it makes it also accepts
                or rejects, and it returns a status (``sim.kernels.layout``).
            arguments: its own.

        Returns:
            The first status that is not about an array of the state.
        """
        assert self._proposed is None, "accept or reject the proposal first"
        while True:
            status = kernel(self._tables, self._rows.array, self._state, *arguments)
            if status not in (NEED_TASKS, NEED_ARENA, NEED_SCRATCH):
                break
            self._state = grown(self._state, status)
        block, arena = self._state.block, self._state.arena
        for operator, (row, home, parts) in enumerate(block[: len(self._configs), [ROW, SEG, PARTS]].tolist()):
            self._configs[operator] = self._rows.config(operator, row, arena[home : home + parts])
        return status

    def fork(self) -> "Simulation":
        """An independent copy of the accepted state."""
        assert self._proposed is None, "accept or reject the proposal first"
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._configs = list(self._configs)
        twin._state = copied(self._state)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as problem and strategy: the rest follows from them."""
        assert self._proposed is None, "accept or reject the proposal first"
        return Simulation, (self.problem, self.strategy)

    @property
    def state(self) -> State:
        """The kernels' arrays; a proposal may replace them."""
        return self._state

    @property
    def cost_ns(self) -> int:
        """Iteration time of the accepted strategy."""
        return int(self._state.num[MAKESPAN] + self._state.num[SERIAL_SUM])

    @property
    def strategy(self) -> Strategy:
        """The accepted strategy."""
        return Strategy(self.problem.graph, self.problem.topology, self._configs)

    @property
    def configs(self) -> tuple[ParallelConfig, ...]:
        """The accepted configs of all operators."""
        return tuple(self._configs)

    def config(self, operator: int) -> ParallelConfig:
        """The accepted config of an operator."""
        return self._configs[operator]

    @property
    def num_tasks(self) -> int:
        """Tasks of the accepted strategy."""
        return int(self._state.num[NUM_TASKS])

    @property
    def num_simulated_tasks(self) -> int:
        """Tasks that the last pricing dequeued; the others kept their times, or were shifted in a stretch."""
        return int(self._state.num[POPPED])

    @property
    def communication_bytes(self) -> int:
        """Bytes of all transfers, exchanges and synchronisation of one iteration."""
        return int(self._state.block[:, COMM].sum())

    @property
    def memory_bytes(self) -> NDArray[np.int64]:
        """(D,) weights, gradients, optimizer state and kept activations on each device."""
        return self._state.memory.copy()

    @property
    def overflow_bytes(self) -> int:
        """Memory needed beyond what the devices have, summed over them; 0 if the strategy fits."""
        return int(self._state.num[OVERFLOW])

    @property
    def busy_ns(self) -> NDArray[np.int64]:
        """(D,) time that each device is occupied: it computes, or sends and receives if messages occupy devices."""
        return self._state.load[: self.problem.topology.num_devices].copy()

    @property
    def compute_ns(self) -> int:
        """Sum of the execution times of all tasks that run on compute devices."""
        tasks = self._state.task[self._state.order[: self.num_tasks]]
        first = tasks[:, RES]
        # Messages begin with a connection.
        is_computing = (first >= 0) & (self._tables.route[np.maximum(first, 0)] < self.problem.topology.num_devices)
        return int(tasks[is_computing, EXE].sum())

    @property
    def state_bytes(self) -> int:
        """Size of all arrays of the simulation."""
        return sum(array.nbytes for array in self._state)

    def timeline(self) -> dict[tuple[int, int, int, int], tuple[int, int, int]]:
        """Ready, start and end time in ns of every task, by its key."""
        keys, times = self.timeline_arrays()
        return {_unpack(key): tuple(time) for key, time in zip(keys.tolist(), times.tolist(), strict=True)}

    def timeline_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Keys (tasks,) and ready, start and end times in ns (tasks, 3), in the order in which tasks were dequeued."""
        tasks = self._state.order[: self.num_tasks]
        return self._state.task[tasks, KEY], self._state.time[tasks, :WAIT]


def _unpack(key: int) -> tuple[int, int, int, int]:
    return key >> 43, key >> 30 & 0x1FFF, key >> 15 & 0x7FFF, key & 0x7FFF
