"""ListScheduling: HEFT and ETF, which place one operator after the other where a schedule likes it best."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import Ledger
from agents.placement import Work, operator_work, placed
from sim.problem import Problem


@dataclass(frozen=True, slots=True)
class Schedule:
    """Where and when each task runs.

    Attributes:
        devices: (tasks,) of each task.
        starts: (tasks,) in the unit of the work's times.
        ends: (tasks,).
    """

    devices: tuple[int, ...]
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def makespan(self) -> int:
        """End of the last task."""
        return max(self.ends)


class ListScheduling(Agent):
    """Places whole operators by a list schedule of the operator graph, and prices the one strategy found.

    Paper: Topcuoglu, Hariri, Wu, "Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous
    Computing", IEEE TPDS 2002 (``heft``); Hwang, Chow, Anger, Lee, "Scheduling Precedence Graphs in Systems with
    Interprocessor Communication Times", SIAM J. Computing 1989 (``etf``).

    A task is an operator, forward and backward together: the backward pass mirrors the forward pass, so a schedule of
    both is a schedule of the one, each task as long as both. A message takes what its transfers take on an idle
    network, forward and mirrored (``sim.additive``). What it notes as ``schedule_ms`` knows neither contention nor
    the synchronisation of weights that operators on several devices share; the simulated time does.

    Args:
        rule: ``heft``, by upward rank where it ends first, gaps included; ``etf``, whatever starts first.
        seed: of nothing: the result is always the same.
    """

    def __init__(self, *, rule: Literal["heft", "etf"], seed: int) -> None:
        super().__init__(seed=seed)
        if rule not in RULES:
            raise AgentError(f"agent.rule must be one of {', '.join(RULES)}, not {rule}")
        self.rule = rule

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Price operators and messages, schedule, and simulate the placement."""
        work = operator_work(problem, ledger.look)
        schedule = RULES[self.rule](work, ledger.look)
        ledger.note("schedule_ms", schedule.makespan / 1e6)
        ledger.simulation(placed(problem, schedule.devices))


def upward_ranks(work: Work) -> NDArray[np.float64]:
    """(tasks,) length of the longest path from a task to the end, by mean times and delays."""
    ranks, delays = work.mean_times, work.mean_delays
    behind = np.zeros_like(ranks)
    leaving = _by_end(work, 0)
    for task in reversed(range(len(ranks))):
        for message in leaving[task]:
            behind[task] = max(behind[task], delays[message] + ranks[work.edges[message][1]])
        ranks[task] += behind[task]
    return ranks


def heft(work: Work, look: Callable[[str], None]) -> Schedule:
    """Heterogeneous Earliest Finish Time: in decreasing upward rank, the device where the task ends first.

    Args:
        work: what is scheduled; a task may fill a gap between others.
        look: is called often; may raise.
    """
    table = _Table(work)
    # Equal ranks (of tasks of no time) keep the topological order.
    for task in np.argsort(-upward_ranks(work), kind="stable").tolist():
        look("scheduling")
        ready = table.ready(task)
        starts = [table.first_gap(device, ready[device], time) for device, time in enumerate(work.times[task].tolist())]
        device = int(np.argmin(starts + work.times[task]))
        table.place(task, device, starts[device])
    return table.schedule()


def etf(work: Work, look: Callable[[str], None]) -> Schedule:
    """Earliest Task First: of all tasks whose inputs are placed, and all devices, the pair that starts first.

    Ties go to the task with more to do behind it, then to the first device.

    Args:
        work: what is scheduled; a task follows all that its device already has.
        look: is called often; may raise.
    """
    table, levels = _Table(work), upward_ranks(work)
    missing = [len(messages) for messages in table.entering]
    leaving = _by_end(work, 0)
    open_tasks = [task for task, count in enumerate(missing) if count == 0]
    while open_tasks:
        look("scheduling")
        starts = np.array([np.maximum(table.ready(task), table.free_at) for task in open_tasks])
        earliest = starts.min(axis=1)
        first = min(range(len(open_tasks)), key=lambda k: (earliest[k], -levels[open_tasks[k]], open_tasks[k]))
        task, device = open_tasks.pop(first), int(starts[first].argmin())
        table.place(task, device, int(starts[first, device]))
        for message in leaving[task]:
            consumer = work.edges[message][1]
            missing[consumer] -= 1
            if missing[consumer] == 0:
                open_tasks.append(consumer)
    return table.schedule()


Rule: TypeAlias = Callable[[Work, Callable[[str], None]], Schedule]

RULES: dict[str, Rule] = {"heft": heft, "etf": etf}


class _Table:
    """Which tasks are on which device so far."""

    def __init__(self, work: Work) -> None:
        num_tasks, num_devices = work.times.shape
        self.work = work
        self.entering = _by_end(work, 1)
        self.devices, self.starts, self.ends = [0] * num_tasks, [0] * num_tasks, [0] * num_tasks
        self.free_at = np.zeros(num_devices, np.int64)
        self._busy: list[list[tuple[int, int]]] = [[] for _ in range(num_devices)]

    def ready(self, task: int) -> NDArray[np.int64]:
        """(devices,) when all that a task reads, which must be placed, has arrived."""
        arrival = np.zeros(len(self.free_at), np.int64)
        for message in self.entering[task]:
            producer = self.work.edges[message][0]
            delays = self.work.delays[message, self.devices[producer]]
            arrival = np.maximum(arrival, self.ends[producer] + delays)
        return arrival

    def first_gap(self, device: int, ready: int, time: int) -> int:
        """The earliest start of a task on a device, between or behind those that are there."""
        start = int(ready)
        for begin, end in self._busy[device]:
            if start + time <= begin:
                break
            start = max(start, end)
        return start

    def place(self, task: int, device: int, start: int) -> None:
        """Put a task on a device."""
        end = start + int(self.work.times[task, device])
        self.devices[task], self.starts[task], self.ends[task] = device, start, end
        self.free_at[device] = max(self.free_at[device], end)
        self._busy[device].append((start, end))
        self._busy[device].sort()

    def schedule(self) -> Schedule:
        """What has been placed."""
        return Schedule(tuple(self.devices), tuple(self.starts), tuple(self.ends))


def _by_end(work: Work, end: Literal[0, 1]) -> list[list[int]]:
    """For each task, the messages that it sends (0) or receives (1)."""
    messages: list[list[int]] = [[] for _ in work.times]
    for number, edge in enumerate(work.edges):
        messages[edge[end]].append(number)
    return messages
