"""Small problems and the environments on them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from envs.soap import SoapEnv
from envs.soap_improve import SoapImproveEnv
from envs.strategy_env import StrategyEnv
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

Episode = list[tuple[dict[str, np.ndarray], float, dict[str, Any]]]


@pytest.fixture(scope="session")
def problem() -> Problem:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant="aligned"))


@pytest.fixture(params=[SoapEnv, SoapImproveEnv], ids=["Soap-v0", "SoapImprove-v0"])
def env(request: pytest.FixtureRequest, problem: Problem) -> StrategyEnv:
    env: StrategyEnv = request.param(problem=problem)
    return env


@pytest.fixture
def play() -> Callable[..., Episode]:
    def play(env: StrategyEnv, seed: int = 0, options: dict[str, Any] | None = None) -> Episode:
        """A random episode, to its end."""
        observation, info = env.reset(seed=seed, options=options)
        env.action_space.seed(seed)
        episode: Episode = [(observation, 0.0, info)]
        is_over = False
        while not is_over:
            observation, reward, is_over, _, info = env.step(env.action_space.sample())
            episode.append((observation, reward, info))
        return episode

    return play
