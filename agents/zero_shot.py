"""ZeroShot: a policy decides on a problem that it has never seen, and learns nothing."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from agents.agent import Agent
from agents.errors import AgentError
from agents.graph_network import Encoding, GraphNetwork
from agents.ledger import Ledger
from agents.policy_file import load_policy
from agents.torch_threads import torch_threads
from envs.arguments import make_mdp
from envs.config_table import Floats
from envs.decisions import Visit
from envs.observation import GraphObservation
from envs.vector import StrategyVectorEnv
from sim.problem import Problem
from sim.space import SoapSpace


class ZeroShot(Agent):
    """Lets a policy decide in Soap-v0, first always for its favourite config, then for what it draws.

    Every state that an episode passes through is a strategy, and the best of them is the result.

    Args:
        policy: a file that ``experiments/pretrain.py`` wrote; None takes ``network`` as it is before training, which
            with a ``prior`` is greedy in the estimated time of the candidates.
        network: used only where there is no file.
        episodes: that are drawn, after the first, rounded up to a multiple of ``num_envs``; None goes on until the
            budget is spent.
        num_envs: of these at a time.
        aligned_only: see ``ActorCritic``.
        num_threads: of the environment and of torch; 1 gives equal results on any number of cores.
        seed: of the draws.
    """

    def __init__(
        self,
        *,
        policy: str | None,
        network: Callable[[], GraphNetwork],
        episodes: int | None,
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
        self._policy, self._network, self.episodes = policy, network, episodes
        self.num_envs, self.aligned_only, self.num_threads = num_envs, aligned_only, num_threads

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Decide until all episodes are over or the ledger ends it."""
        space = problem.space
        if self.aligned_only:
            space = SoapSpace(problem.graph, problem.topology, variant="aligned", dims=space.dims)
        mdp = make_mdp(Visit, {"problem": problem, "space": space, "meter": ledger})
        observation = GraphObservation(mdp, has_static=False)
        one, many = (
            StrategyVectorEnv(mdp, lambda _: observation, num_envs=count, num_threads=self.num_threads)
            for count in (1, self.num_envs)
        )
        with torch_threads(self.num_threads), torch.no_grad():
            torch.manual_seed(self.seed)
            network = load_policy(self._policy) if self._policy else self._network()
            encoding = network.encode({name: torch.as_tensor(array) for name, array in observation.static.items()})
            _play(network, encoding, one, None)
            rng, drawn = np.random.default_rng(self.seed), 0
            while self.episodes is None or drawn < self.episodes:
                _play(network, encoding, many, rng)
                drawn += self.num_envs


def _play(network: GraphNetwork, encoding: Encoding, env: StrategyVectorEnv, rng: np.random.Generator | None) -> None:
    """One episode in each environment; without ``rng`` the favourite is taken."""
    observation, _ = env.reset()
    for _ in range(env.mdp.decisions.num_steps):
        observation, *_ = env.step(_chosen(network, encoding, observation, rng))


def _chosen(
    network: GraphNetwork, encoding: Encoding, observation: dict[str, Floats], rng: np.random.Generator | None
) -> NDArray[np.int64]:
    """(S,) actions."""
    logits = network(encoding, {name: torch.as_tensor(array) for name, array in observation.items()})[0].numpy()
    # The largest of logits with Gumbel noise is a draw from their softmax.
    noise = 0 if rng is None else rng.gumbel(size=logits.shape)
    chosen: NDArray[np.int64] = (logits + noise).argmax(axis=1)
    return chosen
