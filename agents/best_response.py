"""Best response: coordinate descent to a strategy that no single change improves."""

from collections.abc import Sequence

import numpy as np

from agents.agent import Agent
from agents.ledger import Ledger
from sim.problem import Problem
from sim.neighbourhood import Neighbourhood
from sim.strategies import named_strategy
from sim.strategy import Strategy
class BestResponse(Agent):
    def __init__(self, *, starts: Sequence[str], num_samples: int, seed: int) -> None:
        super().__init__(seed=seed)
        self.starts, self.num_samples = starts, num_samples

    def run(self, problem: Problem, ledger: Ledger) -> None:
        rng = np.random.default_rng(self.seed)
        near = Neighbourhood(problem, rng, num_samples=self.num_samples)
        import time
        for s in self.starts:
            simulation = ledger.simulation(named_strategy(s, problem, rng))
            clean = set(); sweep=0
            while len(clean) < len(problem.graph):
                for i in rng.permutation(len(problem.graph)).tolist():
                    if i in clean: continue
                    if ledger.scan(near.scan(simulation, [i])): clean = set()
                    clean.add(i)
                sweep+=1
                print("   sweep",sweep,"%.1f s"%ledger.seconds, ledger.simulations, "%.4f"%(problem.data_parallel_ns/simulation.cost_ns), len(clean))
