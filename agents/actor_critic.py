"""ActorCritic: an algorithm of Stable-Baselines3 learns, decision by decision, which configs to choose."""

import inspect
import math
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from agents.agent import Agent
from agents.algorithm_options import check_algorithm, check_minibatches
from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.ledger import Ledger
from agents.policy import StrategyPolicy
from agents.policy_file import open_network
from agents.torch_threads import torch_threads
from agents.vector_adapter import VectorAdapter
from envs.observation import GraphObservation
from envs.reward import Reward
from envs.vector import StrategyVectorEnv
from sim.problem import Problem

UNLIMITED = 2**62
"""Steps that ``learn`` is asked for: the ledger ends it."""

NUM_SEEDS = 2**32
"""That numpy's older generator takes, which Stable-Baselines3 draws from."""

GIVEN = {"policy", "env", "learning_rate", "ent_coef", "policy_kwargs", "seed", "device"}
"""Keywords of the algorithm that the agent supplies."""

GIVEN_BY = "agent.learning_rate, agent.entropy_coefficient, agent.network and seed say the like for all algorithms"


class ActorCritic(Agent):
    """Any on-policy actor-critic algorithm of Stable-Baselines3 or sb3-contrib, on either environment.

    Every state that an episode passes through is a strategy, and the best of them is the result. Episodes begin with
    data parallelism (inside the space, ``sim.strategies.start_strategy``), or with the best strategy so far: then the
    policy learns to improve what it has found. Once it has become certain that nothing does, it tries nothing more; so
    it is forgotten then, and learned anew from the best strategy, if as much of the budget is left as it took. Learning
    rate and entropy coefficient fall linearly to 0 with the budget.

    Args:
        algorithm: from policy class, environment, and the keywords that all of them share.
        environment: many episodes at a time; SoapVectorEnv or SoapImproveVectorEnv.
        network: actor and critic, made after the seed is set.
        policy: a file whose network is taken instead and learns on, or None.
        aligned_only: choose among the configs of the variant ``aligned``, which is part of every other one; False takes
            the problem's space as it is, which must be enumerable then.
        refine: whether episodes begin with the best strategy that was found before the last update.
        certain: mean entropy of the decisions between two updates, nats, below which the network gets the weights back
            that it had at the start, if as much of the budget is left as it took; 0 never does.
        reward: judges each step.
        num_envs: episodes at a time.
        learning_rate: at the start.
        entropy_coefficient: at the start.
        num_threads: of the environment, and of torch; 1 gives equal results on any number of cores.
        seed: of the network's weights and the actions.

    Attributes:
        episode_costs_ms: of the last search, the iteration time at the end of each episode: the learning curve.
    """

    is_anytime = False  # the learning rate falls with the budget
    draws_globally = True  # Stable-Baselines3 does

    def __init__(
        self,
        *,
        algorithm: Callable[..., OnPolicyAlgorithm],
        environment: Callable[..., StrategyVectorEnv],
        network: Callable[[], GraphNetwork],
        policy: str | None,
        aligned_only: bool,
        refine: bool,
        certain: float,
        reward: Reward,
        num_envs: int,
        learning_rate: float,
        entropy_coefficient: float,
        num_threads: int,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        for name, value in (("num_envs", num_envs), ("learning_rate", learning_rate), ("num_threads", num_threads)):
            if not value > 0:
                raise AgentError(f"agent.{name} must be positive, not {value}")
        self._algorithm, self._environment, self._network = algorithm, environment, network
        self._policy = policy
        if not certain >= 0:
            raise AgentError(f"agent.certain must be 0 or more, not {certain}")
        self.aligned_only, self.refine, self.certain, self.reward = aligned_only, refine, certain, reward
        self.num_envs, self.num_threads = num_envs, num_threads
        self._check_algorithm(entropy_coefficient)
        self.learning_rate, self.entropy_coefficient = learning_rate, entropy_coefficient
        self.episode_costs_ms: list[float] = []

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Learn until the ledger ends it."""
        space = problem.space.aligned if self.aligned_only else problem.space
        env = self._environment(
            num_envs=self.num_envs,
            num_threads=self.num_threads,
            observation=lambda mdp: GraphObservation(mdp, has_static=False),
            problem=problem,
            space=space,
            reward=self.reward,
            meter=ledger,
        )
        assert isinstance(env.observation, GraphObservation)
        self.episode_costs_ms = []
        adapter = VectorAdapter(env)
        adapter.start = ledger.start_strategy("data_parallel", np.random.default_rng(self.seed))
        # Arguments of distributions are ours, not the user's; checking them costs 12-19 % of the time.
        torch.distributions.Distribution.set_default_validate_args(False)
        with torch_threads(self.num_threads):
            network = open_network(self._policy, self._network, self.seed)
            model = self._algorithm(
                StrategyPolicy,
                adapter,
                learning_rate=lambda _: self.learning_rate * (1 - ledger.progress().fraction),
                policy_kwargs={
                    "network": network,
                    "facts": env.observation.static,
                    "look": ledger.look,
                },
                seed=self.seed % NUM_SEEDS,
                device="cpu",
            )
            model.learn(UNLIMITED, callback=_Watch(self, ledger, adapter), log_interval=None)  # type: ignore[arg-type]

    def _check_algorithm(self, entropy_coefficient: float) -> None:
        """Refuse what would be overruled, or ignored, or makes no sense.

        Raises:
            AgentError: a keyword that this agent gives, a value that the algorithm cannot work with, or an entropy
                coefficient that it has no use for.
        """
        signature = inspect.signature(self._algorithm)
        check_algorithm(self._algorithm, prefix="agent.algorithm", given=GIVEN, given_by=GIVEN_BY)
        check_minibatches(self._algorithm, num_envs=self.num_envs)
        if entropy_coefficient and "ent_coef" not in signature.parameters:
            raise AgentError(f"agent.entropy_coefficient must be 0, not {entropy_coefficient}: the algorithm has none")


class _Watch(BaseCallback):
    """Lowers the entropy coefficient, chooses where episodes begin, notes how they end, renews a certain policy."""

    model: OnPolicyAlgorithm

    def __init__(self, agent: ActorCritic, ledger: Ledger, adapter: VectorAdapter) -> None:
        super().__init__()
        self._agent, self._ledger, self._adapter = agent, ledger, adapter
        self._entropy, self._begun = math.inf, 0.0

    def _on_training_start(self) -> None:
        policy = self.model.policy
        self._untrained = deepcopy((policy.state_dict(), policy.optimizer.state_dict()))

    def _on_rollout_start(self) -> None:
        fraction = self._ledger.progress().fraction
        self.model.ent_coef = self._agent.entropy_coefficient * (1 - fraction)
        start = self._adapter.start
        assert start is not None, "the agent chooses it"
        if self._agent.refine and (best := self._ledger.best_strategy).configs != start.configs:
            self._adapter.start = best
            self._adapter.env.start_from(best)
        if self._entropy < self._agent.certain and 1 - fraction >= fraction - self._begun:
            self._begun = fraction
            weights, moments = self._untrained
            self.model.policy.load_state_dict(weights)
            self.model.policy.optimizer.load_state_dict(moments)

    def _on_rollout_end(self) -> None:
        self._entropy = -float(self.model.rollout_buffer.log_probs.mean())

    def _on_step(self) -> bool:
        done: Any = np.flatnonzero(self.locals["dones"])
        self._agent.episode_costs_ms += [float(self.locals["infos"][position]["cost_ms"]) for position in done]
        return True
