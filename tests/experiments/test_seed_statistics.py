"""Figures over seeds, against hand-made and closed-form answers."""

import numpy as np
import pytest
from scipy import stats

from experiments.seed_statistics import bootstrap_interval, interquartile_mean, probability_of_improvement

FIVE = np.array([1.0, 2.0, 4.0, 6.0, 100.0])


def test_interquartile_mean_leaves_out_the_quarters_at_both_ends() -> None:
    assert interquartile_mean([FIVE]) == 4.0


def test_interquartile_mean_is_over_the_runs_of_all_tasks() -> None:
    assert interquartile_mean([np.array([1.0, 2.0]), np.array([3.0, 50.0])]) == 2.5


def test_probability_of_improvement_counts_a_tie_half() -> None:
    assert probability_of_improvement([np.array([1.0, 2.0])], [np.array([1.0])]) == 0.75


def test_probability_of_improvement_is_that_of_mann_and_whitney() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(5, size=20), rng.integers(5, size=30)

    expected = stats.mannwhitneyu(first, second).statistic / (20 * 30)
    assert probability_of_improvement([first], [second]) == pytest.approx(expected)


def test_probability_of_improvement_weighs_tasks_alike() -> None:
    first, second = [np.ones(2), np.zeros(10)], [np.zeros(3), np.ones(10)]

    assert probability_of_improvement(first, second) == 0.5


def test_interval_of_equal_seeds_is_a_point() -> None:
    runs = [np.full(5, 1.0), np.full(5, 3.0)]

    assert bootstrap_interval(interquartile_mean, runs, rng=np.random.default_rng(0)) == (2.0, 2.0)


def test_seeds_are_drawn_within_their_task() -> None:
    runs = [np.full(5, 1.0), np.full(5, 3.0)]

    # Drawn over all tasks together, the mean would vary.
    assert bootstrap_interval(lambda drawn: float(np.mean(drawn)), runs, rng=np.random.default_rng(0)) == (2.0, 2.0)


def test_interval_of_a_mean_is_near_the_normal_one() -> None:
    scores = np.random.default_rng(1).normal(size=200)

    low, high = bootstrap_interval(lambda runs: float(runs[0].mean()), [scores], rng=np.random.default_rng(0))

    half = 1.96 * scores.std() / np.sqrt(200)
    assert (low, high) == pytest.approx((scores.mean() - half, scores.mean() + half), abs=0.1 * half)


def test_searchers_are_drawn_independently() -> None:
    first, second = [FIVE], [FIVE]

    low, high = bootstrap_interval(probability_of_improvement, first, second, rng=np.random.default_rng(0))

    assert low < 0.5 < high
