from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import chi2

from agents.budget import Budget
from agents.errors import AgentError
from agents.mcmc import Mcmc
from agents.random_search import RandomSearch
from sim.chain import Chain
from sim.models.alexnet import alexnet
from sim.models.lenet import lenet
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))


def mcmc(*, starts: Sequence[str] = ("data_parallel", "random"), temperature: float = 0.001, seed: int = 0) -> Mcmc:
    return Mcmc(starts=starts, temperature=temperature, patience=0.5, reset_every=None, propagation=0.0, seed=seed)


def test_the_same_seed_finds_the_same_strategy(problem: Problem) -> None:
    first, second = (mcmc(seed=3).search(problem, Budget(simulations=500)) for _ in range(2))

    assert (first.strategy.hash, first.simulations) == (second.strategy.hash, second.simulations)


def test_another_seed_walks_elsewhere(problem: Problem) -> None:
    first, second = (mcmc(seed=seed).search(problem, Budget(simulations=500)) for seed in (0, 1))

    assert [point.simulations for point in first.curve] != [point.simulations for point in second.curve]


def test_it_beats_random_search(problem: Problem) -> None:
    costs = [agent.search(problem, Budget(simulations=2000)).cost_ns for agent in (mcmc(), RandomSearch(seed=0))]

    assert costs[0] < costs[1]


def test_it_beats_data_parallelism_on_alexnet() -> None:
    problem = Problem(alexnet(num_devices=4), load_topology("p100_cluster", num_devices=4))

    assert mcmc().search(problem, Budget(simulations=2000)).cost_ns < problem.data_parallel_ns


def test_a_start_ends_when_half_of_its_share_brought_nothing(problem: Problem) -> None:
    simulations = mcmc(starts=["data_parallel"], temperature=1e-9).search(problem, Budget(simulations=4000)).simulations

    assert 2000 <= simulations < 4000


def test_the_chain_visits_strategies_as_often_as_the_boltzmann_distribution_says() -> None:
    graph = OperatorGraph(lenet(num_devices=2).operators[:3], name="start of lenet")
    topology = load_topology("p100_cluster", num_devices=2)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, dims="O"))
    chain = Chain(problem.simulation(), np.random.default_rng(0), temperature_ns=problem.data_parallel_ns)
    visits: Counter[tuple[int, ...]] = Counter()
    for _ in range(1000):
        chain.walk(20)  # so that the counts are nearly independent
        visits[tuple(chain.simulation.config(operator).devices[0] for operator in range(3))] += 1
    states = list(np.ndindex(2, 2, 2))
    weights = np.exp([-_cost(problem, state) / problem.data_parallel_ns for state in states])
    expected = 1000 * weights / weights.sum()
    statistic = sum((visits[state] - e) ** 2 / e for state, e in zip(states, expected, strict=True))

    assert chi2.sf(statistic, len(states) - 1) > 1e-3
    assert max(weights) > 1.1 * min(weights), "the temperature tells the states apart"


def _cost(problem: Problem, state: tuple[int, ...]) -> int:
    strategy = problem.data_parallel
    for operator, device in enumerate(state):
        config = problem.space.config(operator, device)
        strategy = strategy.replace(operator, config)
    return problem.simulation(strategy).cost_ns


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": []}, "agent.starts must name at least one strategy"),
        ({"temperature": 0.0}, "agent.temperature must be positive, not 0.0"),
        ({"patience": 1.5}, "agent.patience must be more than 0 and at most 1, not 1.5"),
    ],
)
def test_useless_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(AgentError) as error:
        Mcmc(
            **(
                {"starts": ["random"], "temperature": 0.1, "patience": 0.5, "seed": 0}
                | {"reset_every": None, "propagation": 0.0}
                | options
            )
        )  # type: ignore

    assert str(error.value) == message
