"""Best response: coordinate descent to strategies that no single change improves."""

from collections.abc import Sequence

import numpy as np

from agents.agent import Agent
from agents.descent import descend
from agents.errors import AgentError
from agents.ledger import Ledger
from agents.players import Players
from sim.neighbourhood import Neighbourhood
from sim.problem import Problem
from sim.strategy import Strategy


class BestResponse(Agent):
    """Gives one operator after the other its best config, all others fixed, until nothing improves.

    All configs of an operator are priced, each with the best so far as cutoff, without leaving compiled code
    (``sim.neighbourhood``). A strategy is 1-opt when a whole sweep over the operators found nothing better. The search
    then goes on from its best strategy with a share of the configs drawn anew.

    In a space whose configs have no indices an operator's best response is the best of a sample, and nothing is
    certified.

    Args:
        starts: names of the first initial strategies (``sim.strategies``).
        has_weight_groups: whether operators that share weights are also one more player together, all with the same
            config; they come first in each sweep.
        perturbation: share of the players whose configs are drawn anew for the next descent; 1 is a random restart.
        num_samples: configs that stand for all where these have no indices.
        seed: of orders, perturbations and samples.
    """

    def __init__(
        self, *, starts: Sequence[str], has_weight_groups: bool, perturbation: float, num_samples: int, seed: int
    ) -> None:
        super().__init__(seed=seed)
        if not starts:
            raise AgentError("agent.starts must name at least one strategy")
        if not 0 < perturbation <= 1:
            raise AgentError(f"agent.perturbation must be more than 0 and at most 1, not {perturbation}")
        if num_samples < 1:
            raise AgentError(f"agent.num_samples must be at least 1, not {num_samples}")
        self.starts, self.has_weight_groups = tuple(starts), has_weight_groups
        self.perturbation, self.num_samples = perturbation, num_samples

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """One descent after the other."""
        rng = np.random.default_rng(self.seed)
        near = Neighbourhood(problem, rng, num_samples=self.num_samples)
        players = Players(problem)
        groups = players.groups if self.has_weight_groups else []
        starts = iter(self.starts)
        while True:
            name = next(starts, None)
            strategy = ledger.start_strategy(name, rng) if name else self._perturbed(ledger, players, rng)
            simulation = ledger.simulation(strategy)
            descend(ledger, near, simulation, rng, groups, players.operators)
            if near.is_complete:
                ledger.certify_one_opt(simulation.configs)

    def _perturbed(self, ledger: Ledger, players: Players, rng: np.random.Generator) -> Strategy:
        """The best strategy, with some configs drawn anew."""
        strategy = ledger.best_strategy
        configs = list(strategy.configs)
        pool = players.grouped if self.has_weight_groups else players.operators
        count = max(1, round(self.perturbation * len(pool)))
        for number in rng.permutation(len(pool))[:count].tolist():
            for operator, config in players.drawn(pool[number], rng).items():
                configs[operator] = config
        return Strategy(strategy.graph, strategy.topology, configs)
