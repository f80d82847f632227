"""FlexFlow's worked example, figure 4: full simulation gives 14, splitting o3 no more gives 15 (REFERENCE 2.2).

Three GPUs, o1 and o2 on the first, o3 and o4 on the second, o5 and o6 on the third; a transfer of one sub-tensor of
one element takes 1 ns. Tasks are named as in the figure: t3:2 is the second part of o3, its transfers after it.
"""

import pytest

from sim import topologies
from sim.costs.table import TableCost
from sim.operator_graph import Dimension, Input, Operator, OperatorGraph, Output, Window
from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategy import ParallelConfig, Strategy
from sim.task_graph import Key
from sim.task_graph_builder import build_task_graph
from sim.topology import DeviceTopology

Times = dict[Key, tuple[int, int]]

GPUS = ["GPU1", "GPU2", "GPU3"]
SPLIT, WHOLE = ParallelConfig((2,), (1, 1)), ParallelConfig((1,), (1,))

# Task keys: transfers into operator i (from 0) are (2 i, input, source part, destination part), its tasks
# (2 i + 1, 0, part, 0).
FIGURE_4C: Times = {  # ready and start times
    (1, 0, 0, 0): (0, 0),  # t1:1
    (1, 0, 1, 0): (0, 2),  # t1:2
    (3, 0, 0, 0): (0, 4),  # t2:1
    (3, 0, 1, 0): (0, 6),  # t2:2
    (4, 0, 0, 0): (2, 2),  # t1:1 -> t3:1
    (4, 0, 1, 1): (4, 4),  # t1:2 -> t3:2
    (6, 0, 0, 0): (6, 6),  # t2:1 -> t4:1
    (6, 0, 1, 1): (8, 8),  # t2:2 -> t4:2
    (5, 0, 0, 0): (3, 3),  # t3:1
    (5, 0, 1, 0): (5, 5),  # t3:2
    (7, 0, 0, 0): (7, 7),  # t4:1
    (7, 0, 1, 0): (9, 9),  # t4:2
    (8, 0, 0, 0): (4, 4),  # t3:1 -> t5:1
    (8, 0, 1, 0): (6, 6),  # t3:2 -> t5:1
    (10, 0, 0, 0): (8, 8),  # t4:1 -> t6:1
    (10, 0, 1, 0): (10, 10),  # t4:2 -> t6:1
    (9, 0, 0, 0): (7, 7),  # t5:1
    (11, 0, 0, 0): (11, 11),  # t6:1
}
FIGURE_4D: Times = {
    (1, 0, 0, 0): (0, 0),  # t1:1
    (1, 0, 1, 0): (0, 2),  # t1:2
    (3, 0, 0, 0): (0, 4),  # t2:1
    (3, 0, 1, 0): (0, 6),  # t2:2
    (4, 0, 0, 0): (2, 2),  # t1:1 -> t3:1
    (4, 0, 1, 0): (4, 4),  # t1:2 -> t3:1
    (6, 0, 0, 0): (6, 6),  # t2:1 -> t4:1
    (6, 0, 1, 1): (8, 8),  # t2:2 -> t4:2
    (5, 0, 0, 0): (5, 5),  # t3:1
    (7, 0, 0, 0): (7, 7),  # t4:1
    (7, 0, 1, 0): (9, 9),  # t4:2
    (8, 0, 0, 0): (7, 7),  # t3:1 -> t5:1
    (10, 0, 0, 0): (8, 9),  # t4:1 -> t6:1 waits for the link
    (10, 0, 1, 0): (10, 10),  # t4:2 -> t6:1
    (9, 0, 0, 0): (9, 9),  # t5:1
    (11, 0, 0, 0): (11, 12),  # t6:1 waits for t5:1
}


def figure_graph() -> OperatorGraph:
    """Three layers unrolled over two steps; the middle one is recurrent."""

    def operator(name: str, *producers: str) -> Operator:
        reads = tuple(Input(producer, 0, (Window(0),)) for producer in producers)
        return Operator(name, "figure", (Dimension("sample", 2, "S"),), (Output("output", (2,), (0,)),), reads)

    layers = [operator("o1"), operator("o2"), operator("o3", "o1"), operator("o4", "o2", "o3")]
    return OperatorGraph([*layers, operator("o5", "o3"), operator("o6", "o4")], name="figure4")


def figure_topology() -> DeviceTopology:
    """A link for each pair of GPUs and direction; L12 and L23 of the figure are used."""
    return topologies.explicit(
        name="figure4",
        devices=[{"name": name, "kind": "p100", "node": 0, "memory_gb": 1} for name in GPUS],
        switches=[],
        connections=[
            {"src": src, "dst": dst, "bandwidth_gb_per_s": 4, "latency_us": 0}
            for src in GPUS
            for dst in GPUS
            if src != dst
        ],
    )


@pytest.fixture
def problem() -> Problem:
    halves = {"o1": 2, "o2": 2, "o3": 1, "o4": 1}
    times: dict[str, dict[tuple[int, ...], tuple[int, int]]] = {
        name: {(2,): (ns, 0), (1,): (2 * ns, 0)} for name, ns in halves.items()
    }
    times |= {name: {(1,): (3, 0)} for name in ("o5", "o6")}
    return Problem(figure_graph(), figure_topology(), cost=TableCost(times=times), training=False)


def strategy(problem: Problem, c3: ParallelConfig) -> Strategy:
    """That of the figure, with the given config of o3."""
    first, last = ParallelConfig((2,), (0, 0)), ParallelConfig((1,), (2,))
    return Strategy(problem.graph, problem.topology, [first, first, c3, SPLIT, last, last])


def oracle(problem: Problem, c3: ParallelConfig) -> tuple[int, Times]:
    """Makespan, ready and start times by the plain oracle."""
    task_graph = build_task_graph(problem, strategy(problem, c3))
    makespan = task_graph.simulate()
    return makespan, {task.key: (task.ready_time, task.start_time) for task in task_graph.tasks}


def compiled(simulation: Simulation) -> tuple[int, Times]:
    """Makespan, ready and start times by the compiled simulation."""
    return simulation.cost_ns, {key: (ready, start) for key, (ready, start, _) in simulation.timeline().items()}


def test_the_oracle_gives_figure_4c(problem: Problem) -> None:
    assert oracle(problem, SPLIT) == (14, FIGURE_4C)


def test_the_oracle_gives_figure_4d(problem: Problem) -> None:
    assert oracle(problem, WHOLE) == (15, FIGURE_4D)


def test_full_simulation_gives_figure_4c(problem: Problem) -> None:
    simulation = problem.simulation(strategy(problem, SPLIT))

    assert compiled(simulation) == (14, FIGURE_4C)


def test_full_simulation_gives_figure_4d(problem: Problem) -> None:
    simulation = problem.simulation(strategy(problem, WHOLE))

    assert compiled(simulation) == (15, FIGURE_4D)


def test_delta_simulation_goes_from_figure_4c_to_4d(problem: Problem) -> None:
    simulation = problem.simulation(strategy(problem, SPLIT))

    simulation.propose(2, WHOLE)
    simulation.accept()

    assert compiled(simulation) == (15, FIGURE_4D)


def test_the_proposal_of_figure_4d_costs_15(problem: Problem) -> None:
    simulation = problem.simulation(strategy(problem, SPLIT))

    assert simulation.propose(2, WHOLE) == (15, 0, False)


def test_delta_simulation_keeps_what_comes_before_the_change(problem: Problem) -> None:
    simulation = problem.simulation(strategy(problem, SPLIT))

    simulation.propose(2, WHOLE)

    # t1:1, t1:2, t2:1 and t2:2 are ready at 0; the first transfer, at 2, is where the figure's changes begin.
    assert simulation.num_simulated_tasks == len(FIGURE_4D) - 4
