"""PPO: a policy learns, operator by operator, which config to choose."""

from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import BaseCallback

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import Ledger
from agents.policy import StrategyPolicy
from agents.vector_adapter import VectorAdapter
from envs.reward import Reward
from envs.vector import SoapVectorEnv
from sim.problem import Problem
from sim.space import SoapSpace

UNLIMITED = 2**62
"""Steps that ``learn`` is asked for: the ledger ends it."""


class Ppo(Agent):
    """Proximal policy optimization on Soap-v0 with masked actions.

    Paper: Schulman et al., "Proximal Policy Optimization Algorithms", 2017, https://arxiv.org/abs/1707.06347; masks:
    Huang and Ontanon, "A Closer Look at Invalid Action Masking in Policy Gradient Algorithms", 2022,
    https://arxiv.org/abs/2006.14171.
    Code: MaskablePPO of sb3-contrib.

    Every state that an episode passes through is a strategy, and the best of them is the result. Deviations: learning
    rate and entropy coefficient fall linearly to 0 with the budget; by default the configs are only
    the aligned ones of the problem's space.

    Args:
        aligned_only: choose among the configs of the variant ``aligned``, which is part of every other one; False takes
            the problem's space as it is, which must be enumerable then.
        reward: judges each step.
        num_envs: episodes at a time.
        steps_per_update: decisions in each of them between two updates.
        num_epochs: passes over these in an update.
        batch_size: decisions in a minibatch.
        learning_rate: Adam's, at the start.
        entropy_coefficient: at the start.
        discount: of future rewards.
        gae_lambda: of generalized advantage estimation.
        clip_range: of the probability ratio.
        value_coefficient: weight of the value loss.
        max_gradient_norm: longer gradients are cut.
        width: of the networks' hidden layers.
        num_threads: of the environment, and of torch; 1 gives equal results on any number of cores.
        seed: of the network's weights and the actions.

    Attributes:
        episode_costs_ms: of the last search, the iteration time at the end of each episode: the learning curve.
    """

    def __init__(
        self,
        *,
        aligned_only: bool,
        reward: Reward,
        num_envs: int,
        steps_per_update: int,
        num_epochs: int,
        batch_size: int,
        learning_rate: float,
        entropy_coefficient: float,
        discount: float,
        gae_lambda: float,
        clip_range: float,
        value_coefficient: float,
        max_gradient_norm: float,
        width: int,
        num_threads: int,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        positive = {
            "num_envs": num_envs,
            "steps_per_update": steps_per_update,
            "num_epochs": num_epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "clip_range": clip_range,
            "max_gradient_norm": max_gradient_norm,
            "width": width,
            "num_threads": num_threads,
        }
        for name, value in positive.items():
            if not value > 0:
                raise AgentError(f"agent.{name} must be positive, not {value}")
        if num_envs * steps_per_update < 2:
            raise AgentError("agent.num_envs * agent.steps_per_update must be at least 2: advantages are normalized")
        self.aligned_only, self.reward, self.num_envs = aligned_only, reward, num_envs
        self.learning_rate, self.entropy_coefficient = learning_rate, entropy_coefficient
        self.width, self.num_threads = width, num_threads
        self.episode_costs_ms: list[float] = []
        self._keywords: dict[str, Any] = {
            "n_steps": steps_per_update,
            "batch_size": batch_size,
            "n_epochs": num_epochs,
            "gamma": discount,
            "gae_lambda": gae_lambda,
            "clip_range": clip_range,
            "vf_coef": value_coefficient,
            "max_grad_norm": max_gradient_norm,
        }

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Learn until the ledger ends it."""
        space = problem.space
        if self.aligned_only:
            space = SoapSpace(problem.graph, problem.topology, variant="aligned", dims=space.dims)
        env = SoapVectorEnv(
            num_envs=self.num_envs,
            num_threads=self.num_threads,
            problem=problem,
            space=space,
            reward=self.reward,
            meter=ledger,
        )
        self.episode_costs_ms = []
        num_threads = torch.get_num_threads()
        # Arguments of distributions are ours, not the user's; checking them costs 12-19 % of the time.
        torch.distributions.Distribution.set_default_validate_args(False)
        torch.set_num_threads(self.num_threads)
        try:
            model = MaskablePPO(
                StrategyPolicy,
                VectorAdapter(env),
                learning_rate=lambda _: self.learning_rate * (1 - ledger.progress().fraction),
                ent_coef=self.entropy_coefficient,
                policy_kwargs={"shapes": env.observation.shapes, "num_blocks": 1, "width": self.width},
                seed=self.seed,
                device="cpu",
                **self._keywords,
            )
            model.learn(UNLIMITED, callback=_Watch(self, ledger), log_interval=None)  # type: ignore[arg-type]
        finally:
            torch.set_num_threads(num_threads)


class _Watch(BaseCallback):
    """Lowers the entropy coefficient as the budget is spent, and notes how episodes end."""

    def __init__(self, agent: Ppo, ledger: Ledger) -> None:
        super().__init__()
        self._agent, self._ledger = agent, ledger

    def _on_rollout_start(self) -> None:
        assert isinstance(self.model, MaskablePPO)
        self.model.ent_coef = self._agent.entropy_coefficient * (1 - self._ledger.progress().fraction)

    def _on_step(self) -> bool:
        done = np.flatnonzero(self.locals["dones"])
        self._agent.episode_costs_ms += [float(self.locals["infos"][position]["cost_ms"]) for position in done]
        return True
