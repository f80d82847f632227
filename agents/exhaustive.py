"""Exhaustive: every strategy of a small space."""

from collections.abc import Sequence

from agents.agent import Agent
from agents.errors import AgentError
from agents.exact import described, listed_choice
from agents.ledger import Ledger
from agents.threads import run_on_threads
from sim.problem import Problem
from sim.tree import Choice, Enumeration


class Exhaustive(Agent):
    """Prices every strategy of the space, so that the best one is the optimum.

    All operators but the last walk through a reflected Gray code, so that each step changes one operator and delta
    simulation does the rest; the last one's configs are priced with the best so far as cutoff. The code is cut into
    one piece for each thread.

    It notes the space, the number of strategies, how many of them it has seen, and, if these are all, ``proof``.

    Args:
        max_strategies: a space with more is refused.
        num_threads: pieces that are searched at the same time.
        seed: of nothing.
    """

    def __init__(self, *, max_strategies: int, num_threads: int, seed: int) -> None:
        super().__init__(seed=seed)
        for name, count in (("max_strategies", max_strategies), ("num_threads", num_threads)):
            if count < 1:
                raise AgentError(f"agent.{name} must be at least 1, not {count}")
        self.max_strategies, self.num_threads = max_strategies, num_threads

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Enumerate all strategies.

        Raises:
            AgentError: there are too many.
        """
        choice = listed_choice(problem, max_configs=self.max_strategies)
        if choice.num_strategies > self.max_strategies:
            raise AgentError(
                f"the space has {described(choice)} strategies, more than agent.max_strategies={self.max_strategies}; "
                "choose agent=branch_and_bound or fewer space.dims"
            )
        ledger.note("space", f"{problem.space} on {problem.topology.num_devices} devices")
        ledger.note("strategies", choice.num_strategies)
        parts = ledger.split(self.num_threads, rounds=1)
        walks: list[Enumeration] = []
        try:
            searches = [_Search(choice, walks, (number, len(parts))) for number in range(len(parts))]
            run_on_threads(searches, parts, ledger, num_threads=self.num_threads)
        finally:
            self._note(ledger, walks, choice)

    @staticmethod
    def _note(ledger: Ledger, walks: Sequence[Enumeration], choice: Choice) -> None:
        seen = sum(walk.nodes for walk in walks)
        ledger.note("enumerated", seen)
        if seen == choice.num_strategies:
            ledger.note("proof", "optimal: all strategies were priced")
            if ledger.fits:
                ledger.note("lower_bound_ms", ledger.best_ns / 1e6)


class _Search:
    """The enumeration of one piece."""

    def __init__(self, choice: Choice, walks: list[Enumeration], part: tuple[int, int]) -> None:
        self._choice, self._walks, self._part = choice, walks, part

    def __call__(self, ledger: Ledger) -> None:
        simulation = ledger.simulation(self._choice.strategy([0] * len(self._choice.configs)))
        best = simulation.overflow_bytes, simulation.cost_ns
        walk = Enumeration(self._choice, simulation, best, simulation.configs, self._part)
        self._walks.append(walk)
        ledger.finish(walk)
