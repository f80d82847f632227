"""Curves and figures over seeds, against the figures for one point and hand-made answers."""

import numpy as np
import pytest

from agents.curve_point import CurvePoint
from experiments.comparison.bands import best_so_far, improvement, interquartile_means, performance_profile
from experiments.seed_statistics import bootstrap_interval, interquartile_mean, probability_of_improvement

FIRST = [np.array([1.0, 2.0, 4.0, 6.0, 9.0]), np.array([3.0, 5.0, 5.5])]
SECOND = [np.array([2.0, 2.5, 3.0]), np.array([4.0, 5.0, 6.0, 7.0])]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_interquartile_means_are_those_of_one_point() -> None:
    means, low, high = interquartile_means([scores[:, None] for scores in FIRST], rng())

    assert low is not None
    assert high is not None
    assert means[0] == interquartile_mean(FIRST)
    assert (low[0], high[0]) == pytest.approx(bootstrap_interval(interquartile_mean, FIRST, rng=rng()), abs=0.15)


def test_improvement_is_that_of_the_slow_bootstrap() -> None:
    chance, *ends = improvement(FIRST, SECOND, rng())

    expected = bootstrap_interval(probability_of_improvement, FIRST, SECOND, rng=rng())
    assert chance == probability_of_improvement(FIRST, SECOND)
    assert ends == pytest.approx(expected, abs=0.05)


def test_one_run_has_no_interval() -> None:
    one = [np.array([2.0])]

    assert interquartile_means([one[0][:, None]], rng())[1:] == (None, None)
    assert improvement(one, one, rng()) == (0.5, None, None)


def test_profile_is_the_mean_share_over_problems() -> None:
    band = performance_profile(FIRST, np.array([0.0, 4.0, 10.0]), rng())

    assert band.y.tolist() == pytest.approx([1.0, (3 / 5 + 2 / 3) / 2, 0.0])


def test_curve_begins_when_all_have_priced_and_ends_with_the_last() -> None:
    curves = [
        [CurvePoint(1, 0.1, 9.0), CurvePoint(4, 0.4, 5.0), CurvePoint(6, 0.6, 5.0)],
        [CurvePoint(2, 0.2, 7.0), CurvePoint(3, 0.3, 3.0)],
    ]
    band = best_so_far(curves, "simulations", rng())

    assert band.x.tolist() == [2, 3, 4, 6]
    assert band.y.tolist() == [8.0, 6.0, 4.0, 4.0]
