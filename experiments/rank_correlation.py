"""rank_correlation: Kendall's tau and Spearman's rho of simulated against measured times, with bootstrap intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE = 0.95
NUM_RESAMPLES = 2000

Interval: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Statistic:
    """A statistic over strategies.

    Attributes:
        value: of all of them; None where it is not defined: fewer than two differ.
        interval: from the lower to the upper 2.5 % of its values when strategies are drawn again; None likewise.
    """

    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """How well simulated times order strategies as measured ones do.

    Attributes:
        kendall: tau-b over all pairs.
        spearman: rho.
        kendall_beyond_noise: tau over the pairs whose measured intervals do not overlap.
        num_pairs: all of them.
        num_pairs_beyond_noise: those of ``kendall_beyond_noise``.
    """

    kendall: Statistic
    spearman: Statistic
    kendall_beyond_noise: Statistic
    num_pairs: int
    num_pairs_beyond_noise: int


def median_interval(times: Sequence[float]) -> Interval:
    """Where the median lies with 95 % confidence, from the order of the times alone; all of them if they are few."""
    found = stats.quantile_test(times, q=float(np.median(times)), p=0.5).confidence_interval(CONFIDENCE)
    low, high = float(found.low), float(found.high)
    return (min(times) if np.isnan(low) else low, max(times) if np.isnan(high) else high)


def rank_correlation(
    simulated: Sequence[float], measured: Sequence[float], intervals: Sequence[Interval], *, seed: int
) -> RankCorrelation:
    """Compare the orders of simulated and measured times.

    Args:
        simulated: a time for each strategy.
        measured: likewise.
        intervals: of the measured ones (``median_interval``).
        seed: of the bootstrap.
    """
    x, y = np.asarray(simulated, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    low, high = np.asarray(intervals, dtype=np.float64).reshape(-1, 2).T
    differs = (low[:, None] > high[None, :]) | (low[None, :] > high[:, None])
    agreement = np.sign(x[:, None] - x[None, :]) * np.sign(y[:, None] - y[None, :])

    def kendall(chosen: NDArray[np.int64]) -> float:
        return _defined(x[chosen], y[chosen], lambda a, b: float(stats.kendalltau(a, b).statistic))

    def spearman(chosen: NDArray[np.int64]) -> float:
        return _defined(x[chosen], y[chosen], lambda a, b: float(stats.spearmanr(a, b).statistic))

    def beyond_noise(chosen: NDArray[np.int64]) -> float:
        pairs = np.ix_(chosen, chosen)
        counted = differs[pairs]
        return float(agreement[pairs][counted].mean()) if counted.any() else np.nan

    rng, num = np.random.default_rng(seed), len(x)
    resamples = [rng.integers(num, size=num) for _ in range(NUM_RESAMPLES)] if num > 1 else []
    return RankCorrelation(
        kendall=_statistic(kendall, num, resamples),
        spearman=_statistic(spearman, num, resamples),
        kendall_beyond_noise=_statistic(beyond_noise, num, resamples),
        num_pairs=num * (num - 1) // 2,
        num_pairs_beyond_noise=int(differs.sum()) // 2,
    )


def _defined(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64], NDArray[np.float64]], float],
) -> float:
    """The statistic, or NaN where all times of one side are equal."""
    return statistic(x, y) if len(x) and np.ptp(x) > 0 and np.ptp(y) > 0 else np.nan


def _statistic(
    statistic: Callable[[NDArray[np.int64]], float], num: int, resamples: Sequence[NDArray[np.int64]]
) -> Statistic:
    value = statistic(np.arange(num))
    if np.isnan(value):
        return Statistic(None, None)
    # A resample in which nothing differs has no statistic; numpy's quantiles leave it out.
    outside = 100 * (1 - CONFIDENCE) / 2
    low, high = np.nanpercentile([statistic(chosen) for chosen in resamples], [outside, 100 - outside])
    return Statistic(value, (float(low), float(high)))
