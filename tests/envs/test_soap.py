"""Soap-v0: one decision for each operator."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from envs.errors import IllegalActionError
from envs.padding import Padding
from envs.soap import SoapEnv
from sim.models.alexnet import alexnet
from sim.problem import Problem
from sim.topology import load_topology

Play = Callable[..., list[Any]]


def test_episode_visits_every_operator_once(problem: Problem, play: Play) -> None:
    episode = play(SoapEnv(problem=problem))

    visited = [int(observation["operator"][0]) for observation, _, _ in episode[:-1]]
    assert visited == list(range(len(problem.graph)))


def test_masks_are_the_legal_configs(problem: Problem, play: Play) -> None:
    episode = play(SoapEnv(problem=problem))

    legal = [int(observation["action_mask"].sum()) for observation, _, _ in episode]
    assert legal == [*(problem.space.num_configs(operator) for operator in range(len(problem.graph))), 0]


def test_observed_mask_is_that_of_action_masks(problem: Problem) -> None:
    env = SoapEnv(problem=problem)

    observation, _ = env.reset()
    assert np.array_equal(observation["action_mask"], env.action_masks())


def test_action_is_the_index_in_the_space(problem: Problem) -> None:
    env = SoapEnv(problem=problem)
    env.reset()

    env.step(np.int64(7))
    assert env.strategy[0] == problem.space.config(0, 7)


def test_masked_action_is_refused(problem: Problem) -> None:
    env = SoapEnv(problem=problem, padding=Padding(num_configs=100))
    env.reset()
    last = problem.space.num_configs(0) - 1

    with pytest.raises(IllegalActionError) as error:
        env.step(np.int64(99))
    assert str(error.value) == (
        f"action 99 is not legal: it names config 99 of operator 'conv1', which has configs 0 to {last}; "
        "action_masks() tells which are"
    )


def test_keeping_data_parallelism_earns_nothing(problem: Problem) -> None:
    env = SoapEnv(problem=problem)
    env.reset()

    rewards = [
        env.step(np.int64(problem.space.index(operator, problem.data_parallel[operator])))[1]
        for operator in range(len(problem.graph))
    ]
    assert rewards == [0.0] * len(problem.graph)


def test_two_problems_of_equal_padding_have_equal_spaces(problem: Problem) -> None:
    padding = Padding(num_operators=40, num_edges=50, num_devices=4, num_configs=80)
    graph, topology = alexnet(num_devices=2), load_topology("p100_cluster", num_devices=2)

    first = SoapEnv(problem=problem, padding=padding)
    second = SoapEnv(graph=graph, topology=topology, padding=padding)
    assert (first.observation_space, first.action_space) == (second.observation_space, second.action_space)
