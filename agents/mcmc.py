"""MCMC: FlexFlow's execution optimizer."""

import math
from collections.abc import Sequence

import numpy as np

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import Ledger
from sim.problem import Problem
from sim.strategies import named_strategy


class Mcmc(Agent):
    """Markov chain Monte Carlo over strategies, by Metropolis-Hastings.

    Paper: Jia, Zaharia, Aiken, "Beyond Data and Model Parallelism for Deep Neural Networks", SysML 2019, section 6.

    A proposal replaces the config of one random operator by a random one; it is accepted with probability
    min(1, exp(beta (cost - cost*))). The uniform number is drawn first, so that pricing may stop as soon as the
    proposal is sure to be rejected; the chain is the same as without.

    Deviations: beta is relative to the cost of data parallelism, so that one number serves every model; a proposal
    that needs more memory beyond what the devices have is rejected, one that needs less is accepted.

    Args:
        starts: names of the initial strategies (``sim.strategies``); each gets an equal share of what is left of the
            budget.
        temperature: 1 / beta, in units of the cost of data parallelism.
        patience: a start ends when its best has not improved for this share of its budget (the paper: one half).
        seed: of proposals, acceptances and random starts.
    """

    def __init__(self, *, starts: Sequence[str], temperature: float, patience: float, seed: int) -> None:
        super().__init__(seed=seed)
        if not starts:
            raise AgentError("agent.starts must name at least one strategy")
        if not temperature > 0:
            raise AgentError(f"agent.temperature must be positive, not {temperature}")
        if not 0 < patience <= 1:
            raise AgentError(f"agent.patience must be more than 0 and at most 1, not {patience}")
        self.starts, self.temperature, self.patience = tuple(starts), temperature, patience

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """One chain from each start."""
        rng = np.random.default_rng(self.seed)
        for number, name in enumerate(self.starts):
            spent = ledger.progress().fraction
            share = (1 - spent) / (len(self.starts) - number)
            self._run_chain(problem, ledger, name, rng, spent, share)

    def _run_chain(
        self, problem: Problem, ledger: Ledger, start: str, rng: np.random.Generator, spent: float, share: float
    ) -> None:
        """A chain that may spend ``share`` of the whole budget beyond the ``spent`` fraction."""
        simulation = ledger.simulation(named_strategy(start, problem, rng))
        scale = self.temperature * problem.data_parallel_ns
        cost, overflow = simulation.cost_ns, simulation.overflow_bytes
        best, improved_at = (overflow, cost), spent
        while (now := ledger.progress().fraction) < spent + share and now - improved_at < self.patience * share:
            operator = int(rng.integers(len(problem.graph)))
            config = problem.space.sample(operator, rng)
            highest = cost + math.floor(-math.log(1.0 - rng.random()) * scale)
            proposal = simulation.propose(operator, config, highest if overflow == 0 else None)
            is_smaller = proposal.overflow_bytes < overflow
            if is_smaller or (proposal.overflow_bytes == overflow and proposal.cost_ns <= highest):
                simulation.accept()
                cost, overflow = proposal.cost_ns, proposal.overflow_bytes
                if (overflow, cost) < best:
                    best, improved_at = (overflow, cost), now
            else:
                simulation.reject()
