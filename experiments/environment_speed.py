"""EnvironmentSpeed: how many steps a second the batched environment makes, alone and under PPO."""

import time
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO

from agents.agent import Agent
from agents.budget import Budget
from envs.observation import GraphObservation
from envs.vector import SoapVectorEnv, StrategyVectorEnv
from experiments.stopwatch import Stopwatch
from sim.batch import SimulationBatch
from sim.problem import Problem

Actions: TypeAlias = Literal["random", "keep"]
"""Any legal config, or always the one that data parallelism has."""

PARTS = {
    "pricing": (SimulationBatch, "change"),
    "observing": (GraphObservation, "__call__"),
    "environment": (StrategyVectorEnv, "step"),
    "acting": (MaskablePPO, "collect_rollouts"),
    "learning": (MaskablePPO, "train"),
}
"""Where time goes; each without those before it."""


@dataclass(frozen=True, slots=True)
class EnvironmentSpeed:
    """What one stream of steps took; wall-clock times.

    Attributes:
        model: name of the model.
        num_devices: devices.
        actions: who acts: ``random``, ``keep``, or ``ppo``, which learns too.
        num_envs: episodes at a time.
        num_threads: that price and observe; PPO's torch has as many.
        steps: of all episodes together.
        seconds: for them.
        shares: of these seconds by what was done, see ``PARTS``.
    """

    model: str
    num_devices: int
    actions: str
    num_envs: int
    num_threads: int
    steps: int
    seconds: float
    shares: dict[str, float]

    @property
    def steps_per_s(self) -> float:
        """Steps of all episodes together in a second."""
        return self.steps / self.seconds


def measure_environment(
    problem: Problem, model: str, actions: Actions, *, num_envs: int, num_threads: int, steps: int, seed: int
) -> EnvironmentSpeed:
    """Step through whole episodes, their resets included, with legal actions that are drawn beforehand.

    Args:
        problem: with an enumerable space.
        model: its name.
        actions: which.
        num_envs: episodes at a time.
        num_threads: of the environment.
        steps: of all episodes together, rounded up to whole episodes.
        seed: of the actions.
    """
    env = SoapVectorEnv(num_envs=num_envs, num_threads=num_threads, problem=problem)
    env.reset(seed=seed)
    length = len(problem.graph)
    num_steps = length * -(-steps // (num_envs * length))
    drawn = _drawn(env, actions, num_steps, np.random.default_rng(seed))
    for step in range(length):  # compiles, lets the arrays grow, and asks for the first transfers
        env.step(drawn[step])
    with Stopwatch(PARTS) as watch:
        began = time.perf_counter()
        for step in range(num_steps):
            env.step(drawn[step])
        seconds = time.perf_counter() - began
    settings = (problem.topology.num_devices, actions, num_envs, num_threads)
    return EnvironmentSpeed(model, *settings, num_envs * num_steps, seconds, _shares(watch, seconds))


def measure_training(
    problem: Problem, model: str, agent: Agent, *, num_envs: int, num_threads: int, simulations: int
) -> EnvironmentSpeed:
    """Let PPO search, with a short search before it that is not measured.

    Args:
        problem: with an enumerable space.
        model: its name.
        agent: PPO.
        num_envs: its episodes at a time.
        num_threads: its threads.
        simulations: of the search.
    """
    agent.search(problem, Budget(simulations=min(simulations, 600)))
    with Stopwatch(PARTS) as watch:
        began = time.perf_counter()
        result = agent.search(problem, Budget(simulations=simulations))
        seconds = time.perf_counter() - began
    settings = (problem.topology.num_devices, "ppo", num_envs, num_threads)
    return EnvironmentSpeed(model, *settings, result.simulations, seconds, _shares(watch, seconds))


def _drawn(env: SoapVectorEnv, actions: Actions, num_steps: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(steps, B) actions of episodes one after another."""
    table, length, shape = env.mdp.table, env.mdp.decisions.num_steps, (num_steps, env.num_envs)
    operators = np.arange(num_steps) % length
    if actions == "keep":
        return np.broadcast_to(env.states.choices[0, operators, None], shape).copy()
    return rng.integers(table.num_configs[table.operator_class[operators], None], size=shape)


def _shares(watch: Stopwatch, seconds: float) -> dict[str, float]:
    return {name: spent / seconds for name, spent in watch.seconds.items()}
