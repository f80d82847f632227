"""The environment's benchmark runs, and its clocks add up."""

import json
import sys
import time
from pathlib import Path

import pytest

from experiments import benchmark_environment
from experiments.stopwatch import Stopwatch


def call(monkeypatch: pytest.MonkeyPatch, folder: Path, *overrides: str) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setattr(sys, "argv", ["command", f"hydra.run.dir={folder}", "models=[lenet]", *overrides])
    benchmark_environment.main()


def test_the_command_writes_every_stream(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    call(monkeypatch, tmp_path, "num_devices=[2]", "num_envs=2", "steps=24", "training_simulations=70")
    steps_of = {"random": 24, "keep": 24, "ppo": 70}
    streams = json.loads((tmp_path / "benchmark.json").read_text())["streams"]

    found = [(stream["actions"], stream["num_threads"], stream["steps"]) for stream in streams]
    assert found == [(kind, threads, steps) for kind, steps in steps_of.items() for threads in (1, 2)]
    assert all(0 < sum(stream["shares"].values()) <= 1 for stream in streams)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("actions=[best]", "error: actions: 'best' is none of random, keep, ppo"),
        ("steps=0", "error: steps: 0 is not a whole number from 1 on"),
    ],
)
def test_useless_options_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], override: str, message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        call(monkeypatch, tmp_path, override)

    assert stop.value.code == 2
    assert message in capfd.readouterr().err


class Worker:
    def outer(self) -> None:
        time.sleep(0.01)
        self.inner()

    def inner(self) -> None:
        time.sleep(0.03)


def test_only_the_innermost_clock_runs() -> None:
    with Stopwatch({"inner": (Worker, "inner"), "outer": (Worker, "outer")}) as watch:
        Worker().outer()
    Worker().outer()

    assert watch.seconds["inner"] >= 0.03 > watch.seconds["outer"] >= 0.01
