"""Baseline: a strategy that a person would write by hand, as an agent."""

import numpy as np

from agents.agent import Agent
from agents.ledger import Ledger
from sim.problem import Problem
from sim.strategies import named_strategy


class Baseline(Agent):
    """Prices one named strategy and stops.

    Args:
        strategy: its name (``sim.strategies``).
        seed: of a strategy that is drawn.

    Raises:
        IllegalConfigError: the space of the problem does not have the strategy (when it is searched).
    """

    def __init__(self, *, strategy: str, seed: int) -> None:
        super().__init__(seed=seed)
        self.strategy = strategy

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """One pricing."""
        strategy = named_strategy(self.strategy, problem, np.random.default_rng(self.seed))
        for operator, config in enumerate(strategy.configs):
            problem.space.check(operator, config)
        ledger.simulation(strategy)
