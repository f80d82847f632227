"""Agent: what every searcher is, and what it returns."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from agents.budget import Budget, Progress
from agents.curve_point import CurvePoint
from agents.ledger import BudgetExhausted, Earlier, Ledger, Note, Report
from sim.problem import Problem
from sim.strategy import Strategy


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search found and spent.

    Attributes:
        strategy: the best strategy that was priced.
        cost_ns: its iteration time, priced again by full simulation.
        fits_memory: whether every device has the memory that it needs.
        simulations: strategies priced, those cut off included.
        cutoffs: how many of them were cut off.
        seconds: wall-clock time of the search.
        curve: the improvements, in order; the last point is the end of the search.
        is_interrupted: the user stopped the search.
        is_one_opt: the strategy is proven to be 1-opt: the agent priced all strategies that differ in the config of one
            operator, and none is better.
        notes: what the search found out beside the strategy (an objective of its own, a bound, ...).
    """

    strategy: Strategy
    cost_ns: int
    fits_memory: bool
    simulations: int
    cutoffs: int
    seconds: float
    curve: tuple[CurvePoint, ...]
    is_interrupted: bool
    is_one_opt: bool
    notes: Mapping[str, Note]


def _say_nothing(progress: Progress) -> None:
    """The default report."""


class Agent(ABC):
    """Searches the space of a problem for a strategy of low cost.

    Subclasses take keyword-only options, among them the seed, and implement ``run``. With a budget of simulations,
    the same seed finds the same strategy on any machine.

    Args:
        seed: of everything random.
    """

    is_anytime: ClassVar[bool] = True
    """Whether a search with a smaller budget is the beginning of one with a larger; not if the budget is divided."""

    draws_globally: ClassVar[bool] = False
    """Whether it draws from the process's own random numbers, so that two at the same time disturb each other."""

    def __init__(self, *, seed: int) -> None:
        self.seed = seed

    @abstractmethod
    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Search until done or until the ledger raises ``BudgetExhausted``; price through ``ledger.simulation``."""

    def search(
        self, problem: Problem, budget: Budget, report: Report = _say_nothing, earlier: Earlier | None = None
    ) -> SearchResult:
        """Search within a budget; Ctrl-C ends the search with the best strategy so far.

        Args:
            problem: what to solve.
            budget: what may be spent.
            report: is told the progress several times a second.
            earlier: a search to go on from: agents with a start begin at its best strategy, the others from nothing,
                and what it spent is charged to the budget. Give the agent another seed, or it tries the same again.
        """
        ledger = Ledger(problem, budget, report, earlier)
        is_interrupted = False
        try:
            self.run(problem, ledger)
        except BudgetExhausted:
            pass
        except KeyboardInterrupt:
            is_interrupted = True
        seconds, strategy = ledger.seconds, ledger.best_strategy
        report(ledger.progress())
        final = problem.simulation(strategy)
        return SearchResult(
            strategy=strategy,
            cost_ns=final.cost_ns,
            fits_memory=final.overflow_bytes == 0,
            simulations=ledger.simulations,
            cutoffs=ledger.cutoffs,
            seconds=seconds,
            curve=(*ledger.curve, CurvePoint(ledger.simulations, seconds, final.cost_ns / 1e6)),
            is_interrupted=is_interrupted,
            is_one_opt=ledger.is_one_opt,
            notes=ledger.notes,
        )
