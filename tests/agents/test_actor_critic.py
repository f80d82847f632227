"""Actor-critic algorithms spend exactly their budget, repeat themselves, and learn."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import hydra
import numpy as np
import pytest
from hydra.utils import instantiate
from sb3_contrib import TRPO

from agents.actor_critic import ActorCritic
from agents.budget import Budget
from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.mcmc import Mcmc
from agents.parallel_chains import ParallelChains
from agents.policy_file import load_policy, save_policy
from envs.vector import SoapImproveVectorEnv, SoapVectorEnv
from experiments.construct import construct
from experiments.errors import OptionError
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import Strategy
from sim.topology import load_topology

CONF = Path(__file__).resolve().parents[2] / "experiments" / "conf"


def composed(*overrides: str) -> Any:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose("config", list(overrides))


def ppo(*overrides: str, **changes: Any) -> ActorCritic:
    cfg = composed("agent=ppo", *overrides)
    return instantiate(cfg.agent, _convert_="all")(**{"seed": 0, **changes})


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))


def test_spends_exactly_its_budget(problem: Problem) -> None:
    result = ppo().search(problem, Budget(simulations=777))

    assert result.simulations == 777


def test_stops_within_its_time(problem: Problem) -> None:
    result = ppo().search(problem, Budget(seconds=0.5))

    assert result.simulations > 0


def test_its_time_can_end_in_the_middle_of_an_update(problem: Problem) -> None:
    agent = ppo("agent.algorithm.n_steps=4", "agent.algorithm.n_epochs=100000")
    result = agent.search(problem, Budget(seconds=1.0))

    assert result.seconds < 4.0


def test_weights_that_are_no_numbers_any_more_are_reported(problem: Problem) -> None:
    with pytest.raises(AgentError) as error:
        ppo("agent.learning_rate=1e30").search(problem, Budget(simulations=2000))

    assert str(error.value) == (
        "the policy's weights are no numbers any more: it learned in too large steps; choose a smaller learning_rate"
    )


def test_a_seed_of_more_than_32_bits_is_a_seed(problem: Problem) -> None:
    result = ppo(seed=2**32 + 1).search(problem, Budget(simulations=20))

    assert result.simulations == 20


def test_same_seed_finds_the_same_strategy(problem: Problem) -> None:
    agents = ppo(), ppo()

    hashes = [agent.search(problem, Budget(simulations=1200)).strategy.hash for agent in agents]
    assert (hashes[0], agents[0].episode_costs_ms) == (hashes[1], agents[1].episode_costs_ms)


def test_is_never_worse_than_data_parallelism(problem: Problem) -> None:
    result = ppo().search(problem, Budget(simulations=50))

    assert result.cost_ns <= problem.data_parallel_ns


def test_searches_a_space_that_cannot_be_enumerated() -> None:
    graph, topology = lenet(num_devices=2), load_topology("p100_cluster", num_devices=2)
    free = Problem(graph, topology, space=SoapSpace(graph, topology, variant="free"))

    assert ppo().search(free, Budget(simulations=50)).simulations == 50


def test_learns_from_nothing_and_comes_near_mcmc(problem: Problem) -> None:
    agent = ppo("agent.network.prior=0.0")

    result = agent.search(problem, Budget(simulations=6000))
    starts = ["data_parallel", "random"]
    mcmc = Mcmc(starts=starts, temperature=0.005, patience=0.5, reset_every=None, propagation=0.0, seed=0)
    tenths = [float(np.mean(part)) for part in np.array_split(agent.episode_costs_ms, 10)]
    assert tenths[-1] < 0.6 * tenths[0]
    assert result.cost_ns <= 1.05 * mcmc.search(problem, Budget(simulations=6000)).cost_ns


def test_another_algorithm_on_the_other_environment_is_configuration(problem: Problem) -> None:
    trpo = partial(TRPO, n_steps=8, batch_size=32, gamma=0.99)
    agent = ppo(algorithm=trpo, environment=SoapImproveVectorEnv, entropy_coefficient=0.0)

    result = agent.search(problem, Budget(simulations=600))
    assert result.simulations == 600
    assert len(agent.episode_costs_ms) > 0


def test_learns_on_from_a_policy_file(problem: Problem, tmp_path: Path) -> None:
    fresh = ppo()
    network = fresh._network()
    for weight in network.parameters():
        weight.data.zero_()
    save_policy(network, tmp_path / "zero.safetensors", training={})

    costs = []
    for policy in (None, str(tmp_path / "zero.safetensors")):
        agent = ppo(policy=policy)
        agent.search(problem, Budget(simulations=120))
        costs.append(agent.episode_costs_ms)
    assert costs[0] != costs[1]
    assert all(bool((weight == 0).all()) for weight in load_policy(tmp_path / "zero.safetensors").parameters())


@pytest.mark.parametrize(("refine", "has_other_starts"), [(True, True), (False, False)])
def test_episodes_begin_with_the_best_strategy_so_far(problem: Problem, refine: bool, has_other_starts: bool) -> None:
    costs_ns: list[int] = []

    class Watched(SoapVectorEnv):
        def start_from(self, strategy: Strategy) -> None:
            costs_ns.append(problem.simulation(strategy).cost_ns)
            super().start_from(strategy)

    result = ppo(environment=Watched, refine=refine).search(problem, Budget(simulations=3000))

    assert bool(costs_ns) == has_other_starts
    assert costs_ns == sorted(set(costs_ns), reverse=True)
    assert all(result.cost_ns <= cost_ns < problem.data_parallel_ns for cost_ns in costs_ns)


@pytest.mark.parametrize(("certain", "is_renewed"), [(math.inf, True), (0.0, False)])
def test_a_policy_that_has_become_certain_is_learned_anew(problem: Problem, certain: float, is_renewed: bool) -> None:
    networks: list[GraphNetwork] = []
    weights: list[float] = []

    def make() -> GraphNetwork:
        networks.append(GraphNetwork(width=8, num_rounds=1, prior=8.0))
        return networks[-1]

    class Watched(SoapVectorEnv):
        def step(self, actions: Any) -> Any:
            weights.append(sum(weight.abs().sum().item() for weight in networks[0].parameters()))
            return super().step(actions)

    agent = ppo(environment=Watched, network=make, certain=certain)
    agent.search(problem, Budget(simulations=2000))

    first_rollout = 32
    assert (weights.count(weights[0]) > first_rollout) == is_renewed


def test_negative_entropy_is_refused() -> None:
    with pytest.raises(AgentError) as error:
        ppo(certain=-1.0)

    assert str(error.value) == "agent.certain must be 0 or more, not -1.0"


@pytest.mark.parametrize("name", ["num_envs", "learning_rate", "num_threads"])
def test_impossible_number_is_refused(name: str) -> None:
    with pytest.raises(AgentError) as error:
        ppo(**{name: 0})

    assert str(error.value) == f"agent.{name} must be positive, not 0"


def test_several_at_the_same_time_are_refused_since_they_would_share_random_numbers(problem: Problem) -> None:
    chains = ParallelChains(search=ppo, num_chains=2, num_threads=2, seed=0)
    with pytest.raises(AgentError) as error:
        chains.search(problem, Budget(simulations=100))

    assert str(error.value) == (
        "ActorCritic draws from the random numbers of the whole process, so searches of it at the same time would not "
        "repeat themselves; choose agent.num_threads=1"
    )


def test_entropy_coefficient_of_an_algorithm_that_has_none_is_refused() -> None:
    with pytest.raises(AgentError) as error:
        ppo(algorithm=TRPO, entropy_coefficient=0.1)

    assert str(error.value) == "agent.entropy_coefficient must be 0, not 0.1: the algorithm has none"


def test_keyword_that_the_agent_gives_is_refused_of_the_algorithm() -> None:
    with pytest.raises(AgentError, match=r"agent\.algorithm\.seed is not for the algorithm alone"):
        ppo("+agent.algorithm.seed=3")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["n_steps=0"], "agent.algorithm.n_steps must be at least 1, not 0"),
        (["n_epochs=0"], "agent.algorithm.n_epochs must be at least 1, not 0"),
        (["batch_size=-1"], "agent.algorithm.batch_size must be at least 1, not -1"),
        (["gamma=2"], "agent.algorithm.gamma must be between 0 and 1, not 2"),
        (["gae_lambda=-1"], "agent.algorithm.gae_lambda must be between 0 and 1, not -1"),
        (["clip_range=null"], "agent.algorithm.clip_range must be a positive number, not None"),
        (
            ["n_steps=4", "batch_size=9"],
            "agent.num_envs=16 times agent.algorithm.n_steps=4 decisions leave a minibatch of a single one with "
            "agent.algorithm.batch_size=9, whose advantages cannot be normalised; choose another batch_size",
        ),
    ],
)
def test_values_that_the_algorithm_cannot_work_with_are_refused(overrides: list[str], message: str) -> None:
    with pytest.raises(AgentError) as refusal:
        ppo(*(f"agent.algorithm.{override}" for override in overrides))

    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("agent.algorithm.gamma=high", "agent.algorithm.gamma: 'high' is not a number"),
        ("+agent.network.depth=3", "agent.network.depth: there is no such key; choose one of width, num_rounds, prior"),
    ],
)
def test_options_of_other_peoples_algorithms_are_checked(override: str, message: str) -> None:
    with pytest.raises(OptionError) as refusal:
        construct(composed("agent=ppo", override), "agent")

    assert str(refusal.value) == message


def test_unknown_key_of_other_peoples_algorithms_is_refused() -> None:
    with pytest.raises(OptionError, match=r"agent\.algorithm\.epochs: there is no such key; choose one of policy, env"):
        construct(composed("agent=ppo", "+agent.algorithm.epochs=3"), "agent")
