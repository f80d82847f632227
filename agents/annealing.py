"""Annealing: a Metropolis chain that cools down."""

import math
import sys

import numpy as np

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import Ledger
from sim.chain import Chain
from sim.problem import Problem


class Annealing(Agent):
    """Simulated annealing with a geometric schedule.

    Paper: Kirkpatrick, Gelatt, Vecchi, "Optimization by Simulated Annealing", Science 220, 1983.

    The proposals are those of MCMC, and the same compiled chain makes them (``sim.chain``). The temperature falls in
    equal ratios from stage to stage, each of which has an equal share of the budget.

    Args:
        start: name of the initial strategy (``sim.strategies``).
        hottest: temperature of the first stage, in units of the cost of data parallelism.
        coldest: that of the last stage.
        stages: how many there are; no more than the budget has simulations.
        seed: of proposals, acceptances and a random start.
    """

    is_anytime = False  # stages divide the budget

    def __init__(self, *, start: str, hottest: float, coldest: float, stages: int, seed: int) -> None:
        super().__init__(seed=seed)
        if not hottest >= coldest > 0:
            raise AgentError(f"agent.hottest={hottest} must be at least agent.coldest={coldest}, and both positive")
        if stages < 1:
            raise AgentError(f"agent.stages must be at least 1, not {stages}")
        self.start, self.hottest, self.coldest, self.stages = start, hottest, coldest, stages

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """One walk, stage by stage."""
        rng = np.random.default_rng(self.seed)
        simulation = ledger.simulation(ledger.start_strategy(self.start, rng))
        chain = Chain(simulation, rng, temperature_ns=self.hottest * problem.data_parallel_ns)
        most = ledger.share(1)[0]
        stages = self.stages if most is None else min(self.stages, most)
        for stage in range(stages):
            chain.temperature_ns = self.temperature(stage, stages) * problem.data_parallel_ns
            simulations, seconds = ledger.share(stages - stage)
            left = sys.maxsize if simulations is None else simulations
            ends_at = math.inf if seconds is None else ledger.seconds + seconds
            while left > 0 and ledger.seconds < ends_at:
                left -= ledger.walk(chain, left).simulations

    def temperature(self, stage: int, stages: int) -> float:
        """Of one of so many stages, in units of the cost of data parallelism."""
        return self.hottest * (self.coldest / self.hottest) ** (stage / max(1, stages - 1))
