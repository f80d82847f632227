"""GuidedMcmc: MCMC whose proposals are drawn as a policy thinks best."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agents.adviser import Adviser, advised_space
from agents.agent import Agent
from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.ledger import Ledger
from agents.policy_file import open_network
from sim.chain import Chain
from sim.problem import Problem
from sim.strategy import Strategy

POLICY = "policy"


class GuidedMcmc(Agent):
    """Metropolis-Hastings over strategies with proposals from a policy.

    A proposal draws an operator uniformly, and its config from a table: a share ``uniform`` uniformly from the whole
    space, the rest by the policy's probabilities at the best strategy so far. Between two refreshes the chain
    runs compiled, and with ``hastings`` leaves the Boltzmann distribution of ``agents.mcmc`` as it is. Without, or
    seen over several refreshes, it is an optimiser.

    In a space without indices (free, injective) proposals are aligned configs only.

    Args:
        start: name of the initial strategy (``sim.strategies``), or ``policy``: the policy's choices from data
            parallelism on, operator after operator, each of which costs a simulation.
        temperature: 1 / beta, in units of the cost of data parallelism.
        policy_temperature: divides the policy's logits.
        uniform: share of the proposals that are drawn uniformly.
        refresh_every: simulations between two refreshes.
        hastings: correct the acceptance for how often configs are proposed.
        aligned_only: the policy judges the aligned configs of the space alone; the others are left to ``uniform``.
        policy: a policy file; None takes an untrained network, which knows candidates by their estimated time.
        network: untrained, made after the seed is set.
        seed: of the network's weights, proposals and acceptances.
    """

    def __init__(
        self,
        *,
        start: str,
        temperature: float,
        policy_temperature: float,
        uniform: float,
        refresh_every: int,
        hastings: bool,
        aligned_only: bool,
        policy: str | None,
        network: Callable[[], GraphNetwork],
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        for name, value in (("temperature", temperature), ("policy_temperature", policy_temperature)):
            if not value > 0:
                raise AgentError(f"agent.{name} must be positive, not {value}")
        if not 0 < uniform <= 1:
            raise AgentError(f"agent.uniform must be more than 0 and at most 1, not {uniform}")
        if refresh_every < 1:
            raise AgentError(f"agent.refresh_every must be at least 1, not {refresh_every}")
        self.start, self.temperature, self.policy_temperature = start, temperature, policy_temperature
        self.uniform, self.refresh_every, self.hastings = uniform, refresh_every, hastings
        self.aligned_only, self.policy, self._network = aligned_only, policy, network

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """One chain."""
        network = open_network(self.policy, self._network, self.seed)
        rng = np.random.default_rng(self.seed)
        adviser = Adviser(problem, network, advised_space(problem, aligned_only=self.aligned_only), ledger)
        start = ledger.start_strategy("data_parallel" if self.start == POLICY else self.start, rng)
        simulation = ledger.simulation(adviser.rollout(start) if self.start == POLICY else start)
        space = problem.space if problem.space.is_enumerable else adviser.space
        chain = Chain(simulation, rng, temperature_ns=self.temperature * problem.data_parallel_ns, space=space)
        while True:
            best = ledger.simulation(Strategy(problem.graph, problem.topology, chain.best_configs))
            logits = adviser.logits(best)
            chain.draw_from([self._mixed(one) for one in adviser.spread(logits, space)], hastings=self.hastings)
            left = self.refresh_every
            while left > 0:
                left -= ledger.walk(chain, left).simulations

    def _mixed(self, logits: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities of an operator's configs."""
        weights = np.exp((logits - logits.max()) / self.policy_temperature)
        return (1 - self.uniform) * weights / weights.sum() + self.uniform / len(logits)
