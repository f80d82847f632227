"""Kendall's tau and Spearman's rho with intervals."""

import numpy as np
import pytest
from scipy import stats

from experiments.rank_correlation import median_interval, rank_correlation


def exact(times: list[float]) -> list[tuple[float, float]]:
    return [(time, time) for time in times]


def test_equal_orders_correlate_fully() -> None:
    found = rank_correlation([1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0], exact([10.0, 20.0, 30.0, 40.0]), seed=0)

    assert [found.kendall.value, found.spearman.value, found.kendall_beyond_noise.value] == pytest.approx([1, 1, 1])
    assert found.kendall.interval == pytest.approx((1, 1))


def test_values_are_scipys() -> None:
    x, y = np.random.default_rng(0).random((2, 12)).tolist()

    found = rank_correlation(x, y, exact(y), seed=0)

    assert found.kendall.value == pytest.approx(stats.kendalltau(x, y).statistic)
    assert found.spearman.value == pytest.approx(stats.spearmanr(x, y).statistic)
    assert found.kendall_beyond_noise.value == pytest.approx(found.kendall.value)


def test_pairs_within_the_noise_do_not_count() -> None:
    # The two that are simulated in the wrong order may be equal.
    measured = [10.0, 20.0, 21.0]
    intervals = [(9.0, 11.0), (18.0, 22.0), (19.0, 23.0)]

    found = rank_correlation([1.0, 3.0, 2.0], measured, intervals, seed=0)

    assert (found.num_pairs, found.num_pairs_beyond_noise) == (3, 2)
    assert found.kendall.value == pytest.approx(1 / 3)
    assert found.kendall_beyond_noise.value == 1


def test_interval_holds_the_value_and_is_that_of_the_seed() -> None:
    x = np.arange(12.0)
    y = x + np.random.default_rng(1).normal(scale=3, size=12)

    first, second = (rank_correlation(x.tolist(), y.tolist(), exact(y.tolist()), seed=3).kendall for _ in range(2))

    assert first == second
    assert first.value is not None
    assert first.interval is not None
    assert first.interval[0] < first.value < first.interval[1]


@pytest.mark.parametrize("times", [[5.0], [5.0, 5.0]])
def test_nothing_is_said_where_nothing_differs(times: list[float]) -> None:
    found = rank_correlation(times, times, exact(times), seed=0)

    assert (found.kendall.value, found.kendall.interval, found.kendall_beyond_noise.value) == (None, None, None)


def test_median_interval_is_that_of_the_order_statistics() -> None:
    assert median_interval([float(time) for time in range(1, 11)]) == (2.0, 9.0)


def test_few_times_give_all_of_them() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
