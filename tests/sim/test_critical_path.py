"""What an iteration waits for."""

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy

from sim.critical_path import CriticalTask, critical_tasks
from sim.task_graph import TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.worked_example import SPLIT, worked_example, worked_strategy

seeds = st.integers(0, 2**32 - 1)
examples = settings(max_examples=100)


def random_task_graph(seed: int) -> TaskGraph:
    random = Random(seed)
    problem = random_problem(random)
    task_graph = build_task_graph(problem, random_strategy(problem, random))
    task_graph.simulate()
    return task_graph


@examples
@given(seeds)
def test_the_times_of_the_critical_path_add_up_to_the_makespan(seed: int) -> None:
    task_graph = random_task_graph(seed)
    path = critical_tasks(task_graph)

    assert sum(task_graph.tasks[step.id].exe_time for step in path) == task_graph.makespan
    assert all(step.gap_ns == 0 for step in path)


@examples
@given(seeds)
def test_each_task_of_the_path_waits_for_the_one_before_it(seed: int) -> None:
    task_graph = random_task_graph(seed)
    path = critical_tasks(task_graph)

    assert path[0].cause == "start"
    for before, step in pairwise(path):
        first, second = task_graph.tasks[before.id], task_graph.tasks[step.id]
        reason = (step.cause == "dependency", bool(set(first.devices) & set(second.devices)))
        assert first.end_time == second.start_time
        assert (first.id in second.in_tasks) == reason[0]
        assert reason[0] or reason[1]


def test_the_path_of_figure_4_waits_for_the_first_gpu_and_then_for_results() -> None:
    problem = worked_example()
    task_graph = build_task_graph(problem, worked_strategy(problem, SPLIT))
    task_graph.simulate()

    path = [(task_graph.tasks[step.id].name, step.cause) for step in critical_tasks(task_graph)]
    assert path == [
        ("o1[0]", "start"),
        ("o1[1]", "device"),
        ("o2[0]", "device"),
        ("o2[1]", "device"),
        ("o2[1] -> o4[1]", "dependency"),
        ("o4[1]", "dependency"),
        ("o4[1] -> o6[0]", "dependency"),
        ("o6[0]", "dependency"),
    ]


def test_measured_times_leave_gaps() -> None:
    task_graph = TaskGraph(["device0"], 1)
    first = task_graph.add("first", "forward", [0], 5, (1, 0, 0, 0))
    second = task_graph.add("second", "backward", [0], 4, (2, 0, 0, 0), [first.id])
    first.start_time, first.end_time = 2, 7
    second.ready_time, second.start_time, second.end_time = 7, 10, 14

    assert critical_tasks(task_graph) == [CriticalTask(0, "start", 2), CriticalTask(1, "dependency", 3)]
