"""MCMC: FlexFlow's execution optimizer."""

import math
import sys
from collections.abc import Sequence

import numpy as np

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import Ledger
from sim.chain import Chain
from sim.problem import Problem
from sim.strategies import named_strategy


class Mcmc(Agent):
    """Markov chain Monte Carlo over strategies, by Metropolis-Hastings.

    Paper: Jia, Zaharia, Aiken, "Beyond Data and Model Parallelism for Deep Neural Networks", SysML 2019, section 6.

    A proposal replaces the config of one random operator by a random one; it is accepted with probability
    min(1, exp(beta (cost - cost*))). The uniform number is drawn first, so that pricing may stop as soon as the
    proposal is sure to be rejected; the chain is the same as without. It runs compiled (``sim.chain``).

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
            simulations, seconds = ledger.share(len(self.starts) - number)
            self._run_chain(problem, ledger, name, rng, simulations, seconds)

    def _run_chain(
        self,
        problem: Problem,
        ledger: Ledger,
        start: str,
        rng: np.random.Generator,
        simulations: int | None,
        seconds: float | None,
    ) -> None:
        """A chain that may price so many strategies, its start included, and take so many seconds."""
        ends_at = math.inf if seconds is None else ledger.seconds + seconds
        longest_wait = math.inf if seconds is None else self.patience * seconds
        left = sys.maxsize if simulations is None else simulations - 1
        patience = sys.maxsize if simulations is None else math.ceil(self.patience * simulations)
        simulation = ledger.simulation(named_strategy(start, problem, rng))
        chain = Chain(simulation, rng, temperature_ns=self.temperature * problem.data_parallel_ns)
        improved_at = ledger.seconds
        while left > 0 and chain.idle < patience:
            steps = ledger.walk(chain, left, patience)
            left -= steps.simulations
            if steps.improvements:
                improved_at = ledger.seconds
            if ledger.seconds >= ends_at or ledger.seconds - improved_at >= longest_wait:
                break
