"""Validation: simulated and measured times of strategies, and how well the first predict the second."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from experiments.rank_correlation import Interval, RankCorrelation, median_interval, rank_correlation
from experiments.time_shares import NS_PER_MS, TimeShares, measured_shares, simulated_shares
from runtime.result import RunResult
from sim.strategy import Strategy
from sim.task_graph import TaskGraph


@dataclass(slots=True)
class Measurement:
    """The runs of one strategy, round by round.

    Attributes:
        strategy: what was run.
        warm_ups: iterations at the start of each run that do not count.
        results: one for each round.
    """

    strategy: Strategy
    warm_ups: int
    results: list[RunResult] = field(default_factory=list)

    @property
    def iterations(self) -> list[tuple[float, int, int]]:
        """Time in ms, round and number in it, of each iteration that counts."""
        return [
            (ms, number, iteration)
            for number, result in enumerate(self.results)
            for iteration, ms in enumerate(result.wall_ms)
            if iteration >= self.warm_ups
        ]

    @property
    def typical(self) -> tuple[RunResult, int]:
        """The iteration that is nearest to the median."""
        median = np.median([ms for ms, _, _ in self.iterations])
        _, number, iteration = min(self.iterations, key=lambda entry: abs(entry[0] - median))
        return self.results[number], iteration

    @property
    def task_graphs(self) -> tuple[TaskGraph, TaskGraph]:
        """Simulated, and of the typical iteration."""
        result, iteration = self.typical
        return result.task_graph, result.measured_task_graph(iteration)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One strategy.

    Attributes:
        name: as the user knows it.
        strategy_hash: of the strategy.
        simulated_ms: iteration time.
        measured_ms: median iteration time.
        measured_interval_ms: where the median lies with 95 % confidence.
        measured_quartiles_ms: the iterations' first and third quartile.
        num_measured: iterations that count.
        round_medians_ms: of each round by itself.
        error: simulated over measured, less 1.
        simulated: what the devices spend the simulated iteration on.
        measured: the same of the iteration that is nearest to the median.
    """

    name: str
    strategy_hash: str
    simulated_ms: float
    measured_ms: float
    measured_interval_ms: Interval
    measured_quartiles_ms: Interval
    num_measured: int
    round_medians_ms: tuple[float, ...]
    error: float
    simulated: TimeShares
    measured: TimeShares


@dataclass(frozen=True, slots=True)
class Validation:
    """All strategies.

    Attributes:
        comparisons: in the order of their simulated times.
        median_error: median of the errors' absolute values.
        worst_error: their greatest.
        measured_spread: slowest over fastest measured time.
        correlation: of simulated and measured times.
    """

    comparisons: tuple[Comparison, ...]
    median_error: float
    worst_error: float
    measured_spread: float
    correlation: RankCorrelation

    def to_dict(self) -> dict[str, Any]:
        """What is written on disk."""
        return asdict(self)


def compare(name: str, measurement: Measurement) -> Comparison:
    """Hold the simulation of a strategy to its measurement."""
    result, iteration = measurement.typical
    times = [ms for ms, _, _ in measurement.iterations]
    simulated_ms, measured_ms = result.task_graph.makespan / NS_PER_MS, float(np.median(times))
    first, third = np.percentile(times, [25, 75])
    return Comparison(
        name=name,
        strategy_hash=measurement.strategy.hash,
        simulated_ms=simulated_ms,
        measured_ms=measured_ms,
        measured_interval_ms=median_interval(times),
        measured_quartiles_ms=(float(first), float(third)),
        num_measured=len(times),
        round_medians_ms=tuple(float(np.median(r.wall_ms[measurement.warm_ups :])) for r in measurement.results),
        error=simulated_ms / measured_ms - 1,
        simulated=simulated_shares(result),
        measured=measured_shares(result, iteration),
    )


def validate(measurements: Mapping[str, Measurement], *, seed: int) -> Validation:
    """Compare all strategies that were measured, at least one; the seed is the bootstrap's."""
    found = [compare(name, measurement) for name, measurement in measurements.items() if measurement.results]
    found.sort(key=lambda comparison: comparison.simulated_ms)
    errors = [abs(comparison.error) for comparison in found]
    simulated, measured = column(found, "simulated_ms"), column(found, "measured_ms")
    intervals = [comparison.measured_interval_ms for comparison in found]
    return Validation(
        comparisons=tuple(found),
        median_error=float(np.median(errors)),
        worst_error=max(errors),
        measured_spread=max(measured) / min(measured),
        correlation=rank_correlation(simulated, measured, intervals, seed=seed),
    )


def column(comparisons: Sequence[Comparison], name: str) -> list[float]:
    """One of the numbers of all strategies."""
    return [getattr(comparison, name) for comparison in comparisons]
