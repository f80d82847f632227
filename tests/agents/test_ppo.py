"""PPO spends exactly its budget, repeats itself, and learns."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from agents.budget import Budget
from agents.errors import AgentError
from agents.mcmc import Mcmc
from agents.policy import StrategyNetwork
from agents.ppo import Ppo
from envs.padding import Padding
from envs.reward import CostReduction
from envs.soap import SoapEnv
from envs.soap_improve import SoapImproveEnv
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

YAML = Path(__file__).resolve().parents[2] / "experiments" / "conf" / "agent" / "ppo.yaml"


def ppo(**changes: Any) -> Ppo:
    options = {key: value for key, value in yaml.safe_load(YAML.read_text()).items() if key[0] != "_"}
    return Ppo(**{**options, "reward": CostReduction(), "seed": 0, **changes})


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))


def test_spends_exactly_its_budget(problem: Problem) -> None:
    result = ppo().search(problem, Budget(simulations=777))

    assert result.simulations == 777


def test_stops_within_its_time(problem: Problem) -> None:
    result = ppo().search(problem, Budget(seconds=0.5))

    assert result.simulations > 0


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


def test_learns_and_comes_near_mcmc(problem: Problem) -> None:
    agent = ppo()

    result = agent.search(problem, Budget(simulations=8000))
    starts = ["data_parallel", "random"]
    mcmc = Mcmc(starts=starts, temperature=0.005, patience=0.5, reset_every=None, propagation=0.0, seed=0)
    tenths = [float(np.mean(part)) for part in np.array_split(agent.episode_costs_ms, 10)]
    assert tenths[-1] < 0.6 * tenths[0]
    assert result.cost_ns <= 1.05 * mcmc.search(problem, Budget(simulations=8000)).cost_ns


def test_padding_does_not_change_the_scores(problem: Problem) -> None:
    space = SoapSpace(problem.graph, problem.topology, variant="aligned")
    small = SoapEnv(problem=problem, space=space)
    large = SoapEnv(
        problem=problem,
        space=space,
        padding=Padding(num_operators=20, num_edges=30, num_devices=9, num_configs=100),
    )
    networks = []
    for env in (small, large):
        torch.manual_seed(0)
        networks.append(StrategyNetwork(env.observation.shapes, num_blocks=1, width=16))
    scores = []
    for env, network in zip((small, large), networks, strict=True):
        observation, _ = env.reset()
        batch = {name: torch.as_tensor(array[None]) for name, array in observation.items()}
        scores.append(network(batch)[0][0, : space.num_configs(0)].detach().numpy())

    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_network_scores_all_operators_of_soap_improve(problem: Problem) -> None:
    env = SoapImproveEnv(problem=problem, space=SoapSpace(problem.graph, problem.topology, variant="aligned"))
    network = StrategyNetwork(env.observation.shapes, num_blocks=len(problem.graph), width=16)
    observation, _ = env.reset()

    scores, values = network({name: torch.as_tensor(array[None]) for name, array in observation.items()})
    assert (tuple(scores.shape), tuple(values.shape)) == ((1, int(env.action_space.n)), (1, 1))


@pytest.mark.parametrize("name", ["num_envs", "learning_rate", "width"])
def test_impossible_number_is_refused(name: str) -> None:
    with pytest.raises(AgentError) as error:
        ppo(**{name: 0})
    assert str(error.value) == f"agent.{name} must be positive, not 0"
