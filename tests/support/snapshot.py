"""Snapshot: all that a simulation reports, and the same from the plain oracle."""

from typing import NamedTuple

from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategy import Strategy
from sim.task_graph import Key
from sim.task_graph_builder import build_task_graph


class Snapshot(NamedTuple):
    """What is known about an accepted strategy.

    Attributes:
        timeline: ready, start and end time of every task, by its key; without serial synchronisation, which is a
            sum to the compiled simulation.
    """

    cost_ns: int
    overflow_bytes: int
    communication_bytes: int
    compute_ns: int
    busy_ns: list[int]
    memory_bytes: list[int]
    timeline: dict[Key, tuple[int, int, int]]
    num_tasks: int


def simulated(simulation: Simulation) -> Snapshot:
    """What the compiled simulation says of its accepted strategy."""
    return Snapshot(
        simulation.cost_ns,
        simulation.overflow_bytes,
        simulation.communication_bytes,
        simulation.compute_ns,
        simulation.busy_ns.tolist(),
        simulation.memory_bytes.tolist(),
        simulation.timeline(),
        simulation.num_tasks,
    )


def recomputed(problem: Problem, strategy: Strategy) -> Snapshot:
    """What the oracle says, from nothing."""
    task_graph = build_task_graph(problem, strategy)
    cost_ns = task_graph.simulate()
    busy_ns = [0] * problem.topology.num_devices
    for task in task_graph.tasks:
        for device in task.devices:
            if device < len(busy_ns):
                busy_ns[device] += task.exe_time
    is_timed = {task.id: problem.sync.overlap or task.kind not in ("sync", "update") for task in task_graph.tasks}
    timeline = {
        task.key: (task.ready_time, task.start_time, task.end_time) for task in task_graph.tasks if is_timed[task.id]
    }
    capacities = [device.memory_bytes for device in problem.topology.devices]
    overflow = sum(max(0, used - held) for used, held in zip(task_graph.memory_bytes, capacities, strict=True))
    return Snapshot(
        cost_ns,
        overflow,
        task_graph.communication_bytes,
        task_graph.compute_ns,
        busy_ns,
        task_graph.memory_bytes,
        timeline,
        sum(is_timed.values()),
    )
