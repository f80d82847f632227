"""Budget and what has been spent of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agents.errors import IllegalBudgetError
from sim.strategy import ParallelConfig


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend; it ends with whatever is spent first.

    Attributes:
        simulations: strategies priced, or None for any number.
        seconds: wall-clock time, or None for any time.

    Raises:
        IllegalBudgetError: neither is given, or one is not positive.
    """

    simulations: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.simulations is None and self.seconds is None:
            raise IllegalBudgetError("simulations", None, "give simulations, seconds or both")
        if self.simulations is not None and not (isinstance(self.simulations, int) and self.simulations >= 1):
            raise IllegalBudgetError("simulations", self.simulations, "it must be a whole number, at least 1")
        if self.seconds is not None and not self.seconds > 0:
            raise IllegalBudgetError("seconds", self.seconds, "it must be positive")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a search is.

    Attributes:
        simulations: strategies priced so far, those cut off included.
        cutoffs: how many of them were cut off.
        seconds: since the search began.
        best_ns: cost of the best strategy so far.
        data_parallel_ns: cost of data parallelism.
        fits_memory: whether the best strategy fits.
        budget: what may be spent.
        stage: what the search does if it does not price strategies.
        best_configs: of the best strategy so far.
    """

    simulations: int
    cutoffs: int
    seconds: float
    best_ns: int
    data_parallel_ns: int
    fits_memory: bool
    budget: Budget
    stage: str = ""
    best_configs: Sequence[ParallelConfig] = ()

    @property
    def fraction(self) -> float:
        """Share of the budget that is spent, 0 to 1."""
        shares = [0.0]
        if self.budget.simulations is not None:
            shares.append(self.simulations / self.budget.simulations)
        if self.budget.seconds is not None:
            shares.append(self.seconds / self.budget.seconds)
        return min(1.0, max(shares))
