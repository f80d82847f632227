"""Several operators that change at once, and scans of all candidates, against full simulation."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_generator, random_problem, random_strategy
from snapshot import recomputed, simulated

from sim.graph_builder import GraphBuilder
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.neighbourhood import Neighbourhood
from sim.problem import Problem
from sim.simulation import Simulation
from sim.space import VARIANTS, SoapSpace, Variant
from sim.strategy import ParallelConfig, Strategy
from sim.sync import SCHEMES, Sync
from sim.topology import load_topology

P100 = {n: load_topology("p100_cluster", num_devices=n) for n in (4, 16)}
SMALL_NMT = nmt(num_devices=16, batch_per_device=2, steps=4, steps_per_op=2, hidden=16, vocabulary=32)


def random_changes(problem: Problem, random: Random) -> dict[int, ParallelConfig]:
    """New configs of some operators, in any order."""
    members = random.sample(range(len(problem.graph)), random.randint(1, len(problem.graph)))
    return {i: problem.space.sample(i, random_generator(random)) for i in members}


def changed(strategy: Strategy, changes: dict[int, ParallelConfig]) -> Strategy:
    for operator, config in changes.items():
        strategy = strategy.replace(operator, config)
    return strategy


def cost(simulation: Simulation) -> tuple[int, int]:
    return simulation.overflow_bytes, simulation.cost_ns


def lenet_problem(variant: Variant = "aligned") -> Problem:
    graph = lenet(num_devices=4)
    return Problem(graph, P100[4], space=SoapSpace(graph, P100[4], variant=variant))


def neighbourhood(problem: Problem, *, seed: int = 0, num_samples: int = 50) -> Neighbourhood:
    return Neighbourhood(problem, np.random.default_rng(seed), num_samples=num_samples)


# Several operators at once


@settings(max_examples=300)
@given(st.integers(0, 2**32 - 1))
def test_changes_of_several_operators_have_the_price_of_the_changed_strategy(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    simulation = problem.simulation(random_strategy(problem, random))
    for _ in range(4):
        changes = random_changes(problem, random)
        expected = recomputed(problem, changed(simulation.strategy, changes))
        before = simulated(simulation)
        proposal = simulation.propose_together(changes)
        is_kept = random.random() < 0.7
        simulation.accept() if is_kept else simulation.reject()

        assert proposal == (expected.cost_ns, expected.overflow_bytes, False)
        assert simulated(simulation) == (expected if is_kept else before)


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_changes_are_cut_off_only_if_they_cost_more(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    simulation = problem.simulation(random_strategy(problem, random))
    changes = random_changes(problem, random)
    cost_ns = simulation.propose_together(changes).cost_ns
    cutoff_ns = random.randint(0, 2 * cost_ns)

    proposal = simulation.propose_together(changes, cutoff_ns)

    assert proposal.is_cutoff == (cost_ns > cutoff_ns)
    assert not proposal.is_cutoff or cutoff_ns < proposal.cost_ns <= cost_ns


@pytest.mark.parametrize("scheme", SCHEMES)
def test_changes_of_all_operators_make_the_arrays_grow(scheme: str) -> None:
    random, problem = Random(0), Problem(SMALL_NMT, P100[16], sync=Sync(scheme=scheme))  # type: ignore[arg-type]
    simulation = problem.simulation()
    for _ in range(20):
        changes = {i: problem.space.sample(i, random_generator(random)) for i in range(len(problem.graph))}
        simulation.propose_together(changes)
        simulation.accept()

    assert simulated(simulation) == recomputed(problem, simulation.strategy)


# Scans


@pytest.mark.parametrize("variant", ["aligned", "block"])
@pytest.mark.parametrize("operator", range(6))
def test_a_scan_of_an_operator_ends_with_its_best_config(variant: Variant, operator: int) -> None:
    problem = lenet_problem(variant)
    start = problem.space.sample_strategy(np.random.default_rng(operator))
    simulation = problem.simulation(start)
    scan = neighbourhood(problem).scan(simulation, [operator])
    steps = scan.walk(10_000)
    prices = [
        cost(problem.simulation(start.replace(operator, problem.space.config(operator, index))))
        for index in range(problem.space.num_configs(operator))
    ]

    assert steps.simulations == problem.space.num_configs(operator)
    assert cost(simulation) == min(prices)
    assert simulated(simulation) == recomputed(problem, simulation.strategy)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_a_scan_of_operators_that_change_alike_ends_with_their_best_config(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random, variant=random.choice(["block", "aligned"]), max_devices=4)
    start = random_strategy(problem, random)
    simulation = problem.simulation(start)
    members = random.sample(range(len(problem.graph)), random.randint(1, len(problem.graph)))
    neighbourhood(problem, seed=seed).scan(simulation, members).walk(100_000)
    common = [
        config
        for config in (problem.space.config(members[0], i) for i in range(problem.space.num_configs(members[0])))
        if all(config.degrees in problem.space.degree_tuples(i) for i in members)
    ]
    prices = [cost(problem.simulation(changed(start, dict.fromkeys(members, config)))) for config in common]

    assert cost(simulation) == min([*prices, cost(problem.simulation(start))])
    assert simulated(simulation) == recomputed(problem, simulation.strategy)


def test_the_length_of_a_call_does_not_change_a_scan() -> None:
    problem = lenet_problem()
    simulations = [problem.simulation(), problem.simulation()]
    scans = [neighbourhood(problem).scan(simulation, [5]) for simulation in simulations]
    scans[0].walk(10_000)
    while scans[1].left > 0:
        scans[1].walk(3)

    assert simulations[0].strategy == simulations[1].strategy


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_scan_stays_in_the_space(variant: Variant) -> None:
    problem = lenet_problem(variant)
    simulation = problem.simulation(problem.space.sample_strategy(np.random.default_rng(0)))
    near = neighbourhood(problem)
    for members in ([0], [3], [0, 1], [4, 5]):
        near.scan(simulation, members).walk(1000)

    for operator, config in enumerate(simulation.configs):
        problem.space.check(operator, config)


def test_a_space_without_indices_is_sampled() -> None:
    problem = lenet_problem("free")
    steps = neighbourhood(problem, num_samples=17).scan(problem.simulation(), [4]).walk(1000)

    assert not neighbourhood(problem).is_complete
    assert steps.simulations == 17


def test_operators_without_a_common_config_have_nothing_to_scan() -> None:
    problem = lenet_problem()
    steps = neighbourhood(problem).scan(problem.simulation(), [0, 5]).walk(1000)

    assert steps.simulations == 0


def test_operators_of_equal_sizes_get_only_configs_that_are_legal_for_all_of_them() -> None:
    builder = GraphBuilder("g")
    image = builder.conv2d("conv", (4, 3, 8, 8), 8, 1)  # its channels are parameters
    builder.pool2d("pool", image, 1)  # of equal sizes, but its channels are attributes
    graph, topology = builder.build(), load_topology("p100_cluster", num_devices=4)
    space = SoapSpace(graph, topology, variant="aligned", dims="SAO")
    candidates = neighbourhood(Problem(graph, topology, space=space)).candidates((0, 1))

    assert len(candidates) == space.num_configs(0) < space.num_configs(1)
