"""Imitation: a network learns on many problems to choose what a search found there."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from agents.agent import Agent
from agents.budget import Budget
from agents.errors import AgentError
from agents.graph_network import GraphNetwork, Tensors, tensors
from envs.config_table import Floats
from envs.observation import GraphObservation
from envs.vector import SoapVectorEnv
from sim.problem import Problem
from sim.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Solution:
    """What a teacher found.

    Attributes:
        choices: index of each operator's config.
        cost_ns: of the strategy.
        simulations: what the teacher spent.
        seconds: what it took.
    """

    choices: tuple[int, ...]
    cost_ns: int
    simulations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Lesson:
    """A problem and what there is to learn from it.

    Attributes:
        env: its episodes.
        facts: what all of their states have in common.
        solution: the teacher's.
        speedup: of that over data parallelism.
    """

    env: SoapVectorEnv
    facts: Tensors
    solution: Solution
    speedup: float


@dataclass(frozen=True, slots=True)
class Marks:
    """How the network did in a lesson, before it learned from it.

    Attributes:
        loss: cross-entropy in nats.
        agreement: share of decisions in which its first choice was the teacher's.
    """

    loss: float
    agreement: float


class Imitation:
    """Teaches by supervised learning.

    An episode visits the operators as Soap-v0 does. Most steps follow the teacher; some are random, so that the network
    also learns what to do when not all before it is as the teacher would have it. At every step it is told the
    teacher's config.

    Args:
        teacher: makes a search of its seed.
        simulations: its budget on each problem.
        noise: share of the steps that are random.
        midway: share of the lessons whose episodes start where some operators have the teacher's configs already; the
            others start from data parallelism.
        num_envs: episodes of a lesson, side by side.
        batch_size: decisions in a minibatch.
        learning_rate: Adam's.
        max_gradient_norm: longer gradients are cut.
        seed: of the random steps, and of the teachers.
    """

    def __init__(
        self,
        *,
        teacher: Callable[..., Agent],
        simulations: int,
        noise: float,
        midway: float,
        num_envs: int,
        batch_size: int,
        learning_rate: float,
        max_gradient_norm: float,
        seed: int,
    ) -> None:
        if not 0 <= noise < 1:
            raise AgentError(f"noise must be at least 0 and below 1, not {noise}")
        if not 0 <= midway <= 1:
            raise AgentError(f"midway must be between 0 and 1, not {midway}")
        self._teacher, self._budget, self._seed = teacher, Budget(simulations=simulations), seed
        self.noise, self.midway, self.num_envs, self.batch_size = noise, midway, num_envs, batch_size
        self.learning_rate, self.max_gradient_norm = learning_rate, max_gradient_norm
        self._rng = np.random.default_rng(seed)

    def solve(self, problem: Problem) -> Solution:
        """Let the teacher search the problem, whose space must be enumerable."""
        result = self._teacher(seed=self._seed).search(problem, self._budget)
        choices = tuple(problem.space.index(*pair) for pair in enumerate(result.strategy.configs))
        return Solution(choices, result.cost_ns, result.simulations, round(result.seconds, 3))

    def prepare(self, problem: Problem, solution: Solution) -> Lesson:
        """Make a lesson of a solved problem."""
        env = SoapVectorEnv(
            num_envs=self.num_envs,
            problem=problem,
            space=problem.space,
            observation=lambda mdp: GraphObservation(mdp, has_static=False),
        )
        assert isinstance(env.observation, GraphObservation)
        facts = tensors(env.observation.static)
        return Lesson(env, facts, solution, problem.data_parallel_ns / solution.cost_ns)

    def optimizer(self, network: GraphNetwork) -> torch.optim.Optimizer:
        """What ``teach`` wants, to be kept from lesson to lesson."""
        return torch.optim.Adam(network.parameters(), lr=self.learning_rate)

    def teach(self, network: GraphNetwork, optimizer: torch.optim.Optimizer, lesson: Lesson) -> Marks:
        """One episode in each environment of the lesson, and one pass over their decisions."""
        observations, targets = self._episodes(lesson)
        order = torch.as_tensor(self._rng.permutation(len(targets)))
        total, agreed = 0.0, 0
        for chosen in torch.split(order, self.batch_size):
            batch = {name: array[chosen] for name, array in observations.items()}
            logits = network(network.encode(lesson.facts), batch)[0]
            loss = torch.nn.functional.cross_entropy(logits, targets[chosen])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), self.max_gradient_norm)
            optimizer.step()
            total += loss.item() * len(chosen)
            agreed += int((logits.argmax(1) == targets[chosen]).sum())
        return Marks(total / len(targets), agreed / len(targets))

    def _episodes(self, lesson: Lesson) -> tuple[Tensors, torch.Tensor]:
        """All observations of an episode in each environment, and the teacher's configs."""
        observation, _ = lesson.env.reset(options={"strategy": self._start(lesson)})
        seen: list[dict[str, Floats]] = []
        targets: list[NDArray[np.int64]] = []
        for choice in lesson.solution.choices:
            masks = lesson.env.action_masks()
            seen.append(observation)
            targets.append(np.full(self.num_envs, choice))
            random = (self._rng.random(masks.shape) * masks).argmax(axis=1)
            actions = np.where(self._rng.random(self.num_envs) < self.noise, random, choice)
            observation, *_ = lesson.env.step(actions)
        stacked = {name: np.concatenate([one[name] for one in seen]) for name in seen[0]}
        return tensors(stacked), torch.as_tensor(np.concatenate(targets))

    def _start(self, lesson: Lesson) -> Strategy | None:
        """Data parallelism, or, in a share of the lessons, a strategy between that and the teacher's."""
        if self._rng.random() >= self.midway:
            return None
        problem, space = lesson.env.mdp.problem, lesson.env.mdp.space
        is_taught = self._rng.random(len(problem.graph)) < self._rng.random()
        configs = list(problem.data_parallel.configs)
        for operator in np.flatnonzero(is_taught).tolist():
            configs[operator] = space.config(operator, lesson.solution.choices[operator])
        return Strategy(problem.graph, problem.topology, configs)
