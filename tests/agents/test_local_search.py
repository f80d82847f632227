"""Best response, large neighbourhood search, annealing and parallel chains."""

import itertools
import time
from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_problems import random_problem
from searches import large_neighbourhood

from agents.agent import Agent
from agents.annealing import Annealing
from agents.best_response import BestResponse
from agents.budget import Budget, Progress
from agents.errors import AgentError
from agents.ledger import Ledger, MeteredSimulation
from agents.mcmc import Mcmc
from agents.parallel_chains import ParallelChains
from agents.players import Players
from sim.critical_path import critical_operators
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace, Variant
from sim.strategy import Strategy
from sim.topology import load_topology

P100 = load_topology("p100_cluster", num_devices=4)
LENET = lenet(num_devices=4)
NMT = nmt(num_devices=4, steps=16, hidden=64, vocabulary=128)

best_response = partial(
    BestResponse, starts=["data_parallel"], has_weight_groups=True, perturbation=0.3, num_samples=40
)
annealing = partial(Annealing, start="random", hottest=1.0, coldest=1e-3, stages=20)
mcmc = partial(
    Mcmc, starts=["data_parallel", "random"], temperature=0.001, patience=0.5, reset_every=None, propagation=0.0
)
r22 = partial(mcmc, reset_every=50, propagation=0.25)
parallel_chains = partial(ParallelChains, search=mcmc, num_chains=3, num_threads=3)
SEARCHES: dict[str, Callable[..., Agent]] = {
    "best_response": best_response,
    "large_neighbourhood": large_neighbourhood,
    "annealing": annealing,
    "mcmc": mcmc,
    "r22": r22,
    "parallel_chains": parallel_chains,
}
every_search = pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)


def problem_of(graph: OperatorGraph, variant: Variant = "block", dims: str = "SOAP") -> Problem:
    return Problem(graph, P100, space=SoapSpace(graph, P100, variant=variant, dims=dims))


@pytest.fixture(scope="module")
def bandit() -> Problem:
    """So small that all strategies can be priced."""
    graph = OperatorGraph(LENET.operators[:3], name="start of lenet")
    topology = load_topology("p100_cluster", num_devices=2)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant="aligned"))


def all_costs(problem: Problem) -> list[int]:
    counts = [range(problem.space.num_configs(i)) for i in range(len(problem.graph))]
    costs, simulation = [], problem.simulation()
    for indices in itertools.product(*counts):
        configs = [problem.space.config(i, index) for i, index in enumerate(indices)]
        costs.append(simulation.restart(Strategy(problem.graph, problem.topology, configs)))
    return costs


# All of them


@every_search
@pytest.mark.parametrize("count", [1, 7, 500])
def test_the_budget_is_honoured_exactly(search: Callable[..., Agent], count: int) -> None:
    result = search(seed=0).search(problem_of(NMT), Budget(simulations=count))

    assert result.simulations == count or (search in (mcmc, r22, parallel_chains) and 0 < result.simulations < count)


@every_search
@pytest.mark.parametrize("variant", ["free", "injective", "aligned"])
def test_what_is_found_is_of_the_space(search: Callable[..., Agent], variant: Variant) -> None:
    problem = problem_of(LENET, variant)
    result = search(seed=0).search(problem, Budget(simulations=400))

    for operator, config in enumerate(result.strategy.configs):
        problem.space.check(operator, config)


@every_search
def test_a_start_outside_the_space_is_drawn_from_it(search: Callable[..., Agent]) -> None:
    problem = problem_of(LENET, dims="O")
    result = search(seed=0).search(problem, Budget(simulations=200))

    for operator, config in enumerate(result.strategy.configs):
        problem.space.check(operator, config)


@every_search
def test_the_optimum_of_a_bandit_is_found(search: Callable[..., Agent], bandit: Problem) -> None:
    result = search(seed=0).search(bandit, Budget(simulations=6000))

    assert result.cost_ns == min(all_costs(bandit))


@every_search
def test_a_budget_of_seconds_ends_the_search(search: Callable[..., Agent]) -> None:
    assert search(seed=0).search(problem_of(NMT), Budget(seconds=0.3)).seconds < 2.0


# Best response


def test_a_descent_never_goes_up() -> None:
    result = best_response(seed=0).search(problem_of(NMT), Budget(simulations=3000))

    costs = [point.best_ms for point in result.curve]
    assert costs == sorted(costs, reverse=True)
    assert result.cost_ns <= problem_of(NMT).data_parallel_ns


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_certificate_is_true(seed: int, has_weight_groups: bool) -> None:
    random = Random(seed)
    problem = random_problem(random, max_operators=3, max_devices=4, variant=random.choice(["aligned", "block"]))
    agent = best_response(seed=seed, has_weight_groups=has_weight_groups)
    result = agent.search(problem, Budget(simulations=800))
    assume(result.is_one_opt)
    best = price(problem, result.strategy)
    neighbours = (
        result.strategy.replace(operator, problem.space.config(operator, index))
        for operator in range(len(problem.graph))
        for index in range(problem.space.num_configs(operator))
    )

    assert all(price(problem, neighbour) >= best for neighbour in neighbours)


def price(problem: Problem, strategy: Strategy) -> tuple[int, int]:
    """Overflow and cost by full simulation."""
    simulation = problem.simulation(strategy)
    return simulation.overflow_bytes, simulation.cost_ns


def test_a_descent_that_ends_has_a_certificate() -> None:
    assert best_response(seed=0).search(problem_of(LENET), Budget(simulations=20_000)).is_one_opt


def test_a_descent_that_is_cut_short_has_none() -> None:
    assert not best_response(seed=0).search(problem_of(LENET), Budget(simulations=100)).is_one_opt


def test_a_sampled_space_has_no_certificate() -> None:
    assert not best_response(seed=0).search(problem_of(LENET, "free"), Budget(simulations=5000)).is_one_opt


def test_operators_that_share_weights_do_better_together() -> None:
    problem, budget = problem_of(nmt(num_devices=4)), Budget(simulations=4000)
    together, alone = (best_response(seed=0, has_weight_groups=has).search(problem, budget) for has in (True, False))

    assert together.cost_ns < alone.cost_ns


# Large neighbourhoods


def test_players_grow_connected() -> None:
    players = Players(problem_of(NMT))
    rng = np.random.default_rng(0)
    for _ in range(100):
        chosen = players.grow(int(rng.integers(len(NMT))), 3, rng, is_grouped=False)
        inside = {operator for player in chosen for operator in player}
        reached = {min(inside)}
        for _ in inside:
            reached |= {other for operator in reached for other in players.neighbours[operator]} & inside

        assert reached == inside


def test_the_critical_path_begins_at_a_source_and_leads_to_the_end() -> None:
    problem = problem_of(LENET)
    simulation = problem.simulation()
    single = Strategy(LENET, P100, [problem.space.config(i, 0) for i in range(len(LENET))])
    simulation.restart(single)

    assert critical_operators(simulation) == list(range(len(LENET)))


def test_what_takes_no_part_in_the_longest_chain_is_not_critical() -> None:
    problem = problem_of(nmt(num_devices=4, steps=16))
    critical = critical_operators(problem.simulation())

    assert 0 < len(critical) <= len(problem.graph)


# Annealing


def test_the_temperature_falls_geometrically_from_the_hottest_to_the_coldest() -> None:
    agent = Annealing(start="random", hottest=0.1, coldest=0.001, stages=3, seed=0)
    temperatures = [agent.temperature(stage, 3) for stage in range(3)]

    assert temperatures == pytest.approx([0.1, 0.01, 0.001])


def test_more_stages_than_simulations_cool_down_all_the_same(bandit: Problem) -> None:
    agent = Annealing(start="data_parallel", hottest=1.0, coldest=1e-9, stages=10**12, seed=0)
    result = agent.search(bandit, Budget(simulations=50))

    assert result.simulations == 50


def test_any_slack_can_be_asked_for(bandit: Problem) -> None:
    agent = large_neighbourhood(slack=1e30, threshold=1e30, seed=0)

    assert agent.search(bandit, Budget(simulations=50)).simulations == 50


def test_a_cold_walk_does_not_climb(bandit: Problem) -> None:
    agent = Annealing(start="data_parallel", hottest=1e-12, coldest=1e-12, stages=5, seed=0)

    assert agent.search(bandit, Budget(simulations=50)).cost_ns <= bandit.data_parallel_ns


# MCMC's later moves


def test_the_later_moves_walk_elsewhere() -> None:
    budget = Budget(simulations=600)
    walks = [search(seed=0).search(problem_of(LENET), budget) for search in (mcmc, r22)]

    assert walks[0].cutoffs != walks[1].cutoffs


def test_a_reset_returns_to_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[int] = []
    restart = MeteredSimulation.restart

    def spy(simulation: MeteredSimulation, strategy: Strategy) -> int:
        costs.append(restart(simulation, strategy))
        return costs[-1]

    monkeypatch.setattr(MeteredSimulation, "restart", spy)
    agent = mcmc(seed=0, starts=["random"], temperature=100.0, patience=1.0, reset_every=20)
    agent.search(problem_of(LENET), Budget(simulations=400))

    assert len(costs) > 10
    assert costs == sorted(costs, reverse=True)


# Parallel chains


@pytest.mark.parametrize("search", [mcmc, r22, best_response, large_neighbourhood], ids=["mcmc", "r22", "br", "lns"])
def test_chains_at_the_same_time_find_what_they_find_one_after_another(search: Callable[..., Agent]) -> None:
    results = [
        parallel_chains(seed=1, search=search, num_threads=num_threads).search(
            problem_of(NMT), Budget(simulations=2000)
        )
        for num_threads in (1, 3)
    ]
    outcomes = [
        (r.strategy.hash, r.simulations, r.cutoffs, [(p.simulations, p.best_ms) for p in r.curve]) for r in results
    ]

    assert outcomes[0] == outcomes[1]


def test_the_best_of_the_chains_counts() -> None:
    seeds = np.random.SeedSequence(0).generate_state(3).tolist()
    alone = [mcmc(seed=seed).search(problem_of(LENET), Budget(simulations=300)).cost_ns for seed in seeds]

    assert parallel_chains(seed=0).search(problem_of(LENET), Budget(simulations=900)).cost_ns == min(alone)


@pytest.mark.parametrize("count", [1, 2, 3, 100, 101])
def test_the_chains_share_the_simulations_exactly(count: int) -> None:
    search = partial(annealing, stages=1)

    assert (
        parallel_chains(seed=0, search=search).search(problem_of(LENET), Budget(simulations=count)).simulations == count
    )


def test_the_curve_of_several_chains_falls_and_ends_within_the_budget() -> None:
    curve = parallel_chains(seed=0).search(problem_of(NMT), Budget(simulations=900)).curve
    counts, costs = [point.simulations for point in curve], [point.best_ms for point in curve]

    assert counts == sorted(counts)
    assert counts[-1] <= 900
    assert costs == sorted(costs, reverse=True)


def test_chains_report_their_progress_together() -> None:
    reports: list[Progress] = []
    parallel_chains(seed=0, search=annealing).search(problem_of(NMT), Budget(simulations=900), reports.append)

    assert (reports[-1].simulations, reports[-1].fraction) == (900, 1.0)


def test_the_time_of_all_chains_is_over_when_that_of_the_search_is() -> None:
    class Deaf(Agent):
        """Prices nothing for a while, then goes on as long as the ledger lets it."""

        def run(self, problem: Problem, ledger: Ledger) -> None:
            time.sleep(0.5)
            simulation = ledger.simulation()
            while True:
                simulation.restart(problem.data_parallel)

    chains = parallel_chains(seed=0, search=Deaf, num_chains=6, num_threads=1)

    assert chains.search(problem_of(LENET), Budget(seconds=0.6)).seconds < 2.5


def test_a_fault_in_one_chain_ends_all() -> None:
    class Fault(Agent):
        def run(self, problem: Problem, ledger: Ledger) -> None:
            raise AgentError("no")

    agents = iter([Fault(seed=0)])

    def search(*, seed: int) -> Agent:
        return next(agents, annealing(seed=seed))

    with pytest.raises(AgentError):
        parallel_chains(seed=0, search=search).search(problem_of(NMT), Budget(seconds=60))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(best_response, starts=[]), "agent.starts must name at least one strategy"),
        (partial(best_response, perturbation=0.0), "agent.perturbation must be more than 0 and at most 1, not 0.0"),
        (partial(best_response, num_samples=0), "agent.num_samples must be at least 1, not 0"),
        (partial(large_neighbourhood, size=0), "agent.size must be at least 1, not 0"),
        (partial(large_neighbourhood, critical=2.0), "agent.critical must be between 0 and 1, not 2.0"),
        (partial(large_neighbourhood, grouped=-1.0), "agent.grouped must be between 0 and 1, not -1.0"),
        (
            partial(large_neighbourhood, slack=0.1, threshold=0.2),
            "agent.slack=0.1 must be at least agent.threshold=0.2, and both not negative",
        ),
        (partial(large_neighbourhood, num_samples=0), "agent.num_samples must be at least 1, not 0"),
        (
            partial(annealing, hottest=0.1, coldest=1.0),
            "agent.hottest=0.1 must be at least agent.coldest=1.0, and both positive",
        ),
        (partial(annealing, stages=0), "agent.stages must be at least 1, not 0"),
        (partial(mcmc, reset_every=0), "agent.reset_every must be at least 1, not 0"),
        (partial(mcmc, propagation=1.0), "agent.propagation must be at least 0 and less than 1, not 1.0"),
        (partial(parallel_chains, num_chains=0), "agent.num_chains must be at least 1, not 0"),
        (partial(parallel_chains, num_threads=0), "agent.num_threads must be at least 1, not 0"),
    ],
)
def test_useless_options_are_refused(make: Callable[..., Agent], message: str) -> None:
    with pytest.raises(AgentError) as error:
        make(seed=0)

    assert str(error.value) == message
