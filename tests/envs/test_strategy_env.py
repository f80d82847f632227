"""What holds for both environments."""

import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_for_sb3

from envs.arguments import Arguments
from envs.errors import (
    EnvError,
    IllegalActionError,
    MissingArgumentError,
    NoEpisodeError,
    NotEnumerableError,
    PaddingError,
    UnknownArgumentError,
)
from envs.padding import Padding
from envs.soap import SoapEnv
from envs.soap_improve import SoapImproveEnv
from envs.strategy_env import StrategyEnv
from sim.errors import MismatchError
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategies import single_device
from sim.topology import load_topology

Play = Callable[..., list[tuple[dict[str, np.ndarray], float, dict[str, Any]]]]
IDS = ["Soap-v0", "SoapImprove-v0"]


def same(left: Any, right: Any) -> bool:
    return all(
        a[1:] == b[1:] and all(np.array_equal(a[0][name], b[0][name]) for name in a[0])
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("name", IDS)
def test_gymnasiums_checker_finds_nothing(name: str, problem: Problem) -> None:
    env = gymnasium.make(f"envs:{name}", graph=problem.graph, topology=problem.topology)

    check_env(env.unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_stable_baselines_checker_finds_nothing(name: str, problem: Problem) -> None:
    env = gymnasium.make(f"envs:{name}", problem=problem, render_mode="ansi")

    check_env_for_sb3(env.unwrapped)


def test_same_actions_give_the_same_episode(env: StrategyEnv, play: Play) -> None:
    assert same(play(env, seed=3), play(env, seed=3))


def test_observations_stay_in_their_space(env: StrategyEnv, play: Play) -> None:
    episode = play(env)

    assert all(observation in env.observation_space for observation, _, _ in episode)


def test_pickled_environment_goes_on_alike(env: StrategyEnv) -> None:
    env.reset(seed=0)
    env.step(env.action_space.sample())
    action = env.action_space.sample()

    twin = pickle.loads(pickle.dumps(env))
    assert same([twin.step(action)[::2]], [env.step(action)[::2]])


def test_clone_is_independent(env: StrategyEnv) -> None:
    env.reset(seed=0)
    before = env.strategy
    twin = env.clone()

    twin.step(twin.action_space.sample())
    assert (env.strategy, env.states.step.tolist(), twin.states.step.tolist()) == (before, [0], [1])


def test_clone_goes_on_alike(env: StrategyEnv) -> None:
    env.reset(seed=0)
    env.step(env.action_space.sample())
    action = env.action_space.sample()

    twin = env.clone()
    assert same([twin.step(action)[::2]], [env.step(action)[::2]])


def test_returns_telescope_to_start_minus_end(env: StrategyEnv, play: Play) -> None:
    episode = play(env)

    start, end = episode[0][2]["cost_ms"], episode[-1][2]["cost_ms"]
    assert sum(reward for _, reward, _ in episode) == pytest.approx(1e6 * (start - end) / env.problem.data_parallel_ns)


def test_info_tells_the_cost_of_a_full_simulation(env: StrategyEnv, play: Play) -> None:
    info = play(env)[-1][2]

    assert info["cost_ms"] == env.problem.simulation(env.strategy).cost_ns / 1e6


def test_starts_from_data_parallelism(env: StrategyEnv) -> None:
    _, info = env.reset()

    assert (env.strategy, info["speedup"]) == (env.problem.data_parallel, 1.0)


def test_starts_from_a_given_strategy(env: StrategyEnv) -> None:
    start = single_device(env.problem)

    env.reset(options={"strategy": start})
    assert env.strategy == start


def test_a_start_outside_the_space_is_observed(problem: Problem) -> None:
    closed = SoapEnv(problem=problem, space=SoapSpace(problem.graph, problem.topology, variant="aligned", dims="P"))

    observation, _ = closed.reset()
    candidates = observation["candidates"].reshape(closed.observation.shapes["candidates"])
    assert candidates[:, 1].sum() == 0


def test_step_outside_an_episode_is_refused(env: StrategyEnv, play: Play) -> None:
    play(env)

    with pytest.raises(NoEpisodeError) as error:
        env.step(np.int64(0))
    assert str(error.value) == "no episode is running: call reset() before the first step and after the last one"


def test_action_beyond_the_space_is_refused(env: StrategyEnv) -> None:
    env.reset()
    last = int(env.action_space.n) - 1

    with pytest.raises(IllegalActionError) as error:
        env.step(np.int64(last + 1))
    assert str(error.value) == (
        f"action {last + 1} is not legal: actions are 0 to {last}; action_masks() tells which are"
    )


def test_refused_action_changes_nothing(env: StrategyEnv) -> None:
    env.reset()
    before = env.strategy

    with pytest.raises(IllegalActionError):
        env.step(np.int64(-1))
    assert (env.strategy, env.states.step.tolist()) == (before, [0])


class Meter:
    """Pays for a fixed number of pricings."""

    class SpentError(Exception):
        pass

    def __init__(self, left: int) -> None:
        self.left, self.prices = left, []

    def charge_batch(self, count: int) -> int:
        if self.left == 0:
            raise self.SpentError
        paid = min(count, self.left)
        self.left -= paid
        return paid

    def record_batch(self, overflow_bytes: Any, cost_ns: Any, configs: Any) -> None:
        self.prices += cost_ns.tolist()


def test_exceptions_of_the_meter_pass_through(problem: Problem) -> None:
    env = SoapEnv(problem=problem, meter=Meter(1))
    env.reset()

    with pytest.raises(Meter.SpentError):
        env.step(np.int64(0))


def test_start_is_paid_for_once(problem: Problem) -> None:
    meter = Meter(10)
    env = SoapEnv(problem=problem, meter=meter)
    env.reset()
    env.reset()

    assert meter.prices == [problem.data_parallel_ns]


def test_render_shows_every_operator(problem: Problem) -> None:
    env = SoapEnv(problem=problem, render_mode="ansi")
    env.reset()

    lines = (env.render() or "").splitlines()
    assert (len(lines), lines[-1]) == (
        len(problem.graph) + 1,
        f"step 0: {problem.data_parallel_ns / 1e6:.3f} ms, speed-up 1.000, fits memory",
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((), "an environment needs either problem, or graph and topology, not none of them"),
        (("graph",), "an environment needs either problem, or graph and topology, not only graph"),
        (("problem", "graph"), "an environment needs either problem, or graph and topology, not problem and graph"),
    ],
)
def test_too_little_or_too_much_is_refused(given: tuple[str, ...], message: str, problem: Problem) -> None:
    every: Arguments = {"problem": problem, "graph": problem.graph}
    arguments: Any = {name: part for name, part in every.items() if name in given}

    with pytest.raises(MissingArgumentError) as error:
        SoapEnv(**arguments)
    assert str(error.value) == message


def test_an_unknown_argument_is_refused(problem: Problem) -> None:
    unknown: Any = {"problem": problem, "pad": Padding()}

    with pytest.raises(UnknownArgumentError) as error:
        SoapEnv(**unknown)
    assert str(error.value) == (
        "unknown argument 'pad'; an environment takes "
        "cost, graph, meter, padding, problem, reward, space, sync, topology, beside those of its class"
    )


def test_space_without_indices_is_refused(problem: Problem) -> None:
    with pytest.raises(NotEnumerableError) as error:
        SoapEnv(problem=problem, space=SoapSpace(problem.graph, problem.topology, variant="free"))
    assert str(error.value) == ("the configs of space free/SOAP have no indices; choose the variant aligned or block")


def test_small_padding_is_refused(problem: Problem) -> None:
    with pytest.raises(PaddingError) as error:
        SoapEnv(problem=problem, padding=Padding(num_operators=2))
    assert str(error.value) == "padding.num_operators=2 is too small: the problem has 6 operators"


def test_unknown_render_mode_is_refused(problem: Problem) -> None:
    with pytest.raises(EnvError) as error:
        SoapEnv(problem=problem, render_mode="human")
    assert str(error.value) == "render_mode must be None or 'ansi', not 'human'"


def test_episode_without_steps_is_refused(problem: Problem) -> None:
    with pytest.raises(EnvError) as error:
        SoapImproveEnv(problem=problem, num_steps=0)
    assert str(error.value) == "num_steps must be at least 1, not 0"


def test_a_space_of_another_topology_is_refused(problem: Problem) -> None:
    other = load_topology("p100_cluster", num_devices=8)

    with pytest.raises(MismatchError) as error:
        SoapEnv(problem=problem, space=SoapSpace(problem.graph, other, variant="aligned"))
    assert str(error.value) == (
        f"the space was made for device topology 'p100_cluster' ({other.hash}), "
        f"but this run has 'p100_cluster' ({problem.topology.hash})"
    )
