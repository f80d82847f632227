"""ZeroShot: a policy decides on a problem that it has never seen, and learns nothing."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from agents.agent import Agent
from agents.errors import AgentError
from agents.graph_network import Encoding, GraphNetwork, tensors
from agents.ledger import Ledger
from agents.policy_file import open_network
from agents.torch_threads import torch_threads
from envs.arguments import make_mdp
from envs.decisions import Visit
from envs.observation import Arrays, GraphObservation
from envs.vector import StrategyVectorEnv
from sim.problem import Problem
from sim.strategies import start_strategy
from sim.strategy import Strategy


class ZeroShot(Agent):
    """Lets a policy decide in Soap-v0, first always for its favourite config, then for what it draws.

    Data parallelism (inside the space, ``sim.strategies.start_strategy``) and other named strategies are priced first,
    at a simulation each. The first episode of favourites starts from data parallelism, the next ones from the best
    strategy so far, as long as they find a better one; then come episodes that are drawn, from the best again. Every
    state that an episode passes through is a strategy, and the best of all is the result.

    Args:
        policy: a file that ``experiments/pretrain.py`` wrote; None takes ``network`` as it is before training, which
            with a ``prior`` is greedy in the estimated time of the candidates.
        network: used only where there is no file.
        known: names of strategies (``sim.strategies``) that are priced beside data parallelism.
        refine: whether episodes of favourites start from the best strategy after the first.
        episodes: that are drawn, after these, rounded up to a multiple of ``num_envs``; None goes on until the
            budget is spent.
        temperature: divides the policy's logits before drawing.
        num_envs: drawn episodes at a time.
        aligned_only: see ``ActorCritic``.
        num_threads: of the environment and of torch; 1 gives equal results on any number of cores.
        seed: of the draws.
    """

    def __init__(
        self,
        *,
        policy: str | None,
        network: Callable[[], GraphNetwork],
        known: Sequence[str],
        refine: bool,
        episodes: int | None,
        temperature: float,
        num_envs: int,
        aligned_only: bool,
        num_threads: int,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        for name, value in (("num_envs", num_envs), ("num_threads", num_threads)):
            if value < 1:
                raise AgentError(f"agent.{name} must be positive, not {value}")
        if episodes is not None and episodes < 0:
            raise AgentError(f"agent.episodes must be at least 0, not {episodes}")
        if not temperature > 0:
            raise AgentError(f"agent.temperature must be positive, not {temperature}")
        self._policy, self._network, self.known, self.refine = policy, network, list(known), refine
        self.episodes, self.temperature, self.num_envs = episodes, temperature, num_envs
        self.aligned_only, self.num_threads = aligned_only, num_threads

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Decide until all episodes are over or the ledger ends it."""
        space = problem.space.aligned if self.aligned_only else problem.space
        mdp = make_mdp(Visit, {"problem": problem, "space": space, "meter": ledger})
        observation = GraphObservation(mdp, has_static=False)
        one, many = (
            StrategyVectorEnv(mdp, lambda _: observation, num_envs=count, num_threads=self.num_threads)
            for count in (1, self.num_envs)
        )
        rng, drawn = np.random.default_rng(self.seed), 0
        start = ledger.start_strategy("data_parallel", rng)
        first = _begun(one, start)
        for name in self.known:
            mdp.start(start_strategy(name, problem, rng))
        with torch_threads(self.num_threads), torch.no_grad():
            network = open_network(self._policy, self._network, self.seed)
            encoding = network.encode(tensors(observation.static))
            decide = partial(_chosen, network, encoding, self.temperature)
            _play(one, first, decide)
            before_ns = None
            while self.refine and ledger.best_ns != before_ns:
                before_ns = ledger.best_ns
                _play(one, _begun(one, ledger.best_strategy), decide)
            next_ones: Arrays | None = None
            while self.episodes is None or drawn < self.episodes:
                if self.refine or next_ones is None:
                    next_ones = _begun(many, ledger.best_strategy if self.refine else start)
                next_ones = _play(many, next_ones, partial(decide, rng=rng))
                drawn += self.num_envs


def _begun(env: StrategyVectorEnv, start: Strategy) -> Arrays:
    """The first observations of an episode in each environment."""
    return env.reset(options={"strategy": start})[0]


def _play(env: StrategyVectorEnv, observation: Arrays, decide: Callable[[Arrays], NDArray[np.int64]]) -> Arrays:
    """The rest of these episodes; returns the first observations of the next ones, which start alike."""
    for _ in range(env.mdp.decisions.num_steps):
        observation, *_ = env.step(decide(observation))
    return observation


def _chosen(
    network: GraphNetwork,
    encoding: Encoding,
    temperature: float,
    observation: Arrays,
    rng: np.random.Generator | None = None,
) -> NDArray[np.int64]:
    """(S,) actions; without ``rng`` the favourites."""
    logits = network(encoding, tensors(observation))[0].numpy()
    # The largest of logits with Gumbel noise is a draw from their softmax.
    noise = 0 if rng is None else temperature * rng.gumbel(size=logits.shape)
    scores = np.where(observation["action_mask"] > 0, logits + noise, -np.inf)
    chosen: NDArray[np.int64] = scores.argmax(axis=1)
    return chosen
