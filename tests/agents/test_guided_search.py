"""Guided MCMC and policy descent."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from searches import large_neighbourhood

from agents.adviser import Adviser, advised_space
from agents.agent import Agent
from agents.budget import Budget
from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.guided_mcmc import GuidedMcmc
from agents.ledger import Ledger
from agents.policy_descent import PolicyDescent
from agents.policy_file import open_network
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import VARIANTS, SoapSpace, Variant
from sim.strategy import ParallelConfig, Strategy
from sim.topology import load_topology

P100 = load_topology("p100_cluster", num_devices=4)
LENET = lenet(num_devices=4)

network = partial(GraphNetwork, width=16, num_rounds=1, prior=2.0)
guided_mcmc = partial(
    GuidedMcmc,
    start="policy",
    temperature=0.001,
    policy_temperature=0.5,
    uniform=0.2,
    refresh_every=100,
    hastings=True,
    aligned_only=True,
    policy=None,
    network=network,
)
policy_descent = partial(
    PolicyDescent, width=4, widest=None, aligned_only=True, policy=None, network=network, then=large_neighbourhood
)
SEARCHES: dict[str, Callable[..., Agent]] = {"guided_mcmc": guided_mcmc, "policy_descent": policy_descent}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


def problem_of(graph: OperatorGraph, variant: Variant = "block") -> Problem:
    return Problem(graph, P100, space=SoapSpace(graph, P100, variant=variant))


def adviser_of(problem: Problem, *, aligned_only: bool = True) -> Adviser:
    ledger = Ledger(problem, Budget(simulations=1000), lambda progress: None)
    return Adviser(problem, network(), advised_space(problem, aligned_only=aligned_only), ledger)


def price_ns(problem: Problem, configs: list[ParallelConfig]) -> int:
    return problem.simulation(Strategy(problem.graph, problem.topology, configs)).cost_ns


@every_search
@pytest.mark.parametrize("variant", VARIANTS)
def test_it_stays_in_every_space_and_in_its_budget(search: Callable[..., Agent], variant: Variant) -> None:
    problem = problem_of(LENET, variant)
    result = search(seed=0).search(problem, Budget(simulations=400))

    assert result.simulations == 400
    for operator, config in enumerate(result.strategy.configs):
        problem.space.check(operator, config)


@every_search
def test_the_same_seed_finds_the_same_strategy(search: Callable[..., Agent]) -> None:
    first, second = (search(seed=3).search(problem_of(LENET), Budget(simulations=500)) for _ in range(2))

    assert [point.best_ms for point in first.curve] == [point.best_ms for point in second.curve]
    assert first.strategy.hash == second.strategy.hash


@every_search
def test_on_nmt_it_beats_data_parallelism(search: Callable[..., Agent]) -> None:
    problem = problem_of(nmt(num_devices=4, steps=16, hidden=64, vocabulary=128))

    assert search(seed=0).search(problem, Budget(simulations=600)).cost_ns < problem.data_parallel_ns


def test_drawing_a_network_leaves_the_random_numbers_of_the_process_alone() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3).tolist()
    torch.manual_seed(1)
    open_network(None, network, seed=0)

    assert torch.rand(3).tolist() == expected


def test_without_a_limit_of_the_width_the_descent_certifies() -> None:
    graph = OperatorGraph(LENET.operators[:3], name="start of lenet")
    topology = load_topology("p100_cluster", num_devices=2)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant="aligned"))
    result = policy_descent(seed=0).search(problem, Budget(simulations=500))
    neighbours = [
        result.strategy.replace(i, problem.space.config(i, index))
        for i in range(len(graph))
        for index in range(problem.space.num_configs(i))
    ]

    assert result.is_one_opt
    assert min(problem.simulation(strategy).cost_ns for strategy in neighbours) >= result.cost_ns


def test_a_limited_width_certifies_nothing_before_the_search_goes_on() -> None:
    result = policy_descent(seed=0, widest=4).search(problem_of(LENET), Budget(simulations=500))

    assert not result.is_one_opt


def test_an_untrained_policy_prefers_candidates_whose_estimated_time_is_short() -> None:
    problem = problem_of(LENET)
    adviser = adviser_of(problem)
    logits = adviser.logits(problem.simulation())
    liked, disliked = (
        [adviser.space.config(i, int(pick(own))) for i, own in enumerate(logits)] for pick in (np.argmax, np.argmin)
    )

    assert price_ns(problem, liked) < price_ns(problem, disliked)


def test_logits_of_aligned_configs_are_found_among_all_blocks() -> None:
    problem = problem_of(LENET)
    adviser = adviser_of(problem)
    logits = adviser.logits(problem.simulation())
    spread = adviser.spread(logits, problem.space)
    for i, own in enumerate(spread):
        known = {problem.space.index(i, adviser.space.config(i, index)): logit for index, logit in enumerate(logits[i])}

        assert {int(index): own[index] for index in np.flatnonzero(np.isfinite(own))} == known


def test_the_rollout_pays_for_data_parallelism_and_each_operator() -> None:
    ledger = Ledger(problem_of(LENET), Budget(simulations=1000), lambda progress: None)
    adviser = Adviser(ledger.problem, network(), advised_space(ledger.problem, aligned_only=True), ledger)
    adviser.rollout(ledger.problem.data_parallel)

    assert ledger.simulations == 1 + len(LENET)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(guided_mcmc, temperature=0.0), "agent.temperature must be positive, not 0.0"),
        (partial(guided_mcmc, policy_temperature=0.0), "agent.policy_temperature must be positive, not 0.0"),
        (partial(guided_mcmc, uniform=0.0), "agent.uniform must be more than 0 and at most 1, not 0.0"),
        (partial(guided_mcmc, refresh_every=0), "agent.refresh_every must be at least 1, not 0"),
        (partial(policy_descent, width=0), "agent.width must be at least 1, not 0"),
        (partial(policy_descent, widest=2), "agent.widest=2 must be at least agent.width=4"),
    ],
)
def test_useless_options_are_refused(make: Callable[..., Agent], message: str) -> None:
    with pytest.raises(AgentError) as error:
        make(seed=0)

    assert str(error.value) == message
