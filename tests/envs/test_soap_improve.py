"""SoapImprove-v0: a fixed number of changes, anywhere."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from envs.errors import IllegalActionError
from envs.padding import Padding
from envs.soap_improve import SoapImproveEnv
from sim.problem import Problem

Play = Callable[..., list[Any]]


def test_episode_has_a_fixed_number_of_steps(problem: Problem, play: Play) -> None:
    assert len(play(SoapImproveEnv(problem=problem, num_steps=5))) == 1 + 5


def test_action_names_operator_and_config(problem: Problem) -> None:
    env = SoapImproveEnv(problem=problem)
    env.reset()

    env.step(np.int64(2 * env.mdp.sizes.num_configs + 3))
    assert env.strategy == problem.data_parallel.replace(2, problem.space.config(2, 3))


def test_worse_moves_are_kept(problem: Problem) -> None:
    env = SoapImproveEnv(problem=problem)
    env.reset()
    worse = problem.space.index(0, type(problem.data_parallel[0])((1, 1, 1, 1), (0,)))

    _, reward, _, _, info = env.step(np.int64(worse))
    assert reward == pytest.approx(1 - 1 / info["speedup"])
    assert reward < 0


def test_masks_are_the_legal_configs(problem: Problem) -> None:
    env = SoapImproveEnv(problem=problem, padding=Padding(num_operators=8))
    env.reset()

    masks = env.action_masks().reshape(8, -1)
    assert masks.sum(axis=1).tolist() == [*(problem.space.num_configs(i) for i in range(len(problem.graph))), 0, 0]


def test_padded_operator_is_refused(problem: Problem) -> None:
    env = SoapImproveEnv(problem=problem, padding=Padding(num_operators=8))
    env.reset()
    action = 7 * env.mdp.sizes.num_configs

    with pytest.raises(IllegalActionError) as error:
        env.step(np.int64(action))
    assert str(error.value) == (
        f"action {action} is not legal: it names operator 7, but the graph has 6; action_masks() tells which are"
    )
