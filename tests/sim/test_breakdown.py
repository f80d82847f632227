"""What devices and kinds of operators spend an iteration on, computed in two ways."""

from dataclasses import astuple
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy

from sim.breakdown import CATEGORIES, Group, Shares, device_shares, layered, path_groups, task_groups, task_operators
from sim.critical_path import critical_tasks
from sim.models.nmt import nmt
from sim.problem import Problem
from sim.strategies import layer_per_device, single_device
from sim.strategy import Strategy
from sim.sync import Sync
from sim.task_graph import TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.topology import load_topology

seeds = st.integers(0, 2**32 - 1)
examples = settings(max_examples=60)


def random_case(seed: int) -> tuple[Problem, Strategy, TaskGraph]:
    random = Random(seed)
    problem = random_problem(random)
    return simulated(problem, random_strategy(problem, random))


def simulated(problem: Problem, strategy: Strategy) -> tuple[Problem, Strategy, TaskGraph]:
    task_graph = build_task_graph(problem, strategy)
    task_graph.simulate()
    return problem, strategy, task_graph


@pytest.fixture
def small_nmt() -> Problem:
    return Problem(nmt(num_devices=4, steps=16), load_topology("p100_cluster", num_devices=4))


# Devices


@examples
@given(seeds)
def test_the_shares_of_a_device_add_up_to_the_iteration(seed: int) -> None:
    _, _, task_graph = random_case(seed)

    for shares in device_shares(task_graph):
        assert sum(astuple(shares)) == task_graph.makespan
        assert min(astuple(shares)) >= 0


@examples
@given(seeds)
def test_computing_is_what_the_compiled_simulation_says_that_devices_are_busy_with(seed: int) -> None:
    problem, strategy, task_graph = random_case(seed)
    computing = sum(t.exe_time for t in task_graph.tasks if t.devices and CATEGORIES[t.kind] == "compute")

    simulation = problem.simulation(strategy)
    assert simulation.compute_ns == computing
    if not problem.topology.transfers_occupy_devices and problem.sync.overlap:
        assert [shares.compute_ns for shares in device_shares(task_graph)] == simulation.busy_ns.tolist()


@examples
@given(seeds)
def test_shares_equal_those_of_a_count_nanosecond_by_nanosecond(seed: int) -> None:
    random = Random(seed)
    layers = [[(low, low + random.randint(0, 9)) for low in random.choices(range(-3, 30), k=3)] for _ in range(3)]
    owner = np.full(30, 3)
    for number, spans in reversed(list(enumerate(layers))):
        for low, high in spans:
            owner[max(low, 0) : max(high, 0)] = number

    assert layered(layers, 30) == [int((owner == number).sum()) for number in range(4)]


def test_one_device_computes_while_the_others_idle(small_nmt: Problem) -> None:
    _, _, task_graph = simulated(small_nmt, single_device(small_nmt))
    total = task_graph.makespan

    assert device_shares(task_graph) == [Shares(total, 0, 0, 0)] + [Shares(0, 0, 0, total)] * 3


@pytest.mark.parametrize("scheme", ["ring", "parameter_server", "zero"])
def test_every_message_passes_between_compute_devices(scheme: str, small_nmt: Problem) -> None:
    problem = Problem(small_nmt.graph, small_nmt.topology, sync=Sync(scheme=scheme))  # type: ignore[arg-type]
    strategy = problem.space.sample_strategy(np.random.default_rng(0))
    _, _, task_graph = simulated(problem, strategy)

    for task in task_graph.tasks:
        is_message = CATEGORIES[task.kind] != "compute"
        assert bool(task.participants) == is_message
        assert all(device < 4 for device in task.participants)
        assert (len(set(task.participants)) > 1) == bool(is_message and task.devices)


# Groups


@examples
@given(seeds)
def test_groups_add_up_to_all_tasks(seed: int) -> None:
    problem, _, task_graph = random_case(seed)
    groups = task_groups(problem, task_graph.tasks)

    for category in ("compute", "transfer", "synchronisation"):
        tasks = [task.exe_time for task in task_graph.tasks if CATEGORIES[task.kind] == category]
        mine = [group for group in groups if group.category == category]
        assert (sum(g.total_ns for g in mine), sum(g.num_tasks for g in mine)) == (sum(tasks), len(tasks))


@examples
@given(seeds)
def test_groups_of_the_critical_path_add_up_to_the_makespan(seed: int) -> None:
    problem, _, task_graph = random_case(seed)
    groups = path_groups(problem, task_graph, critical_tasks(task_graph))

    assert sum(group.total_ns for group in groups) == task_graph.makespan
    assert all(0 <= group.queued_ns <= group.total_ns for group in groups)


@examples
@given(seeds)
def test_the_operator_of_a_task_is_in_its_name(seed: int) -> None:
    problem, _, task_graph = random_case(seed)

    for task in task_graph.tasks:
        if task.kind in ("forward", "backward", "exchange", "transfer"):
            (operator,) = task_operators(problem, task)
            consumer = task.name.split(" -> ")[-1]
            assert consumer.startswith(problem.graph.operators[operator].name)


def test_unrolled_steps_are_one_layer(small_nmt: Problem) -> None:
    _, _, task_graph = simulated(small_nmt, layer_per_device(small_nmt))
    groups = task_groups(small_nmt, task_graph.tasks)

    layers = {group.layer for group in groups if group.category == "compute"}
    assert layers == set(small_nmt.graph.weight_groups)


def test_what_occupies_a_device_for_others_is_queued(small_nmt: Problem) -> None:
    _, _, task_graph = simulated(small_nmt, single_device(small_nmt))
    groups = path_groups(small_nmt, task_graph, critical_tasks(task_graph))

    assert {group.category for group in groups} == {"compute"}
    assert isinstance(groups[0], Group)
    assert 0 < sum(group.queued_ns for group in groups) < task_graph.makespan
