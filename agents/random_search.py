"""Random search: the baseline that every searcher has to beat."""

import numpy as np

from agents.agent import Agent
from agents.ledger import Ledger
from sim.draws import Draws
from sim.problem import Problem


class RandomSearch(Agent):
    """Prices strategies drawn from the space, each operator's config independently; keeps the best.

    Args:
        seed: of the draws.
    """

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Draw until the budget is spent."""
        rng = np.random.default_rng(self.seed)
        draws = Draws(ledger.simulation(problem.space.sample_strategy(rng)), rng)
        while True:
            ledger.draw(draws)
