"""Chains that draw configs with given probabilities."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from random_problems import random_problem
from scipy.stats import chi2
from snapshot import simulated

from sim.chain import Chain
from sim.models.lenet import lenet
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategies import layer_per_device
from sim.strategy import ParallelConfig
from sim.topology import load_topology


def bandit() -> Problem:
    """Three operators on one of two devices each: eight strategies."""
    graph = OperatorGraph(lenet(num_devices=2).operators[:3], name="start of lenet")
    topology = load_topology("p100_cluster", num_devices=2)
    return Problem(graph, topology, space=SoapSpace(graph, topology, dims="O"))


def drawn_table(problem: Problem, seed: int) -> list[NDArray[np.float64]]:
    rng, space = np.random.default_rng(seed), problem.space
    return [rng.dirichlet(np.ones(space.num_configs(i))) + 1e-12 for i in range(len(problem.graph))]


def guided(problem: Problem, seed: int, *, has_cutoff: bool = True, hastings: bool = True) -> Chain:
    rng = np.random.default_rng(seed)
    start = problem.simulation(problem.space.sample_strategy(rng))
    chain = Chain(start, rng, temperature_ns=0.01 * start.cost_ns, has_cutoff=has_cutoff)
    chain.draw_from([own / own.sum() for own in drawn_table(problem, seed)], hastings=hastings)
    return chain


def visit_p_value(*, hastings: bool) -> float:
    """Chance that the Boltzmann distribution gives visits that lie as far from it as those of a guided chain."""
    problem = bandit()
    temperature_ns = problem.data_parallel_ns
    chain = Chain(problem.simulation(), np.random.default_rng(0), temperature_ns=temperature_ns)
    chain.draw_from([np.array([0.8, 0.2]), np.array([0.3, 0.7]), np.array([0.15, 0.85])], hastings=hastings)
    visits: Counter[tuple[int, ...]] = Counter()
    for _ in range(2000):
        chain.walk(30)  # so that the counts are nearly independent
        visits[tuple(chain.simulation.config(operator).devices[0] for operator in range(3))] += 1
    states = list(np.ndindex(2, 2, 2))
    costs = np.array([cost_ns(problem, state) for state in states])
    weights = np.exp(-costs / temperature_ns)
    expected = 2000 * weights / weights.sum()
    statistic = sum((visits[state] - e) ** 2 / e for state, e in zip(states, expected, strict=True))
    return float(chi2.sf(statistic, len(states) - 1))


def cost_ns(problem: Problem, state: tuple[int, ...]) -> int:
    strategy = problem.data_parallel
    for operator, device in enumerate(state):
        strategy = strategy.replace(operator, problem.space.config(operator, device))
    return problem.simulation(strategy).cost_ns


def test_with_the_hastings_correction_visits_follow_the_boltzmann_distribution() -> None:
    assert visit_p_value(hastings=True) > 1e-3


def test_without_the_correction_they_do_not() -> None:
    assert visit_p_value(hastings=False) < 1e-9


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_the_guided_walk_is_the_same_with_and_without_cutoff(seed: int) -> None:
    problem = random_problem(Random(seed))
    if not problem.space.is_enumerable:
        return
    chains = [guided(problem, seed, has_cutoff=has_cutoff) for has_cutoff in (True, False)]
    found = [chain.walk(60).improvements for chain in chains]

    assert found[0] == found[1]
    assert simulated(chains[0].simulation) == simulated(chains[1].simulation)


def test_the_length_of_a_call_does_not_change_the_guided_walk() -> None:
    problem = Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))
    one, many = guided(problem, 0), guided(problem, 0)
    one.walk(300)
    for _ in range(100):
        many.walk(3)

    assert one.simulation.strategy == many.simulation.strategy


@pytest.mark.parametrize("hastings", [True, False])
def test_configs_are_proposed_as_often_as_the_table_says(hastings: bool) -> None:
    problem = bandit()
    chain = Chain(problem.simulation(), np.random.default_rng(0), temperature_ns=1e15)
    chain.draw_from([np.array([0.9, 0.1])] * 3, hastings=hastings)
    visits: Counter[int] = Counter()
    for _ in range(1000):
        chain.walk(20)
        visits[chain.simulation.config(0).devices[0]] += 1

    # At an endless temperature the correction makes the visits uniform.
    expected = 500 if hastings else 900
    assert abs(visits[0] - expected) < 60


def test_a_start_outside_the_space_is_left_and_never_proposed() -> None:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant="free"))
    aligned = SoapSpace(graph, topology, variant="aligned")
    start = layer_per_device(problem)
    config = start.configs[0]
    outside = ParallelConfig((2, *[1] * (len(config.degrees) - 1)), (3, 0))
    simulation = problem.simulation(start.replace(0, outside))
    chain = Chain(simulation, np.random.default_rng(0), temperature_ns=1e15, space=aligned)
    counts = [aligned.num_configs(i) for i in range(len(graph))]
    chain.draw_from([np.full(count, 1 / count) for count in counts], hastings=True)
    chain.walk(2000)

    assert not aligned.has(0, outside)
    assert all(aligned.has(i, config) for i, config in enumerate(chain.simulation.configs))
