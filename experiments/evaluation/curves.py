"""Curves: what a finished search had found after so many simulations, or seconds."""

from dataclasses import astuple
from typing import Literal, TypeAlias

import numpy as np

from experiments.archive import FinishedSearch
from experiments.comparison.bands import Floats

Unit: TypeAlias = Literal["simulations", "seconds"]

UNITS: tuple[Unit, ...] = ("simulations", "seconds")


def speedups(search: FinishedSearch, unit: Unit, at: Floats) -> Floats:
    """Speed-up over data parallelism of the best strategy so far.

    A search has data parallelism before it has priced anything, and 0 as long as its best exceeds a device's memory:
    where the cost rises, and that is where the memory needed falls, nothing before did fit.

    Args:
        search: finished.
        unit: of ``at``.
        at: (points,) what was spent.

    Returns:
        (points,) speed-ups.
    """
    if not search.record["fits_memory"]:
        return np.zeros(len(at))
    simulations, seconds, best_ms = np.array([astuple(point) for point in search.curve], np.float64).T
    spent = simulations if unit == "simulations" else seconds
    rises = np.flatnonzero(np.diff(best_ms) > 0)
    fits_from = rises[-1] + 1 if len(rises) else 0
    last = np.searchsorted(spent, at, side="right") - 1
    found = np.where(last < fits_from, 0.0, search.record["data_parallel_ms"] / best_ms[np.maximum(last, 0)])
    return np.where(last < 0, 1.0, found)
