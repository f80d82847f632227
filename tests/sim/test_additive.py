"""The additive cost: what is added, and when the sum is the simulated time."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy

from sim.additive import AdditiveCost
from sim.models.alexnet import alexnet
from sim.models.nmt import nmt
from sim.models.resnet101_linear import resnet101_linear
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.sync import SCHEMES, Sync
from sim.task_graph import Task, TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.topology import load_topology

seeds = st.integers(0, 2**32 - 1)


def additive(problem: Problem, strategy: Strategy) -> AdditiveCost:
    """The cost of one strategy: no operator has another config."""
    return AdditiveCost(problem, [[config] for config in strategy.configs])


def total_ns(problem: Problem, strategy: Strategy) -> int:
    return additive(problem, strategy).total_ns([0] * len(problem.graph))


def makespan_ns(task_graph: TaskGraph, tasks: Iterable[Task]) -> int:
    """Time of some of the tasks on machines that do nothing else, by the oracle."""
    alone, chosen = TaskGraph(task_graph.device_names, task_graph.num_compute_devices), list(tasks)
    number = {task.id: position for position, task in enumerate(chosen)}
    for task in chosen:
        before = [number[pre] for pre in task.in_tasks if pre in number]
        alone.add(task.name, task.kind, task.devices, task.exe_time, task.key, before)
    return alone.simulate() if chosen else 0


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("model", [alexnet, resnet101_linear])
def test_the_sum_is_the_simulated_time_of_a_chain_with_equal_degrees_on_equal_devices(
    model: Callable[..., OperatorGraph], scheme: Any
) -> None:
    topology = load_topology("p100_cluster", num_devices=8)
    problem = Problem(model(num_devices=8), topology, sync=Sync(scheme=scheme, overlap=False))

    assert total_ns(problem, problem.data_parallel) == problem.data_parallel_ns


def test_operators_that_share_weights_and_configs_bear_their_synchronisation_once() -> None:
    topology = load_topology("p100_cluster", num_devices=4)
    problem = Problem(nmt(num_devices=4), topology, sync=Sync(scheme="parameter_server", overlap=False))

    assert total_ns(problem, problem.data_parallel) == problem.data_parallel_ns


@settings(max_examples=100, deadline=None)
@given(seeds)
def test_operators_and_edges_cost_what_their_tasks_take_alone(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategy = random_strategy(problem, random)
    cost, n = additive(problem, strategy), len(problem.graph)
    task_graph = build_task_graph(problem, strategy)

    def phase_ns(phase: int, kinds: tuple[str, ...], number: int | None = None) -> int:
        return makespan_ns(
            task_graph,
            (t for t in task_graph.tasks if t.kind in kinds and t.key[0] == phase and number in (None, t.key[1])),
        )

    expected = [
        phase_ns(2 * i + 1, ("forward", "exchange")) + phase_ns(4 * n - 2 * i - 2, ("backward", "exchange"))
        for i in range(n)
    ]
    moved = [
        phase_ns(2 * edge.dst, ("transfer",), edge.input)
        + phase_ns(4 * n - 2 * edge.dst - 1, ("transfer",), edge.input)
        for edge in problem.graph.edges
    ]

    assert [int(times[0]) for times in cost.compute_ns] == expected
    assert [int(times[0, 0]) for times in cost.transfer_ns] == moved


@settings(max_examples=50, deadline=None)
@given(seeds)
def test_synchronisation_costs_what_it_adds_in_serial(seed: int) -> None:
    random = Random(seed)
    drawn = random_problem(random, is_training=True)
    # One group for each operator, so that every one bears its own.
    operators = [
        replace(o, weight=None if o.weight is None else replace(o.weight, group=o.name)) for o in drawn.graph.operators
    ]
    graph = OperatorGraph(operators, name="ungrouped")
    sync = replace(drawn.sync, overlap=False, bucket_mb=None)
    problem = Problem(graph, drawn.topology, cost=drawn.cost, sync=sync)
    strategy = Strategy(graph, drawn.topology, random_strategy(drawn, random).configs)
    tasks = build_task_graph(problem, strategy).tasks

    assert sum(int(times[0]) for times in additive(problem, strategy).sync_ns) == sum(
        task.exe_time for task in tasks if task.kind in ("sync", "update")
    )


def test_prices_do_not_depend_on_what_else_is_priced() -> None:
    topology = load_topology("p100_cluster", num_devices=4)
    problem = Problem(nmt(num_devices=4), topology)
    configs = [[problem.space.config(i, k) for k in range(problem.space.num_configs(i))] for i in range(40)]
    cost, random = AdditiveCost(problem, configs), Random(0)

    def choose() -> list[int]:
        return [random.randrange(len(own)) for own in configs]

    choices = [choose() for _ in range(20)]
    strategies = [
        Strategy(problem.graph, topology, [own[c] for own, c in zip(configs, choice, strict=True)])
        for choice in choices
    ]
    assert [cost.total_ns(choice) for choice in choices] == [total_ns(problem, strategy) for strategy in strategies]


def test_who_prices_is_told_how_far_it_is() -> None:
    problem = Problem(alexnet(num_devices=2), load_topology("p100_cluster", num_devices=2))
    stages: list[str] = []
    AdditiveCost(problem, [[ParallelConfig((1,) * len(o.dims), (0,))] for o in problem.graph.operators], stages.append)

    assert (stages[0], stages[-1]) == ("pricing operator 1 of 12", "pricing edge 11 of 11")
