"""A network learns by trial on several problems, and only what it should."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import cycle
from typing import Any

import pytest
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C

from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.reinforcement import Practice, Reinforcement
from envs.reward import LogCostReduction
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

PPO = partial(MaskablePPO, n_epochs=4, gamma=0.95, gae_lambda=0.95, clip_range=0.2, normalize_advantage=False)


def reinforcement(**changes: Any) -> Reinforcement:
    options: dict[str, Any] = {
        "algorithm": PPO,
        "network": partial(GraphNetwork, width=16, num_rounds=1, prior=0.0),
        "policy": None,
        "reward": LogCostReduction(),
        "num_envs": 8,
        "updates_per_problem": 2,
        "midway": 0.25,
        "batch_size": 64,
        "learning_rate": 0.01,
        "entropy_coefficient": 0.005,
        "smallest_deviation": 0.005,
        "warm_up": 0.0,
    }
    return Reinforcement(**{**options, "num_threads": 1, "seed": 0, **changes})


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    """Of different numbers of devices, and so of different actions."""
    made = []
    for num_devices in (2, 4):
        graph, topology = lenet(num_devices=num_devices), load_topology("p100_cluster", num_devices=num_devices)
        made.append(Problem(graph, topology, space=SoapSpace(graph, topology, variant="aligned")))
    return made


@pytest.fixture
def draw(problems: list[Problem]) -> Callable[[], Problem]:
    return partial(next, cycle(problems))


def test_episodes_get_faster_over_problems_of_different_sizes(problems: list[Problem]) -> None:
    reports: list[Practice] = []
    with suppress(StopIteration):  # so that it does not depend on the machine's speed
        reinforcement().run(partial(next, iter(15 * problems)), 1e9, reports.append)

    assert reports[-1].speedup > 1.5 * reports[1].speedup
    assert reports[-1].entropy < 0.8 * reports[1].entropy


def test_all_that_it_spends_is_told(draw: Callable[[], Problem], problems: list[Problem]) -> None:
    reports: list[Practice] = []
    spent = reinforcement(midway=0.0).run(draw, 0.3, reports.append)

    decisions = sum(16 * len(problems[number % 2].graph) for number in range(spent.problems))
    assert reports[-1] == spent
    assert spent.episodes == 16 * spent.problems
    assert spent.simulations == decisions + spent.problems


def test_a_start_midway_costs_a_simulation(draw: Callable[[], Problem], problems: list[Problem]) -> None:
    spent = reinforcement(midway=1.0).run(draw, 0.3, lambda now: None)

    decisions = sum(16 * len(problems[number % 2].graph) for number in range(spent.problems))
    assert spent.simulations == decisions + 2 * spent.problems


def test_in_the_warm_up_the_critic_alone_learns(draw: Callable[[], Problem]) -> None:
    training = reinforcement(warm_up=1.0)
    before = {name: weight.clone() for name, weight in training.network.state_dict().items()}
    training.run(draw, 0.3, lambda now: None)

    after = training.network.state_dict()
    assert {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])} == {"value"}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_envs", 0, "pretraining.num_envs must be positive, not 0"),
        ("midway", 1.5, "pretraining.midway must be between 0 and 1, not 1.5"),
        ("algorithm", A2C, "pretraining.algorithm must be one with batch_size, as sb3_contrib.MaskablePPO is"),
        (
            "algorithm",
            partial(MaskablePPO, n_steps=8),
            "pretraining.algorithm.n_steps is not for the algorithm alone: pretraining gives it",
        ),
    ],
)
def test_useless_option_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(AgentError) as error:
        reinforcement(**{name: value})

    assert str(error.value) == message
