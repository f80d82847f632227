"""The natively vectorised environments do what single ones do."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from envs.errors import ActionFormError, EnvError, IllegalActionError, NoEpisodeError
from envs.observation import GraphObservation
from envs.soap import SoapEnv
from envs.soap_improve import SoapImproveEnv
from envs.strategy_env import StrategyEnv
from envs.vector import SoapImproveVectorEnv, SoapVectorEnv, StrategyVectorEnv
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategies import single_device

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


@pytest.mark.parametrize(("single", "vector"), FORMS)
def test_number_of_threads_changes_nothing(
    single: Callable[..., StrategyEnv], vector: Callable[..., StrategyVectorEnv], problem: Problem
) -> None:
    several = [vector(num_envs=7, num_threads=count, problem=problem) for count in (1, 2, 3)]
    rng = np.random.default_rng(0)
    results = [[env.reset(seed=0)] for env in several]
    for _ in range(20):
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in several[0].action_masks()])
        for env, own in zip(several, results, strict=True):
            own.append(env.step(actions))

    assert [difference(tuple(results[0]), tuple(own)) for own in results[1:]] == [None, None]


def test_a_start_from_outside_the_space_is_that_of_all_episodes(problem: Problem) -> None:
    space = SoapSpace(problem.graph, problem.topology, variant="aligned", dims="P")
    start = single_device(problem)
    env = SoapVectorEnv(num_envs=2, problem=problem, space=space)
    env.reset(options={"strategy": start})
    for _ in problem.graph.operators:
        _, _, is_over, _, _ = env.step(np.zeros(2, dtype=np.int64))

    assert is_over.all()
    assert [env.states.simulations.strategy(number) for number in range(2)] == [start] * 2


def test_another_start_is_that_of_later_episodes(problem: Problem) -> None:
    env = SoapVectorEnv(num_envs=2, problem=problem)
    env.reset()
    before = env.states.simulations.strategy(0)
    env.start_from(single_device(problem))
    during = env.states.simulations.strategy(0)
    for _ in problem.graph.operators:
        env.step(env.action_masks().argmax(axis=1))

    assert during == before
    assert [env.states.simulations.strategy(number) for number in range(2)] == [single_device(problem)] * 2


def test_strategies_that_nobody_pays_for_are_not_priced(problem: Problem) -> None:
    class Meter:
        left = 1 + 3 + 2  # the start, one step of all episodes, and two of the next

        def charge_batch(self, count: int) -> int:
            if self.left == 0:
                raise StopIteration
            paid = min(count, self.left)
            self.left -= paid
            return paid

        def record_batch(self, overflow_bytes: Any, cost_ns: Any, configs: Any) -> None:
            counts.append(len(cost_ns))

    counts: list[int] = []
    env = SoapVectorEnv(num_envs=3, problem=problem, meter=Meter())
    env.reset()
    env.step(np.zeros(3, dtype=np.int64))
    with pytest.raises(StopIteration):
        env.step(np.zeros(3, dtype=np.int64))

    assert (counts, env.states.step.tolist()) == ([1, 3, 2], [2, 2, 1])


def test_one_masked_action_changes_no_episode(problem: Problem) -> None:
    env = SoapVectorEnv(num_envs=2, problem=problem)
    env.reset()

    with pytest.raises(IllegalActionError):
        env.step(np.array([0, -1]))
    assert env.states.step.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("actions", "form"),
    [
        (np.zeros(1, np.int64), "int64 of shape (1,)"),
        (np.zeros((2, 1), np.int64), "int64 of shape (2, 1)"),
        (np.zeros(2), "float64 of shape (2,)"),
    ],
)
def test_actions_of_another_form_are_refused(actions: Any, form: str, problem: Problem) -> None:
    env = SoapVectorEnv(num_envs=2, problem=problem)
    env.reset()

    with pytest.raises(ActionFormError) as error:
        env.step(actions)
    assert str(error.value) == f"actions must be integers of shape (2,), one for each episode, not {form}"


def test_step_before_reset_is_refused(problem: Problem) -> None:
    with pytest.raises(NoEpisodeError):
        SoapVectorEnv(num_envs=2, problem=problem).step(np.zeros(2, dtype=np.int64))


def test_what_never_changes_can_be_left_out(problem: Problem) -> None:
    whole = SoapVectorEnv(num_envs=2, problem=problem)
    short = SoapVectorEnv(num_envs=2, problem=problem, observation=partial(GraphObservation, has_static=False))
    everything, rest = whole.reset()[0], short.reset()[0]

    static = {name: np.stack([array.reshape(-1)] * 2) for name, array in short.observation.static.items()}
    assert difference(everything, {name: (rest | static)[name] for name in everything}) is None
    assert short.observation_space.contains(rest)


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


@pytest.mark.parametrize("name", ["num_envs", "num_threads"])
def test_none_at_all_is_refused(name: str, problem: Problem) -> None:
    with pytest.raises(EnvError) as error:
        SoapVectorEnv(**{"num_envs": 1, "problem": problem, name: 0})
    assert str(error.value) == f"{name} must be at least 1, not 0"
