from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem
from snapshot import simulated

from sim.chain import Chain
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import VARIANTS, SoapSpace, Variant
from sim.strategy import Strategy
from sim.topology import load_topology


def lenet_problem(variant: Variant = "block", dims: str = "SOAP") -> Problem:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant=variant, dims=dims))


def make_chain(problem: Problem, *, seed: int = 0, temperature: float = 0.01, has_cutoff: bool = True) -> Chain:
    rng = np.random.default_rng(seed)
    start = problem.simulation(problem.space.sample_strategy(rng))
    return Chain(start, rng, temperature_ns=temperature * start.cost_ns, has_cutoff=has_cutoff)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_the_walk_is_the_same_with_and_without_cutoff(seed: int) -> None:
    problem = random_problem(Random(seed))
    chains = [make_chain(problem, seed=seed, has_cutoff=has_cutoff) for has_cutoff in (True, False)]
    found = [chain.walk(60).improvements for chain in chains]

    assert found[0] == found[1]
    assert simulated(chains[0].simulation) == simulated(chains[1].simulation)


def test_a_proposal_that_needs_more_memory_is_not_simulated() -> None:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4, memory_gb=1e-3)
    chain = make_chain(Problem(graph, topology), temperature=1e6)
    rejected = 0
    for _ in range(200):
        before = chain.simulation.strategy
        steps = chain.walk(1)
        if steps.cutoffs:
            rejected += 1

            assert (steps.simulated_tasks, chain.simulation.strategy) == (0, before)

    assert rejected > 0


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_a_walk_ends_in_the_timeline_that_full_simulation_gives(seed: int) -> None:
    chain = make_chain(random_problem(Random(seed)), seed=seed, temperature=10.0)
    chain.walk(60)

    assert simulated(chain.simulation) == simulated(chain.simulation.problem.simulation(chain.simulation.strategy))


def test_the_length_of_a_call_does_not_change_the_walk() -> None:
    one, many = make_chain(lenet_problem()), make_chain(lenet_problem())
    one.walk(300)
    for _ in range(100):
        many.walk(3)

    assert one.simulation.strategy == many.simulation.strategy


@pytest.mark.parametrize("dims", ["SOAP", "O", "SAP"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_configs_are_of_the_space(variant: Variant, dims: str) -> None:
    problem = lenet_problem(variant, dims)
    chain = make_chain(problem, temperature=10.0)
    for _ in range(50):
        chain.walk(1)
        for operator, config in enumerate(chain.simulation.strategy.configs):
            problem.space.check(operator, config)


def test_every_config_of_an_operator_can_be_drawn() -> None:
    problem = lenet_problem("aligned")
    chain = make_chain(problem, temperature=1e6)
    drawn = set()
    for _ in range(4000):
        chain.walk(1)
        drawn.add(problem.space.index(5, chain.simulation.config(5)))

    assert drawn == set(range(problem.space.num_configs(5)))


def test_the_best_configs_have_the_best_cost() -> None:
    chain = make_chain(lenet_problem())
    steps = chain.walk(500)
    problem = chain.simulation.problem
    best = Strategy(problem.graph, problem.topology, chain.best_configs)

    assert problem.simulation(best).cost_ns == steps.improvements[-1].cost_ns


def test_improvements_are_in_order() -> None:
    improvements = make_chain(lenet_problem()).walk(500).improvements
    costs = [improvement.cost_ns for improvement in improvements]

    assert costs == sorted(set(costs), reverse=True)


def test_chains_on_several_threads_walk_as_they_do_alone() -> None:
    problem = lenet_problem()
    alone = [make_chain(problem, seed=seed).walk(2000) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: make_chain(problem, seed=seed).walk(2000), range(4)))

    assert together == alone


def test_patience_ends_a_walk_that_finds_nothing_new() -> None:
    chain = make_chain(lenet_problem(), temperature=1e-9)
    simulations = sum(chain.walk(100, patience=200).simulations for _ in range(100))

    assert simulations < 10_000
    assert chain.idle == 200
