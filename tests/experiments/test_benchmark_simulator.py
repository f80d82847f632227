"""The simulator's benchmark runs, and measures what it says."""

import json
import sys
from pathlib import Path

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


def call(monkeypatch: pytest.MonkeyPatch, folder: Path, *overrides: str) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setattr(sys, "argv", ["command", f"hydra.run.dir={folder}", *overrides])
    benchmark_simulator.main()


def test_the_command_writes_every_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    call(monkeypatch, tmp_path, "models=[lenet]", "num_devices=[2,4]", "proposals=50", "rebuilds=2")
    streams = json.loads((tmp_path / "benchmark.json").read_text())["streams"]

    assert [(stream["num_devices"], stream["start"]) for stream in streams] == [
        (2, "data_parallel"),
        (2, "random"),
        (4, "data_parallel"),
        (4, "random"),
    ]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("models=[vgg]", "error: models: there is no model called 'vgg'"),
        ("proposals=0", "error: proposals: 0 is not a whole number from 1 on"),
    ],
)
def test_useless_options_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], override: str, message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        call(monkeypatch, tmp_path, override)

    assert stop.value.code == 2
    assert message in capfd.readouterr().err
