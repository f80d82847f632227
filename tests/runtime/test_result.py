"""What a run reports: when each task ran on which rank."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from thread_ranks import run_in_threads

from runtime.result import RunResult
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.timeline import write_timeline
from sim.topology import load_topology


@pytest.fixture(scope="module")
def result() -> RunResult:
    graph, topology = lenet(num_devices=2, batch_per_device=2, hidden=20), load_topology("cpu_host", num_devices=2)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant="free"))
    return run_in_threads(problem, problem.space.sample_strategy(np.random.default_rng(1)))


def test_every_task_has_its_time_but_reductions_of_one_holder(result: RunResult) -> None:
    times = result.task_times(0)

    missing = [task for task in result.task_graph.tasks if task.id not in times]
    assert all(task.kind == "sync" and task.num_bytes == 0 for task in missing)


def test_tasks_end_behind_what_they_wait_for(result: RunResult) -> None:
    times = result.task_times(0)

    for task in result.task_graph.tasks:
        for pre in task.in_tasks:
            if task.id in times and pre in times and task.kind != "exchange":
                assert times[pre][0] <= times[task.id][1]


def test_computations_of_a_rank_do_not_overlap(result: RunResult) -> None:
    for rank in result.ranks:
        computed = [event for event in rank.iterations[0].events if event.kind == "compute"]

        assert all(a.end_ns <= b.start_ns for a, b in pairwise(computed))
        assert computed[-1].end_ns <= rank.iterations[0].wall_ns


def test_measured_times_make_a_timeline_like_simulated_ones(result: RunResult, tmp_path: Path) -> None:
    write_timeline(result.measured_task_graph(0), tmp_path / "measured.json")

    events = json.loads((tmp_path / "measured.json").read_text())["traceEvents"]
    names = {event["name"] for event in events if event["ph"] == "X"}
    assert names >= {task.name for task in result.task_graph.tasks if task.kind in ("forward", "backward", "transfer")}


def test_the_loss_is_the_sum_of_all_ranks_shares(result: RunResult) -> None:
    assert result.losses == [sum(rank.iterations[0].loss for rank in result.ranks)]
