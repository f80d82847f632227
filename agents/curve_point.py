"""CurvePoint: one improvement of a search."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The best cost after so many simulations and seconds."""

    simulations: int
    seconds: float
    best_ms: float
