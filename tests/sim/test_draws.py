from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem
from snapshot import simulated

from sim.draws import Draws
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import VARIANTS, SoapSpace, Variant
from sim.strategy import Strategy
from sim.topology import load_topology


def make_draws(problem: Problem, seed: int = 0) -> Draws:
    return Draws(problem.simulation(problem.data_parallel), np.random.default_rng(seed))


def lenet_problem(variant: Variant, dims: str) -> Problem:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant=variant, dims=dims))


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_the_last_strategy_has_the_timeline_that_full_simulation_gives(seed: int) -> None:
    draws = make_draws(random_problem(Random(seed)), seed)
    draws.walk(20)

    assert simulated(draws.simulation) == simulated(draws.simulation.problem.simulation(draws.simulation.strategy))


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_the_best_configs_have_the_price_of_the_last_improvement(seed: int) -> None:
    problem = random_problem(Random(seed))
    draws = make_draws(problem, seed)
    improvements = draws.walk(60).improvements
    best = problem.simulation(Strategy(problem.graph, problem.topology, draws.best_configs))
    expected = [(i.overflow_bytes, i.cost_ns) for i in improvements[-1:]] or [
        (problem.simulation(problem.data_parallel).overflow_bytes, problem.data_parallel_ns)
    ]

    assert [(best.overflow_bytes, best.cost_ns)] == expected


@pytest.mark.parametrize("dims", ["SOAP", "O", "SAP"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_configs_are_of_the_space(variant: Variant, dims: str) -> None:
    problem = lenet_problem(variant, dims)
    draws = make_draws(problem)
    for _ in range(50):
        draws.walk(1)
        for operator, config in enumerate(draws.simulation.configs):
            problem.space.check(operator, config)


def test_every_config_of_an_operator_is_drawn_about_equally_often() -> None:
    problem = lenet_problem("aligned", "SOAP")
    draws = make_draws(problem)
    counts = np.zeros(problem.space.num_configs(5))
    for _ in range(3000):
        draws.walk(1)
        counts[problem.space.index(5, draws.simulation.config(5))] += 1
    expected = 3000 / len(counts)

    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_the_length_of_a_call_does_not_change_the_draws() -> None:
    one, many = (make_draws(lenet_problem("free", "SOAP")) for _ in range(2))
    one.walk(300)
    for _ in range(100):
        many.walk(3)

    assert one.simulation.configs == many.simulation.configs
    assert one.best_configs == many.best_configs
