"""The environment's benchmark runs, and its clocks add up."""

import time
from functools import partial
from typing import Any

import pytest

from experiments import benchmark_environment
from experiments.stopwatch import Stopwatch


@pytest.fixture
def call(call_bare: Any) -> Any:
    """Call the benchmark with overrides."""
    return partial(call_bare, benchmark_environment.main, "models=[lenet]")


def test_the_command_writes_every_stream(call: Any) -> None:
    outcome = call("num_devices=[2]", "num_envs=2", "steps=24", "training_simulations=70")
    steps_of = {"random": 24, "keep": 24, "ppo": 70}
    streams = outcome.json("benchmark.json")["streams"]

    found = [(stream["actions"], stream["num_threads"], stream["steps"]) for stream in streams]
    assert found == [(kind, threads, steps) for kind, steps in steps_of.items() for threads in (1, 2)]
    assert all(0 < sum(stream["shares"].values()) <= 1 for stream in streams)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("actions=[best]", "actions: 'best' is none of random, keep, ppo"),
        ("models=[vgg]", "models: there is no model called 'vgg'"),
        ("steps=0", "steps: 0 is not a whole number from 1 on"),
    ],
)
def test_useless_options_are_refused(call: Any, override: str, message: str) -> None:
    outcome = call(override)

    assert (outcome.code, outcome.stderr) == (2, f"error: {message}\n")


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
