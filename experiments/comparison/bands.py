"""Curves and figures over seeds with stratified bootstrap intervals, computed for many points at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from agents.curve_point import CurvePoint
from experiments.seed_statistics import CONFIDENCE, NUM_RESAMPLES, probability_of_improvement

Floats: TypeAlias = NDArray[np.float64]

NUM_POINTS = 60
"""Of a curve at most; they are drawn over at most half a page."""

TRIMMED = 0.25


@dataclass(frozen=True, slots=True)
class Band:
    """A curve with its interval; the interval is None where there is one run alone.

    Attributes:
        x: (points,) positions.
        y: (points,) interquartile means, or shares.
        low: (points,) lower ends.
        high: (points,) upper ends.
    """

    x: Floats
    y: Floats
    low: Floats | None
    high: Floats | None


def best_so_far(curves: Sequence[Sequence[CurvePoint]], axis: str, rng: np.random.Generator) -> Band:
    """Interquartile mean of the best cost, ms, against what was spent.

    It begins where the last search has priced its first strategy; searches that ended keep what they found.

    Args:
        curves: of the runs.
        axis: ``simulations`` or ``seconds``.
        rng: draws seeds again.
    """
    spent = [np.array([float(getattr(point, axis)) for point in curve]) for curve in curves]
    costs = [np.array([point.best_ms for point in curve]) for curve in curves]
    begin, end = max(float(x[0]) for x in spent), max(float(x[-1]) for x in spent)
    x = np.unique(np.concatenate(spent))
    x = x[(x >= begin) & (x <= end)]
    if len(x) > NUM_POINTS:
        x = np.unique(np.geomspace(max(begin, 1e-3), end, NUM_POINTS))
        x[-1] = end  # not a rounding error before it
        if axis == "simulations":
            x = np.unique(np.floor(x))
    heights = np.stack(
        [y[np.maximum(np.searchsorted(s, x, side="right") - 1, 0)] for s, y in zip(spent, costs, strict=True)]
    )
    return Band(x, *interquartile_means([heights], rng))


def interquartile_means(
    tasks: Sequence[Floats], rng: np.random.Generator
) -> tuple[Floats, Floats | None, Floats | None]:
    """Interquartile means over the runs of all tasks, and their intervals.

    The same as ``experiments.seed_statistics`` gives, for many points at once.

    Args:
        tasks: (runs, points) scores of each task.
        rng: draws seeds again within each task.

    Returns:
        (points,) means and the ends of their intervals.
    """
    drawn = np.concatenate([task[_drawn(len(task), rng)] for task in tasks], axis=1)
    means = stats.trim_mean(np.concatenate(tasks), TRIMMED, axis=0)
    return means, *_interval(stats.trim_mean(drawn, TRIMMED, axis=1), max(map(len, tasks)))


def improvement(
    first: Sequence[Floats], second: Sequence[Floats], rng: np.random.Generator
) -> tuple[float, float | None, float | None]:
    """Probability of improvement (``experiments.seed_statistics``) and its interval.

    Args:
        first: scores of the runs of each task; more is better.
        second: the same of whom they are compared with.
        rng: draws the seeds of both again, independently, within each task.
    """
    chances = []
    for ours, theirs in zip(first, second, strict=True):
        wins = (np.sign(np.subtract.outer(ours, theirs)) + 1) / 2
        rows, columns = _drawn(len(ours), rng), _drawn(len(theirs), rng)
        chances.append(wins[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2)))
    low, high = _interval(np.mean(chances, axis=0)[:, None], max(map(len, [*first, *second])))
    ends = (None, None) if low is None or high is None else (float(low[0]), float(high[0]))
    return probability_of_improvement(first, second), *ends


def performance_profile(tasks: Sequence[Floats], at: Floats, rng: np.random.Generator) -> Band:
    """Share of the runs whose score is at least so much, mean over tasks (Agarwal et al., NeurIPS 2021).

    Args:
        tasks: scores of the runs of each task.
        at: (points,) scores.
        rng: draws seeds again within each task.
    """
    reached = [scores[:, None] >= at for scores in tasks]
    resampled = np.mean([task[_drawn(len(task), rng)].mean(axis=1) for task in reached], axis=0)
    low, high = _interval(resampled, max(map(len, tasks)))
    return Band(at, np.mean([task.mean(axis=0) for task in reached], axis=0), low, high)


def interval_columns(name: str, value: float, low: float | None, high: float | None) -> dict[str, float | None]:
    """A figure and the ends of its interval as columns of a table."""
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def mean_columns(name: str, tasks: Sequence[Floats], rng: np.random.Generator) -> dict[str, float | None]:
    """The same of the interquartile mean of (runs, 1) scores of each task; see ``interquartile_means``."""
    means, *ends = interquartile_means(tasks, rng)
    return interval_columns(name, float(means[0]), *(None if end is None else float(end[0]) for end in ends))


def _drawn(num_runs: int, rng: np.random.Generator) -> NDArray[Any]:
    """(resamples, runs) numbers of runs."""
    return rng.integers(num_runs, size=(NUM_RESAMPLES, num_runs))


def _interval(resampled: Floats, num_runs: int) -> tuple[Floats | None, Floats | None]:
    """Pointwise percentiles over (resamples, points)."""
    if num_runs < 2:
        return None, None
    low, high = np.quantile(resampled, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return low, high
