"""The simulator's benchmark runs, and measures what it says."""

from typing import Any

import pytest

from experiments import benchmark_simulator
from experiments.simulator_speed import PAPER_SPEEDUPS, measure_speed
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.topology import load_topology


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))


def test_a_stream_prices_what_it_says(problem: Problem) -> None:
    speed = measure_speed(problem, "lenet", "random", temperature=0.01, proposals=200, rebuilds=4, seed=0)

    assert min(speed.full_us, speed.delta_us, speed.cutoff_us, speed.simulated_tasks) > 0
    assert speed.simulated_tasks <= 2 * speed.num_tasks


def test_a_model_of_other_sizes_has_no_published_figures(problem: Problem) -> None:
    speed = measure_speed(problem, "nmt hidden=64", "random", temperature=0.01, proposals=20, rebuilds=2, seed=0)

    assert (speed.paper_speedup, speed.r22_speedup) == (None, None)


def test_the_paper_reports_thirty_cells() -> None:
    assert sum(len(row) for row in PAPER_SPEEDUPS.values()) == 30


def test_the_command_writes_every_stream(call_bare: Any) -> None:
    words = ("models=[lenet]", "num_devices=[2,4]", "proposals=50", "rebuilds=2")
    streams = call_bare(benchmark_simulator.main, *words).json("benchmark.json")["streams"]

    assert [(stream["num_devices"], stream["start"]) for stream in streams] == [
        (2, "data_parallel"),
        (2, "random"),
        (4, "data_parallel"),
        (4, "random"),
    ]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("models=[vgg]", "models: there is no model called 'vgg'"),
        ("proposals=0", "proposals: 0 is not a whole number from 1 on"),
    ],
)
def test_useless_options_are_refused(call_bare: Any, override: str, message: str) -> None:
    outcome = call_bare(benchmark_simulator.main, override)

    assert (outcome.code, outcome.stderr) == (2, f"error: {message}\n")
