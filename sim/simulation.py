"""Simulation: the price of a strategy, and of changes to it, by compiled delta simulation.

The timeline is always identical to the one that ``TaskGraph.simulate`` computes from nothing.
"""

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernels import delta
from sim.kernels.layout import (
    BLOCK_COLUMNS,
    COMM,
    DONE,
    IS_CUTOFF,
    MAKESPAN,
    NEED_ARENA,
    NEED_TASKS,
    NEW_MAKESPAN,
    NEW_OVERFLOW,
    NEW_SERIAL_SUM,
    NUM_SCALARS,
    NUM_TASKS,
    OVERFLOW,
    POPPED,
    SERIAL_SUM,
    State,
)
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.tables import Rows, make_tables

NO_CUTOFF = np.iinfo(np.int64).max
_TASK_FIELDS = ("exe", "key", "res", "res_len", "owner", "num_bytes", "time", "new_time", "cnt")
_QUEUE_FIELDS = ("order", "new_order", "heap_time", "heap_key", "heap_task")


class Proposal(NamedTuple):
    """The price of a proposed change.

    Attributes:
        cost_ns: iteration time; if ``is_cutoff``, only a proven lower bound of it, greater than the cutoff.
        overflow_bytes: memory needed beyond what the devices have, summed over them; 0 if the strategy fits.
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
    """

    def __init__(self, problem: Problem, strategy: Strategy) -> None:
        self.problem = problem
        self._tables = problem.tables
        self._rows: Rows = problem.rows
        self._configs: list[ParallelConfig] = list(strategy.configs)
        self._proposed: tuple[int, ParallelConfig] | None = None
        self._is_acceptable = False
        self._state = self._empty_state()
        self.restart(strategy)

    def restart(self, strategy: Strategy) -> int:
        """Build the task graph of another strategy and simulate all of it; returns its cost in ns."""
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
            self._grow(status)
        self._is_acceptable = False
        return self.cost_ns

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
            status = delta.propose(self._tables, self._rows.array, self._state, operator, row, num_parts, cutoff)
            if status == DONE:
                break
            self._grow(status)
        num = self._state.num
        is_cutoff = bool(num[IS_CUTOFF])
        self._proposed, self._is_acceptable = (operator, config), not is_cutoff
        return Proposal(int(num[NEW_MAKESPAN] + num[NEW_SERIAL_SUM]), int(num[NEW_OVERFLOW]), is_cutoff)

    def accept(self) -> None:
        """Keep the proposed config."""
        assert self._proposed is not None and self._is_acceptable, "only a fully priced proposal can be accepted"
        delta.accept(self._state)
        operator, config = self._proposed
        self._configs[operator] = config
        self._proposed = None

    def reject(self) -> None:
        """Drop the proposed config; everything is as it was before."""
        assert self._proposed is not None, "nothing was proposed"
        delta.reject(self._state)
        self._proposed = None

    def fork(self) -> "Simulation":
        """An independent copy of the accepted state."""
        assert self._proposed is None, "accept or reject the proposal first"
        twin = copy.copy(self)
        twin._configs = list(self._configs)
        twin._state = State(*(array.copy() for array in self._state))
        return twin

    def __getstate__(self) -> dict[str, Any]:
        assert self._proposed is None, "accept or reject the proposal first"
        return {"problem": self.problem, "strategy": self.strategy}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["problem"], state["strategy"])  # type: ignore[misc]

    @property
    def cost_ns(self) -> int:
        """Iteration time of the accepted strategy."""
        return int(self._state.num[MAKESPAN] + self._state.num[SERIAL_SUM])

    @property
    def strategy(self) -> Strategy:
        """The accepted strategy."""
        return Strategy(self.problem.graph, self.problem.topology, self._configs)

    def config(self, operator: int) -> ParallelConfig:
        """The accepted config of an operator."""
        return self._configs[operator]

    @property
    def num_tasks(self) -> int:
        """Tasks of the accepted strategy."""
        return int(self._state.num[NUM_TASKS])

    @property
    def num_simulated_tasks(self) -> int:
        """Tasks that the last pricing dequeued; the others kept their times."""
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
        """(D,) time that each device computes."""
        return self._state.load[: self.problem.topology.num_devices].copy()

    @property
    def compute_ns(self) -> int:
        """Sum of the execution times of all tasks that run on compute devices."""
        return int(self.busy_ns.sum())

    def timeline(self) -> dict[tuple[int, int, int, int], tuple[int, int, int]]:
        """Ready, start and end time in ns of every task, by its key."""
        num_tasks = self.num_tasks
        tasks = self._state.order[:num_tasks]
        keys = self._state.key[tasks].tolist()
        times = self._state.time[tasks].tolist()
        return {_unpack(key): tuple(time) for key, time in zip(keys, times, strict=True)}

    def _empty_state(self) -> State:
        """Arrays of a modest size; they grow when a strategy needs more."""
        tables, num_devices = self._tables, self.problem.topology.num_devices
        num_blocks = len(tables.op) + len(tables.edge) + len(tables.group)
        num_resources = num_devices + len(tables.bandwidth)
        degrees = np.diff(tables.in_ptr) + np.diff(tables.out_ptr)
        num_saved = int(degrees.max()) + 2
        slots, int32, int64 = 4096, np.int32, np.int64
        fixed = {
            "block": np.zeros((num_blocks, BLOCK_COLUMNS), int64),
            "saved": np.zeros((num_saved, BLOCK_COLUMNS), int64),
            "saved_id": np.zeros(num_saved, int64),
            "arena": np.zeros(16 * slots, int32),
            "free_at": np.zeros(num_resources, int64),
            "memory": np.zeros(num_devices, int64),
            "new_memory": np.zeros(num_devices, int64),
            "load": np.zeros(num_resources, int64),
            "new_load": np.zeros(num_resources, int64),
            "rest": np.zeros(num_resources, int64),
            "task_free": np.zeros(64, int64),
            "seg_free": np.zeros(64, int64),
            "devices": np.zeros(num_devices, int32),
            "scratch": np.zeros(slots + 16 * num_devices, int32),
            "stamp": np.zeros(num_resources, int64),
            "slot": np.zeros(num_resources, int64),
            "need": np.zeros((8, num_devices + 1), int64),
            "num": np.zeros(NUM_SCALARS, int64),
            "real": np.zeros(1, np.float64),
        }
        task_types = dict.fromkeys(_TASK_FIELDS + _QUEUE_FIELDS, int64)
        task_types |= dict.fromkeys(("res_len", "owner", "cnt", "order", "new_order", "heap_task"), int32)
        shapes = {"time": (slots, 3), "new_time": (slots, 3)}
        tasks = {field: np.zeros(shapes.get(field, (slots,)), dtype) for field, dtype in task_types.items()}
        return State(**fixed, **tasks)

    def _grow(self, status: int) -> None:
        """Double the arrays that a kernel found too small."""
        fields = _TASK_FIELDS + _QUEUE_FIELDS if status == NEED_TASKS else ("scratch",)
        if status == NEED_ARENA:
            fields = ("arena",)
        current = {field: getattr(self._state, field) for field in fields}
        doubled = {field: np.concatenate([array, np.zeros_like(array)]) for field, array in current.items()}
        self._state = self._state._replace(**doubled)


def _unpack(key: int) -> tuple[int, int, int, int]:
    return key >> 43, key >> 30 & 0x1FFF, key >> 15 & 0x7FFF, key & 0x7FFF
