"""TaskGraph: the tasks of one training iteration, built and simulated in plain Python.

This is the readable oracle: everything is enumerated, nothing is clever. ``sim.simulation`` computes the same
timeline with compiled kernels; the tests hold one to the other, task by task.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from sim.flows import Flow

TaskKind: TypeAlias = Literal["forward", "backward", "transfer", "exchange", "sync", "update"]
Key: TypeAlias = tuple[int, int, int, int]


@dataclass(slots=True)
class Task:
    """A task of the task graph (FlexFlow, table 3).

    Attributes:
        id: position in the task graph.
        name: for people.
        kind: what it is.
        devices: everything that it occupies while it runs: one compute device, or connections.
        exe_time: ns.
        key: topological number that breaks ties (REFERENCE 2.2); no device number is part of it.
        in_tasks: ids of the tasks that must end before it starts.
        num_bytes: sent over connections, summed over all participants.
        flow: of a transfer, the sub-tensor that it moves (backward: its gradient, the other way).
        participants: compute devices that a message passes between; none for tasks that compute.
    """

    id: int
    name: str
    kind: TaskKind
    devices: tuple[int, ...]
    exe_time: int
    key: Key
    in_tasks: list[int] = field(default_factory=list)
    num_bytes: int = 0
    flow: Flow | None = None
    participants: tuple[int, ...] = ()
    ready_time: int = 0
    start_time: int = 0
    end_time: int = 0


class TaskGraph:
    """Tasks and what they occupy.

    Args:
        device_names: names of all devices: the compute devices, then the connections (communication devices).
        num_compute_devices: how many of them compute.
    """

    def __init__(self, device_names: Sequence[str], num_compute_devices: int) -> None:
        self.device_names = tuple(device_names)
        self.num_compute_devices = num_compute_devices
        self.tasks: list[Task] = []
        self.memory_bytes = [0] * num_compute_devices

    def add(
        self, name: str, kind: TaskKind, devices: Iterable[int], exe_time: int, key: Key, in_tasks: Iterable[int] = ()
    ) -> Task:
        """Append a task and return it."""
        task = Task(len(self.tasks), name, kind, tuple(devices), exe_time, key, list(in_tasks))
        self.tasks.append(task)
        return task

    def simulate(self) -> int:
        """Full simulation (FlexFlow, algorithm 1) with ties broken by the key.

        Sets ready, start and end time of every task. Tasks are dequeued in the order of their ready times, and
        each starts when all that it occupies is free: the FIFO policy of assumption A3.

        Returns:
            The makespan in ns.
        """
        out_tasks: list[list[int]] = [[] for _ in self.tasks]
        num_missing = [len(task.in_tasks) for task in self.tasks]
        for task in self.tasks:
            task.ready_time = 0
            for pre in task.in_tasks:
                out_tasks[pre].append(task.id)
        free_at = [0] * len(self.device_names)
        ready_queue = [(0, task.key, task.id) for task in self.tasks if not task.in_tasks]
        heapq.heapify(ready_queue)
        num_complete = 0
        while ready_queue:
            _, _, position = heapq.heappop(ready_queue)
            task = self.tasks[position]
            task.start_time = max([task.ready_time, *(free_at[device] for device in task.devices)])
            task.end_time = task.start_time + task.exe_time
            for device in task.devices:
                free_at[device] = task.end_time
            for position in out_tasks[task.id]:
                out = self.tasks[position]
                out.ready_time = max(out.ready_time, task.end_time)
                num_missing[position] -= 1
                if num_missing[position] == 0:
                    heapq.heappush(ready_queue, (out.ready_time, out.key, position))
            num_complete += 1
        assert num_complete == len(self.tasks), "the task graph has a cycle"
        return self.makespan

    @property
    def makespan(self) -> int:
        """End of the last task, ns; ``simulate`` first."""
        return max(task.end_time for task in self.tasks)

    @property
    def communication_bytes(self) -> int:
        """Bytes of all transfers, exchanges and synchronisation of one iteration."""
        return sum(task.num_bytes for task in self.tasks)

    @property
    def compute_ns(self) -> int:
        """Sum of the execution times of all tasks that run on compute devices."""
        return sum(t.exe_time for t in self.tasks if t.devices and t.devices[0] < self.num_compute_devices)

    def to_dict(self) -> dict[str, Any]:
        """The content of task_graph.json: enough for another program to simulate it again."""
        return {
            "time_unit": "ns",
            "makespan": self.makespan,
            "tasks": [
                {
                    "id": task.id,
                    "name": task.name,
                    "kind": task.kind,
                    "devices": [self.device_names[device] for device in task.devices],
                    "exe_time": task.exe_time,
                    "in_tasks": sorted(set(task.in_tasks)),
                    "key": list(task.key),
                    "ready_time": task.ready_time,
                    "start_time": task.start_time,
                    "end_time": task.end_time,
                }
                for task in self.tasks
            ],
        }
