"""What a person sees while a search runs."""

import pytest

from agents.budget import Budget, Progress
from experiments.progress import ProgressDisplay, describe


def progress(*, fits_memory: bool = True) -> Progress:
    return Progress(
        simulations=5000,
        cutoffs=1000,
        seconds=10.0,
        best_ns=50_000_000,
        data_parallel_ns=100_000_000,
        fits_memory=fits_memory,
        budget=Budget(simulations=20_000),
    )


def test_line_has_cost_speedup_rate_and_time_left() -> None:
    line = describe(progress())

    assert line == "best 50.000 ms  2.00x data parallel  500 simulations/s  0:30 left"


def test_line_says_when_memory_is_exceeded() -> None:
    line = describe(progress(fits_memory=False))

    assert line.startswith("best 50.000 ms (exceeds memory)  ")


def test_without_a_terminal_lines_come_at_intervals(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay("mcmc on nmt") as display:
        for _ in range(3):
            display(progress())

    assert capfd.readouterr().err == ""
