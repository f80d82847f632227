"""Placement of whole operators: what they and their messages cost on each device, and the strategy that results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.errors import AgentError
from sim.additive import AdditiveCost
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Work:
    """Tasks in topological order, and messages between them.

    Attributes:
        times: (tasks, devices) of each task on each device.
        edges: producer and consumer of each message.
        delays: (messages, devices, devices) from device to device; 0 on the diagonal.
    """

    times: Times
    edges: tuple[tuple[int, int], ...]
    delays: Times

    @property
    def mean_times(self) -> NDArray[np.float64]:
        """(tasks,) over all devices."""
        return self.times.mean(axis=1)

    @property
    def mean_delays(self) -> NDArray[np.float64]:
        """(messages,) over all pairs of two devices."""
        num_devices = self.times.shape[1]
        return self.delays.sum(axis=(1, 2)) / max(1, num_devices * (num_devices - 1))


def operator_work(problem: Problem, look: Callable[[str], None]) -> Work:
    """Each operator whole on one device, forward and backward together, ns; synchronisation is not part of it.

    Args:
        problem: its space must be open in the dimension O.
        look: is called often, with a text that says how far the pricing is; may raise.

    Raises:
        AgentError: operators cannot be placed in the space.
    """
    if "O" not in problem.space.dims:
        raise AgentError(f"whole operators cannot be placed in space.dims={problem.space.dims}, which lacks O")
    num_devices = problem.topology.num_devices
    configs = [
        [ParallelConfig((1,) * len(operator.dims), (device,)) for device in range(num_devices)]
        for operator in problem.graph.operators
    ]
    cost = AdditiveCost(problem, configs, look)
    edges = tuple((edge.src, edge.dst) for edge in problem.graph.edges)
    delays = np.array(cost.transfer_ns, dtype=np.int64).reshape(len(edges), num_devices, num_devices)
    return Work(np.array(cost.compute_ns), edges, delays)


def placed(problem: Problem, devices: Sequence[int]) -> Strategy:
    """The strategy that puts each operator, whole, on its device."""
    configs = [
        ParallelConfig((1,) * len(operator.dims), (int(device),))
        for operator, device in zip(problem.graph.operators, devices, strict=True)
    ]
    return Strategy(problem.graph, problem.topology, configs)
