"""Reinforcement: one network learns by trial on many problems, one after the other."""

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import set_random_seed

from agents.actor_critic import GIVEN, NUM_SEEDS
from agents.algorithm_options import check_algorithm
from agents.budget import Budget
from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.ledger import Ledger
from agents.policy import StrategyPolicy
from agents.policy_file import open_network
from agents.torch_threads import torch_threads
from agents.vector_adapter import VectorAdapter
from envs.observation import GraphObservation
from envs.reward import Reward
from envs.vector import SoapVectorEnv
from sim.problem import Problem

MEMORY = 0.98
"""Of the running averages, from problem to problem."""

UNLIMITED = Budget(simulations=2**62)
"""What may be spent on a problem: the number of updates is its end."""

ADAM_EPSILON = 1e-5
"""As the policies of Stable-Baselines3 have it."""


@dataclass(frozen=True, slots=True)
class Practice:
    """How far the training is.

    Attributes:
        seconds: since it began.
        problems: that were drawn.
        episodes: that were played.
        simulations: that they cost: one for each decision, and one for each strategy that they started from.
        speedup: running geometric mean of the drawn episodes from data parallelism: what they end at, over that.
        best: running geometric mean of the best speed-up that was seen on each problem.
        entropy: running average, nats.
    """

    seconds: float
    problems: int
    episodes: int
    simulations: int
    speedup: float
    best: float
    entropy: float

    @property
    def text(self) -> str:
        """For the display."""
        counts = f"{self.problems} problems  {self.episodes} episodes"
        return f"{counts}  drawn {self.speedup:.3f}x  best {self.best:.3f}x  entropy {self.entropy:.3f}"


class Reinforcement:
    """A policy-gradient algorithm with minibatches on problems that are drawn as it goes on.

    Each problem is an environment with spaces of its own; network and optimizer are the same on all. An update learns
    from whole episodes of Soap-v0, all on one problem, whose advantages are brought to mean 0 and standard deviation 1.
    Learning rate and entropy coefficient fall linearly to 0 with the time.

    Args:
        algorithm: from policy class, environment, and the keywords that PPO and its like share.
        network: actor and critic, made after the seed is set.
        policy: a file whose network is taken instead and learns on, or None.
        reward: judges each step; its unit must not depend on the problem.
        num_envs: episodes of an update, side by side.
        updates_per_problem: before the next one is drawn.
        midway: share of the updates whose episodes start from the best strategy so far on the problem; the others start
            from data parallelism.
        batch_size: most decisions in a minibatch; those of an update are alike.
        learning_rate: Adam's, at the start.
        entropy_coefficient: at the start.
        smallest_deviation: of an update's advantages that is brought to 1, so that noise is not where nothing is to be
            gained; in units of the reward.
        warm_up: share of the time in which the critic alone learns: imitation teaches it nothing.
        num_threads: of torch and of the environment.
        seed: of the network's weights, and of the actions.
    """

    def __init__(
        self,
        *,
        algorithm: Callable[..., OnPolicyAlgorithm],
        network: Callable[[], GraphNetwork],
        policy: str | None,
        reward: Reward,
        num_envs: int,
        updates_per_problem: int,
        midway: float,
        batch_size: int,
        learning_rate: float,
        entropy_coefficient: float,
        smallest_deviation: float,
        warm_up: float,
        num_threads: int,
        seed: int,
    ) -> None:
        counts = {"num_envs": num_envs, "updates_per_problem": updates_per_problem, "num_threads": num_threads}
        positive = {"batch_size": batch_size, "learning_rate": learning_rate, "smallest_deviation": smallest_deviation}
        for name, value in {**counts, **positive}.items():
            if not value > 0:
                raise AgentError(f"pretraining.{name} must be positive, not {value}")
        for name, share in (("midway", midway), ("warm_up", warm_up)):
            if not 0 <= share <= 1:
                raise AgentError(f"pretraining.{name} must be between 0 and 1, not {share}")
        _check_algorithm(algorithm)
        self.network = open_network(policy, network, seed)
        self._optimizer = torch.optim.Adam(self.network.parameters(), lr=learning_rate, eps=ADAM_EPSILON)
        self._algorithm, self._reward, self._rng = algorithm, reward, np.random.default_rng(seed)
        self._counts, self._batch_size, self._midway, self._warm_up = counts, batch_size, midway, warm_up
        self.learning_rate, self.entropy_coefficient = learning_rate, entropy_coefficient
        self.smallest_deviation = smallest_deviation
        self._seed, self.left = seed, 1.0

    def run(self, draw: Callable[[], Problem], seconds: float, report: Callable[[Practice], None]) -> Practice:
        """Play and learn until the time is over.

        Args:
            draw: makes the next problem.
            seconds: wall-clock time.
            report: is told after every problem; what it spends counts.
        """
        set_random_seed(self._seed % NUM_SEEDS)
        began, problems, episodes, simulations = time.perf_counter(), 0, 0, 0
        averages = np.zeros(3)
        # Arguments of distributions are ours, not the user's; checking them takes time.
        torch.distributions.Distribution.set_default_validate_args(False)
        with torch_threads(self._counts["num_threads"]):
            while True:
                problem = draw()
                ledger = Ledger(problem, UNLIMITED, lambda progress: None)
                watch = _Watch(self)
                self._practise(problem, ledger, watch, lambda: (time.perf_counter() - began) / seconds)
                keep = min(MEMORY, problems / (problems + 1))
                gained = math.log(problem.data_parallel_ns / ledger.best_ns)
                marks = np.array([np.mean(watch.gains), gained, np.mean(watch.entropies)])
                averages = keep * averages + (1 - keep) * marks
                problems, episodes = problems + 1, episodes + watch.episodes
                simulations += ledger.simulations
                spent = (time.perf_counter() - began, problems, episodes, simulations)
                now = Practice(*spent, math.exp(averages[0]), math.exp(averages[1]), float(averages[2]))
                report(now)
                if now.seconds >= seconds:
                    return now

    def _practise(self, problem: Problem, ledger: Ledger, watch: "_Watch", elapsed: Callable[[], float]) -> None:
        """All updates on one problem."""
        env = SoapVectorEnv(
            num_envs=self._counts["num_envs"],
            num_threads=self._counts["num_threads"],
            observation=lambda mdp: GraphObservation(mdp, has_static=False),
            problem=problem,
            space=problem.space,
            reward=self._reward,
            meter=ledger,
        )
        assert isinstance(env.observation, GraphObservation)
        adapter, num_decisions = VectorAdapter(env), env.num_envs * len(problem.graph)
        facts, optimizer = env.observation.static, self._optimizer
        model = self._algorithm(
            StrategyPolicy,
            adapter,
            n_steps=len(problem.graph),
            # An update's last minibatch would otherwise be a small one, with as long a step.
            batch_size=math.ceil(num_decisions / math.ceil(num_decisions / self._batch_size)),
            learning_rate=lambda _: self.learning_rate * self.left,
            policy_kwargs={"network": self.network, "facts": facts, "optimizer": optimizer},
            device="cpu",
        )
        for _ in range(self._counts["updates_per_problem"]):
            self.left = max(0.0, 1 - elapsed())
            self._thaw(critic_alone=1 - self.left < self._warm_up)
            is_midway = ledger.simulations > 0 and self._rng.random() < self._midway
            adapter.start = ledger.best_strategy if is_midway else None
            watch.is_midway = is_midway
            model.learn(num_decisions, callback=watch, log_interval=None)  # type: ignore[arg-type]

    def _thaw(self, *, critic_alone: bool) -> None:
        """Let all weights learn, or the critic's own."""
        for name, weight in self.network.named_parameters():
            weight.requires_grad_(not critic_alone or name.startswith("value."))


class _Watch(BaseCallback):
    """Lowers the entropy coefficient, normalises the advantages, and notes how episodes end."""

    def __init__(self, training: Reinforcement) -> None:
        super().__init__()
        self._training = training
        self.is_midway, self.episodes = False, 0
        self.gains: list[float] = []
        self.entropies: list[float] = []

    def _on_rollout_start(self) -> None:
        assert isinstance(self.model, OnPolicyAlgorithm)
        self.model.ent_coef = self._training.entropy_coefficient * self._training.left

    def _on_step(self) -> bool:
        done = np.flatnonzero(self.locals["dones"])
        self.episodes += len(done)
        if not self.is_midway:
            self.gains += [math.log(self.locals["infos"][position]["speedup"]) for position in done]
        return True

    def _on_rollout_end(self) -> None:
        assert isinstance(self.model, OnPolicyAlgorithm)
        buffer = self.model.rollout_buffer
        deviation = max(float(buffer.advantages.std()), self._training.smallest_deviation)
        buffer.advantages = (buffer.advantages - buffer.advantages.mean()) / deviation
        self.entropies.append(-float(buffer.log_probs.mean()))


def _check_algorithm(algorithm: Callable[..., OnPolicyAlgorithm]) -> None:
    """Refuse an algorithm without minibatches, and keywords that are given for it or make no sense.

    Raises:
        AgentError: it is such a one, or has such a keyword.
    """
    parameters = inspect.signature(algorithm).parameters
    for name in ("batch_size", "ent_coef"):
        if name not in parameters:
            raise AgentError(f"pretraining.algorithm must be one with {name}, as sb3_contrib.MaskablePPO is")
    given = GIVEN | {"n_steps", "batch_size"}
    check_algorithm(algorithm, prefix="pretraining.algorithm", given=given, given_by="pretraining gives it")
