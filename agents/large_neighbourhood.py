"""Large neighbourhood search: a connected part of the strategy is destroyed and repaired, again and again."""

import numpy as np

from agents.agent import Agent
from agents.descent import descend
from agents.errors import AgentError
from agents.ledger import Ledger
from agents.players import Player, Players
from sim.critical_path import critical_operators
from sim.neighbourhood import Neighbourhood
from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategy import ParallelConfig

MAX_LIMIT_NS = 2.0**62
"""Whatever the slack, the compiled code's integers hold it."""


class LargeNeighbourhood(Agent):
    """Large neighbourhood search with best responses as repair.

    Paper: Shaw, "Using Constraint Programming and Local Search Methods to Solve Vehicle Routing Problems", CP 1998.

    The search starts with a descent (``agents.descent``) in which operators that share weights move together, and one
    best response of each of them alone. Then each step chooses a connected set of players: operators, or groups of
    operators that share weights. In half of the steps all of them take the same config, the best one. In the others
    some are destroyed, that is, get random configs, and the rest answers with best responses, then all of them. Both
    only look at strategies below a limit, so that most pricings stop early. A result is accepted if it is not worse
    than the best by more than a threshold.

    Args:
        start: name of the initial strategy (``sim.strategies``).
        size: players in a set, at most.
        critical: share of the sets that grow from an operator on the critical path; the others grow from any.
        grouped: share of the sets whose players are groups; the others have single operators.
        slack: the limit of the first answers, relative to the best cost and above it.
        threshold: the same for the result.
        num_samples: configs that stand for all where these have no indices.
        seed: of everything drawn.
    """

    def __init__(
        self,
        *,
        start: str,
        size: int,
        critical: float,
        grouped: float,
        slack: float,
        threshold: float,
        num_samples: int,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        if size < 1:
            raise AgentError(f"agent.size must be at least 1, not {size}")
        for name, share in (("critical", critical), ("grouped", grouped)):
            if not 0 <= share <= 1:
                raise AgentError(f"agent.{name} must be between 0 and 1, not {share}")
        if not slack >= threshold >= 0:
            raise AgentError(f"agent.slack={slack} must be at least agent.threshold={threshold}, and both not negative")
        if num_samples < 1:
            raise AgentError(f"agent.num_samples must be at least 1, not {num_samples}")
        self.start, self.size, self.critical, self.grouped = start, size, critical, grouped
        self.slack, self.threshold, self.num_samples = slack, threshold, num_samples

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Descend, then destroy and repair."""
        rng = np.random.default_rng(self.seed)
        near = Neighbourhood(problem, rng, num_samples=self.num_samples)
        players = Players(problem)
        current: Simulation = ledger.simulation(ledger.start_strategy(self.start, rng))
        descend(ledger, near, current, rng, players.grouped)
        for operator in (member for group in players.groups for member in group):
            ledger.scan(near.scan(current, (operator,)))
        self.destroy_and_repair(ledger, near, current, players, rng)

    def destroy_and_repair(
        self, ledger: Ledger, near: Neighbourhood, current: Simulation, players: Players, rng: np.random.Generator
    ) -> None:
        """Go on from a local optimum.

        Raises:
            BudgetExhausted: nothing is left.
        """
        while True:
            trial = current.fork()
            chosen = self._choose(players, current, rng)
            if len(chosen) == 1 or rng.random() < 0.5:
                # A set without a common config has no candidates: nothing is priced.
                together = tuple(operator for player in chosen for operator in player)
                ledger.scan(near.scan(trial, together, self._limit_ns(ledger, self.threshold)))
            else:
                self._repair(ledger, near, trial, chosen, players, rng)
            if (trial.overflow_bytes, trial.cost_ns) <= (
                current.overflow_bytes,
                self._limit_ns(ledger, self.threshold),
            ):
                current = trial

    def _choose(self, players: Players, simulation: Simulation, rng: np.random.Generator) -> list[Player]:
        """A connected set of players, in random order."""
        first = int(rng.integers(len(players.problem.graph)))
        if rng.random() < self.critical:
            critical = critical_operators(simulation)
            first = critical[int(rng.integers(len(critical)))]
        count = int(rng.integers(1, self.size + 1))
        return players.grow(first, count, rng, is_grouped=rng.random() < self.grouped)

    def _repair(
        self,
        ledger: Ledger,
        near: Neighbourhood,
        trial: Simulation,
        chosen: list[Player],
        players: Players,
        rng: np.random.Generator,
    ) -> None:
        """Some of the players get random configs, the rest answers, then all do."""
        split = int(rng.integers(1, len(chosen)))
        changes: dict[int, ParallelConfig] = {}
        for player in chosen[:split]:
            changes |= players.drawn(player, rng)
        trial.propose_together(changes)
        trial.accept()
        limit_ns = self._limit_ns(ledger, self.slack)
        has_answer = False
        for player in chosen[split:]:
            has_answer |= ledger.scan(near.scan(trial, player, limit_ns))
        if has_answer:
            descend(ledger, near, trial, rng, chosen)

    @staticmethod
    def _limit_ns(ledger: Ledger, slack: float) -> int:
        return int(min(ledger.best_ns * (1 + slack), MAX_LIMIT_NS))
