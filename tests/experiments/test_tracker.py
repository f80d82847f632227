"""wandb follows a run and never ends it."""

import time
from typing import Any

import pytest
import wandb

from experiments.tracker import AXES, MAX_SHARE, STRATEGY_COLUMNS, WandbTracker, strategy_rows
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.topology import load_topology


def test_offline_run_lies_in_the_run_folder(search: Any) -> None:
    outcome = search("tracker=wandb", "agent=random")

    assert outcome.code == 0
    assert len(list(outcome.folder.glob("wandb/offline-run-*/run-*.wandb"))) == 1


def test_wandb_prints_nothing(search: Any) -> None:
    outcome = search("tracker=wandb", "agent=random")

    assert outcome.stderr == ""
    assert "wandb:" not in outcome.stdout


def test_runs_of_all_agents_log_the_same_keys(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[set[str]] = []
    for agent in ("random", "mcmc", "data_parallel"):
        keys: set[str] = set()
        log = wandb.Run.log

        def remember(run: wandb.Run, data: dict[str, Any], keys: set[str] = keys, log: Any = log) -> None:
            keys.update(data)
            log(run, data)

        with monkeypatch.context() as patch:
            patch.setattr(wandb.Run, "log", remember)
            search("tracker=wandb", f"agent={agent}")
        logged.append(keys)

    curves = {f"by_{axis}/{metric}" for axis in AXES for metric in ("best_ms", "speedup")}
    assert logged == [{*AXES, *curves, "strategy"}] * 3


def test_last_point_of_the_curve_is_the_records(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    points: list[dict[str, Any]] = []
    monkeypatch.setattr(wandb.Run, "log", lambda run, data: points.append(data))

    record = search("tracker=wandb", "agent=mcmc").json("record.json")

    *_, last, _ = points
    assert last["by_simulations/best_ms"] == last["by_seconds/best_ms"] == record["best_ms"]
    assert (last["simulations"], last["seconds"]) == (record["simulations"], record["search_seconds"])


def test_slow_logging_takes_at_most_its_share_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    tracker = WandbTracker(project="test", mode="offline", init_timeout_s=1.0, finish_timeout_s=1.0)
    clock, calls = [0.0], []

    def slow_log(progress: object) -> None:
        calls.append(progress)
        clock[0] += 0.01

    monkeypatch.setattr(tracker, "_log", slow_log)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    for _ in range(1000):
        clock[0] += 0.1
        tracker.log(None)

    assert len(calls) * 0.01 <= MAX_SHARE * clock[0]


def test_strategy_is_a_row_for_each_operator() -> None:
    problem = Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))
    rows = strategy_rows(problem.simulation().strategy)

    assert [row[0] for row in rows] == [operator.name for operator in problem.graph.operators]
    assert all(len(row) == len(STRATEGY_COLUMNS) for row in rows)


def test_key_without_a_server_does_not_hang(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb.teardown()  # what earlier tests read from the environment
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")

    outcome = search("tracker=wandb", "tracker.init_timeout_s=1", "agent=random")

    assert outcome.code == 0
    assert "wandb goes on offline" in outcome.stderr
    assert len(list(outcome.folder.glob("wandb/offline-run-*"))) == 1


@pytest.mark.parametrize("method", ["init", "setup"])
def test_failing_wandb_does_not_fail_the_run(method: str, search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no server")

    monkeypatch.setattr(wandb, method, fail)

    outcome = search("tracker=wandb", "agent=random")

    assert outcome.code == 0
    assert "this run goes on without wandb: no server" in outcome.stderr
    assert (outcome.folder / "record.json").is_file()
