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
from sim.strategy import ParallelConfig

CONTINUE_PROPAGATION = 0.75
"""Chance that a copied config goes on to one more operator."""


class Mcmc(Agent):
    """Markov chain Monte Carlo over strategies, by Metropolis-Hastings.

    Paper: Jia, Zaharia, Aiken, "Beyond Data and Model Parallelism for Deep Neural Networks", SysML 2019, section 6.

    A proposal replaces the config of one random operator by a random one; it is accepted with probability
    min(1, exp(beta (cost - cost*))). The uniform number is drawn first, so that pricing may stop as soon as the
    proposal is sure to be rejected; the chain is the same as without. It runs compiled (``sim.chain``).

    Deviations: beta is relative to the cost of data parallelism, so that one number serves every model; a proposal
    that needs more memory beyond what the devices have is rejected, one that needs less is accepted.

    FlexFlow's later code (release 22.07) has two more things, off unless asked for: it returns to the best strategy now
    and then, and some proposals copy an operator's config to others along the graph's edges. Such proposals are not
    symmetric, so the chain's stationary distribution is no longer the Boltzmann distribution.

    Args:
        starts: names of the initial strategies (``sim.strategies``); each gets an equal share of what is left of the
            budget.
        temperature: 1 / beta, in units of the cost of data parallelism.
        patience: a start ends when its best has not improved for this share of its budget (the paper: one half).
        reset_every: proposals after which the chain returns to its best strategy, which is priced again; None: never.
        propagation: share of the proposals that copy an operator's config along a random walk over edges, as long as
            it is legal there.
        seed: of proposals, acceptances and random starts.
    """

    is_anytime = False  # starts divide the budget, and patience is a share of it

    def __init__(
        self,
        *,
        starts: Sequence[str],
        temperature: float,
        patience: float,
        reset_every: int | None,
        propagation: float,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        if not starts:
            raise AgentError("agent.starts must name at least one strategy")
        if not temperature > 0:
            raise AgentError(f"agent.temperature must be positive, not {temperature}")
        if not 0 < patience <= 1:
            raise AgentError(f"agent.patience must be more than 0 and at most 1, not {patience}")
        if reset_every is not None and reset_every < 1:
            raise AgentError(f"agent.reset_every must be at least 1, not {reset_every}")
        if not 0 <= propagation < 1:
            raise AgentError(f"agent.propagation must be at least 0 and less than 1, not {propagation}")
        self.starts, self.temperature, self.patience = tuple(starts), temperature, patience
        self.reset_every, self.propagation = reset_every, propagation

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
        ends_after = sys.maxsize if simulations is None else ledger.simulations + simulations
        patience = sys.maxsize if simulations is None else math.ceil(self.patience * simulations)
        simulation = ledger.simulation(ledger.start_strategy(start, rng))
        chain = Chain(simulation, rng, temperature_ns=self.temperature * problem.data_parallel_ns)
        improved_at = ledger.seconds
        until_reset = self.reset_every or sys.maxsize
        until_copy = self._steps_to_copy(rng)
        while ledger.simulations < ends_after and chain.idle < patience:
            is_better = False
            if until_copy == 0:
                until_copy = self._steps_to_copy(rng)
                changes = self._copies(chain, rng)
                if changes:
                    is_better = chain.offer(changes)
                    until_reset -= 1
            elif until_reset <= 0:
                until_reset = self.reset_every or sys.maxsize
                chain.return_to_best()
            else:
                left = min(ends_after - ledger.simulations, until_copy, until_reset)
                steps = ledger.walk(chain, left, patience)
                is_better = bool(steps.improvements)
                until_copy, until_reset = until_copy - steps.simulations, until_reset - steps.simulations
            if is_better:
                improved_at = ledger.seconds
            if ledger.seconds >= ends_at or ledger.seconds - improved_at >= longest_wait:
                break

    def _steps_to_copy(self, rng: np.random.Generator) -> int:
        """Ordinary proposals before the next one that copies."""
        return int(rng.geometric(self.propagation)) - 1 if self.propagation > 0 else sys.maxsize

    @staticmethod
    def _copies(chain: Chain, rng: np.random.Generator) -> dict[int, ParallelConfig]:
        """The config of a random operator, for those on a random walk from it; none if it is illegal at once."""
        problem = chain.simulation.problem
        graph, space = problem.graph, problem.space
        operator = int(rng.integers(len(graph)))
        config = chain.simulation.config(operator)
        changes: dict[int, ParallelConfig] = {}
        while True:
            neighbours = [e.dst if e.src == operator else e.src for e in graph.edges if operator in (e.src, e.dst)]
            if not neighbours:
                return changes
            operator = neighbours[int(rng.integers(len(neighbours)))]
            if not space.has(operator, config):
                return changes
            changes[operator] = config
            if rng.random() >= CONTINUE_PROPAGATION:
                return changes
