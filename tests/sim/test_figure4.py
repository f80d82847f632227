"""FlexFlow's worked example, figure 4: full simulation gives 14, splitting o3 no more gives 15 (REFERENCE 2.2)."""

import pytest

from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategy import ParallelConfig
from sim.task_graph_builder import build_task_graph
from sim.worked_example import FIGURE_4C, FIGURE_4D, O3, SPLIT, WHOLE, Times, worked_example, worked_strategy


@pytest.fixture
def problem() -> Problem:
    return worked_example()


def oracle(problem: Problem, c3: ParallelConfig) -> tuple[int, Times]:
    """Makespan, ready and start times by the plain oracle."""
    task_graph = build_task_graph(problem, worked_strategy(problem, c3))
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
    simulation = problem.simulation(worked_strategy(problem, SPLIT))

    assert compiled(simulation) == (14, FIGURE_4C)


def test_full_simulation_gives_figure_4d(problem: Problem) -> None:
    simulation = problem.simulation(worked_strategy(problem, WHOLE))

    assert compiled(simulation) == (15, FIGURE_4D)


def test_delta_simulation_goes_from_figure_4c_to_4d(problem: Problem) -> None:
    simulation = problem.simulation(worked_strategy(problem, SPLIT))

    simulation.propose(O3, WHOLE)
    simulation.accept()

    assert compiled(simulation) == (15, FIGURE_4D)


def test_the_proposal_of_figure_4d_costs_15(problem: Problem) -> None:
    simulation = problem.simulation(worked_strategy(problem, SPLIT))

    assert simulation.propose(O3, WHOLE) == (15, 0, False)


def test_delta_simulation_keeps_what_comes_before_the_change(problem: Problem) -> None:
    simulation = problem.simulation(worked_strategy(problem, SPLIT))

    simulation.propose(O3, WHOLE)

    # t1:1, t1:2, t2:1 and t2:2 are ready at 0; the first transfer, at 2, is where the figure's changes begin.
    assert simulation.num_simulated_tasks == len(FIGURE_4D) - 4
