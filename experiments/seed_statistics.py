"""Figures over seeds: interquartile mean, bootstrap interval, probability of improvement.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", NeurIPS 2021.
Everywhere ``runs`` has an array for each task, with the score of each seed; tasks may have different numbers of seeds.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Runs: TypeAlias = Sequence[NDArray[np.floating[Any]]]

NUM_RESAMPLES, CONFIDENCE = 2000, 0.95
"""The paper's."""


def interquartile_mean(runs: Runs) -> float:
    """Mean of the middle half of all scores; of n, the floor of n / 4 are cut off at each end."""
    return float(stats.trim_mean(np.concatenate(runs), 0.25))


def probability_of_improvement(first: Runs, second: Runs) -> float:
    """Chance that a run of ``first`` scores more than one of ``second``, mean over the tasks; a tie counts half."""
    chances = [
        (np.sign(np.subtract.outer(ours, theirs)) + 1).mean() / 2 for ours, theirs in zip(first, second, strict=True)
    ]
    return float(np.mean(chances))


def bootstrap_interval(
    statistic: Callable[..., float], *arguments: Runs, rng: np.random.Generator
) -> tuple[float, float]:
    """Percentile interval of a statistic by the stratified bootstrap: seeds are drawn again within each task.

    Args:
        statistic: of the arguments.
        arguments: runs of one or more searchers, which are drawn independently.
        rng: draws the seeds.
    """
    values = [
        statistic(*([rng.choice(scores, len(scores)) for scores in runs] for runs in arguments))
        for _ in range(NUM_RESAMPLES)
    ]
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
