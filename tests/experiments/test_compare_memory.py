"""A strategy that exceeds a device's memory cannot run, so it wins no comparison."""

from pathlib import Path
from typing import Any

import pytest
from found_runs import found_run
from rich.console import Console

from experiments.comparison.comparison import Comparison, compare
from experiments.comparison.found_run import FoundRun
from experiments.comparison.page import comparison_page
from experiments.comparison.terminal import comparison_table

ROOT = Path("/runs")


def found(agent: str, seed: int, best_ms: float, *, fits: bool) -> FoundRun:
    return found_run(ROOT / f"{agent}{seed}", agent, seed, best_ms, lower_bound_ms=64.0, fits=fits)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """One searcher whose strategies fit, a faster one of whose fit one in two, and the fastest, of whose none fits."""
    runs = [found("sound", 0, 128.0, fits=True), found("sound", 1, 128.0, fits=True)]
    runs += [found("mixed", 0, 100.0, fits=True), found("mixed", 1, 50.0, fits=False)]
    runs += [found("greedy", seed, 32.0, fits=False) for seed in (0, 1)]
    return compare(runs, ROOT)


def by_agent(comparison: Comparison, column: str) -> dict[str, Any]:
    return {row["agent"]: row[column] for row in comparison.agents}


def test_its_speedup_counts_nothing(comparison: Comparison) -> None:
    assert by_agent(comparison, "speedup") == {"sound": 2.0, "mixed": 1.28, "greedy": 0.0}
    assert {row["folder"]: row["speedup"] for row in comparison.runs if not row["fits_memory"]} == {
        "mixed1": 0.0,
        "greedy0": 0.0,
        "greedy1": 0.0,
    }


def test_it_loses_to_every_strategy_that_fits(comparison: Comparison) -> None:
    chances = {(row["agent"], row["other"]): row["probability"] for row in comparison.pairs}

    assert chances["greedy", "sound"] == 0
    assert chances["greedy", "mixed"] == 0.25  # a tie with the run that does not fit either
    assert chances["mixed", "sound"] == 0.5


def test_times_are_those_of_runs_that_fit_or_of_all_if_none_does(comparison: Comparison) -> None:
    assert by_agent(comparison, "best_ms") == {"sound": 128.0, "mixed": 100.0, "greedy": 32.0}
    assert by_agent(comparison, "fastest_ms") == {"sound": 128.0, "mixed": 100.0, "greedy": 32.0}


def test_it_has_no_certified_gap(comparison: Comparison) -> None:
    assert by_agent(comparison, "gap") == {"sound": 0.5, "mixed": pytest.approx(0.36), "greedy": None}
    assert [row["gap"] for row in comparison.runs if not row["fits_memory"]] == [None] * 3


def test_it_has_no_curve(comparison: Comparison) -> None:
    ends = {row["agent"]: row["y"] for row in comparison.curves if row["figure"] == "simulations"}

    assert ends == {"sound": 128.0, "mixed": 100.0}


def test_profile_has_it_at_nothing(comparison: Comparison) -> None:
    shares = {
        agent: [row["y"] for row in comparison.curves if row["figure"] == "profile" and row["agent"] == agent]
        for agent in ("mixed", "greedy")
    }

    assert {agent: (ys[0], ys[1]) for agent, ys in shares.items()} == {"mixed": (1.0, 0.5), "greedy": (1.0, 0.0)}


def test_terminal_puts_it_last_and_says_how_many_fit(comparison: Comparison) -> None:
    console = Console(width=100)
    with console.capture() as captured:
        console.print(comparison_table(comparison))
    lines = [line.split() for line in captured.get().splitlines() if "1,000" in line]

    assert [line[0] for line in lines] == ["sound", "mixed", "greedy"]
    assert lines[1][1:4] == ["2", "(1", "fit)"]
    assert lines[2][1:8] == ["2", "(0", "fit)", "32.000", "0.00", "[0.00,", "0.00]"]


def test_page_marks_its_times(comparison: Comparison) -> None:
    page = comparison_page(comparison, root=ROOT, place=ROOT)

    assert page.count('<td class=bad><data class="best_ms" value="32.0">') == 3  # of the searcher and its runs
    assert page.count('<td class=bad><data class="best_ms" value="50.0">') == 1
    assert page.count('<td class=bad><data class="fastest_ms" value="32.0">') == 1
    assert '<td class=bad><data class="best_ms" value="128.0">' not in page
