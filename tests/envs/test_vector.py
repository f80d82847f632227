"""The natively vectorised environments do what single ones do."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs.errors import EnvError
from envs.soap import SoapEnv
from envs.soap_improve import SoapImproveEnv
from envs.strategy_env import StrategyEnv
from envs.vector import SoapImproveVectorEnv, SoapVectorEnv, StrategyVectorEnv
from sim.problem import Problem

FORMS = [
    pytest.param(SoapEnv, SoapVectorEnv, id="Soap-v0"),
    pytest.param(SoapImproveEnv, SoapImproveVectorEnv, id="SoapImprove-v0"),
]
NUM_ENVS = 3


@pytest.mark.parametrize(("single", "vector"), FORMS)
def test_vector_form_equals_gymnasiums_own(
    single: Callable[..., StrategyEnv], vector: Callable[..., StrategyVectorEnv], problem: Problem
) -> None:
    native = vector(num_envs=NUM_ENVS, problem=problem)
    synchronous = gymnasium.vector.SyncVectorEnv(
        [lambda: single(problem=problem)] * NUM_ENVS, autoreset_mode=AutoresetMode.SAME_STEP
    )
    rng = np.random.default_rng(0)
    differences = [difference(native.reset(seed=0), synchronous.reset(seed=0))]
    for _ in range(20):
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in native.action_masks()])
        differences.append(difference(native.step(actions), synchronous.step(actions)))

    assert differences == [None] * 21


def difference(left: Any, right: Any) -> Any:
    """The first place where two results differ, or None."""
    if isinstance(left, dict):
        if left.keys() != right.keys():
            return left.keys() ^ right.keys()
        return next((found for key in left if (found := difference(left[key], right[key]))), None)
    if isinstance(left, tuple) or (isinstance(left, np.ndarray) and left.dtype == object):
        return next((found for pair in zip(left, right, strict=True) if (found := difference(*pair))), None)
    return None if np.array_equal(left, right) else (left, right)


@pytest.mark.parametrize("name", ["Soap-v0", "SoapImprove-v0"])
def test_gymnasium_makes_the_native_form(name: str, problem: Problem) -> None:
    env = gymnasium.make_vec(f"envs:{name}", 2, vectorization_mode="vector_entry_point", problem=problem)

    assert isinstance(env, StrategyVectorEnv)


def test_no_episode_at_all_is_refused(problem: Problem) -> None:
    with pytest.raises(EnvError) as error:
        SoapVectorEnv(num_envs=0, problem=problem)
    assert str(error.value) == "num_envs must be at least 1, not 0"
