"""exhaustive and branch_and_bound: the optimum, a proof of it, and what they say if they are stopped."""

from collections.abc import Callable
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import large_neighbourhood
from tiny_problems import all_prices, tiny_choice

from agents.agent import Agent
from agents.branch_and_bound import BranchAndBound
from agents.budget import Budget, Progress
from agents.errors import AgentError
from agents.exhaustive import Exhaustive
from sim.models.lenet import lenet
from sim.models.rnnlm import rnnlm
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

seeds = st.integers(0, 2**32 - 1)
exhaustive = partial(Exhaustive, max_strategies=10**6, seed=0)
branch_and_bound = partial(
    BranchAndBound,
    search=partial(large_neighbourhood, num_samples=20),
    search_simulations=20,
    rounds=5,
    has_symmetries=True,
    max_configs=1000,
    seed=0,
)
ALL = Budget(simulations=10**9)


def small_lenet(num_devices: int = 2, variant: str = "aligned") -> Problem:
    graph, topology = lenet(num_devices=num_devices), load_topology("p100_cluster", num_devices=num_devices)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant=variant))  # type: ignore[arg-type]


@settings(max_examples=40)
@given(seeds)
@pytest.mark.parametrize("make", [exhaustive, branch_and_bound])
def test_an_exact_search_finds_the_optimum(make: Callable[..., Agent], seed: int) -> None:
    choice = tiny_choice(Random(seed))
    prices = all_prices(choice)
    result = make(num_threads=2).search(choice.problem, ALL)

    assert str(result.notes["proof"]).startswith("optimal")
    assert (0 if result.fits_memory else 1, result.cost_ns) == (min(1, min(prices)[0]), min(prices)[1])


@settings(max_examples=40)
@given(seeds, st.integers(1, 60))
def test_a_stopped_search_has_a_bound_of_the_optimum(seed: int, simulations: int) -> None:
    choice = tiny_choice(Random(seed))
    result = branch_and_bound(num_threads=1).search(choice.problem, Budget(simulations=simulations))
    optimum_ms = min(all_prices(choice))[1] / 1e6 if "lower_bound_ms" in result.notes else 0

    assert result.notes.get("lower_bound_ms", 0) <= optimum_ms  # type: ignore[operator]


def test_ctrl_c_leaves_a_bound() -> None:
    graph, topology = rnnlm(num_devices=4, steps=2, steps_per_op=1), load_topology("p100_cluster", num_devices=4)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant="injective"))

    def interrupt(progress: Progress) -> None:
        if progress.simulations > 3000 and not reports:
            reports.append(progress)
            raise KeyboardInterrupt

    reports: list[Progress] = []
    result = branch_and_bound(num_threads=2, rounds=2).search(problem, ALL, interrupt)

    assert result.is_interrupted
    assert 0 < result.notes["lower_bound_ms"] < result.cost_ns / 1e6  # type: ignore[operator]
    assert result.notes["proof"] == "stopped: the bound is that of what is left"


def test_both_agree_on_lenet_with_aligned_configs_of_two_devices() -> None:
    problem = small_lenet()
    exact = [make(num_threads=2).search(problem, ALL) for make in (exhaustive, branch_and_bound)]

    assert exact[0].cost_ns == exact[1].cost_ns
    assert exact[0].notes["enumerated"] == exact[1].notes["strategies"]


def test_the_optimum_of_lenet_on_four_devices_is_proven() -> None:
    result = branch_and_bound(num_threads=1, rounds=40).search(small_lenet(4, "block"), Budget(simulations=20_000))

    assert result.notes["proof"] == "optimal"
    assert result.notes["strategies"] == 1_618_836_480
    assert result.notes["gap"] == 0.0


def test_a_time_that_is_over_before_the_first_search_is_no_fault_of_the_user() -> None:
    result = branch_and_bound(num_threads=1).search(small_lenet(), Budget(seconds=1e-9))

    assert result.simulations == 0


def test_enumeration_of_a_large_space_is_refused() -> None:
    with pytest.raises(AgentError) as refusal:
        exhaustive(num_threads=1).search(small_lenet(4, "block"), ALL)

    assert str(refusal.value) == (
        "the space has 1618836480 strategies, more than agent.max_strategies=1000000; choose agent=branch_and_bound or "
        "fewer space.dims"
    )


def test_a_space_of_too_many_configs_is_refused() -> None:
    with pytest.raises(AgentError) as refusal:
        branch_and_bound(num_threads=1).search(small_lenet(8, "free"), ALL)

    assert str(refusal.value) == (
        "operator 'conv1' has more than 1000 configs in space=free on 8 devices, too many to list for an exact search; "
        "choose fewer devices, fewer space.dims or space=aligned"
    )


@pytest.mark.parametrize("key", ["search_simulations", "rounds", "max_configs", "num_threads"])
def test_counts_are_at_least_one(key: str) -> None:
    with pytest.raises(AgentError) as refusal:
        branch_and_bound(**({"num_threads": 1} | {key: 0}))

    assert str(refusal.value) == f"agent.{key} must be at least 1, not 0"
