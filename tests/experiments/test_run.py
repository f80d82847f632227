"""run.py: what one search leaves behind."""

import csv
import json
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from experiments import run
from experiments.record import Record

ROOT = Path(__file__).resolve().parents[2]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_file()}


def test_run_folder_has_all_files(search: Any) -> None:
    outcome = search("agent=random")

    assert outcome.code == 0
    written = {"record.json", "strategy.json", "strategy.svg", "curve.csv", "timeline.json", "breakdown.json"}
    assert files(outcome.folder) == written


def test_record_has_all_fields(search: Any) -> None:
    record = search("agent=random").json("record.json")

    assert list(record) == [field.name for field in fields(Record)]


def test_record_agrees_with_the_other_files(search: Any) -> None:
    outcome = search("agent=random")
    record = outcome.json("record.json")
    with (outcome.folder / "curve.csv").open() as file:
        curve = list(csv.DictReader(file))

    assert float(curve[-1]["best_ms"]) == record["best_ms"]
    assert int(curve[-1]["simulations"]) <= record["simulations"] <= 200
    assert record["speedup"] == pytest.approx(record["data_parallel_ms"] / record["best_ms"])


def test_record_holds_the_resolved_configuration(search: Any) -> None:
    record = search("agent=random", "sync.overlap=false", "seed=3").json("record.json")

    assert record["configuration"]["sync"]["overlap"] is False
    assert record["configuration"]["model"]["num_devices"] == 4
    assert (record["agent"], record["model"], record["seed"]) == ("random", "lenet", 3)


@pytest.mark.parametrize("agent", ["random", "mcmc"])
def test_same_seed_gives_the_same_strategy(agent: str, search: Any) -> None:
    hashes = [search(f"agent={agent}", "seed=7").json("record.json")["strategy_hash"] for _ in range(2)]

    assert hashes[0] == hashes[1]


def test_table_shows_the_known_strategies_and_the_best(search: Any) -> None:
    outcome = search("agent=random")

    for text in ("data_parallel", "expert", "random", "200 simulations", str(outcome.folder)):
        assert text in outcome.stdout


def test_a_certificate_is_recorded_and_printed(search: Any) -> None:
    outcomes = [search("agent=best_response", f"budget.simulations={count}") for count in (100, 20_000)]

    assert [outcome.json("record.json")["is_one_opt"] for outcome in outcomes] == [False, True]
    assert ["1-opt: another config of any single" in outcome.stdout for outcome in outcomes] == [False, True]


def test_parallel_chains_run_any_agent(search: Any) -> None:
    outcome = search("agent=parallel_chains", "agent@agent.search=annealing", "agent.search.hottest=0.5")

    assert outcome.json("record.json")["configuration"]["agent"]["search"]["hottest"] == 0.5


def test_nothing_but_the_table_is_printed_without_a_terminal(search: Any) -> None:
    outcome = search("agent=mcmc")

    assert outcome.stderr == ""


def test_budget_of_seconds_ends_a_search(search: Any) -> None:
    record = search("agent=random", "budget.simulations=null", "budget.seconds=0.2").json("record.json")

    assert 0.2 <= record["search_seconds"] < 2


def test_sweep_writes_a_folder_for_each_job(search: Any) -> None:
    outcome = search("-m", "agent=random,mcmc", "budget.simulations=20")

    assert outcome.code == 0
    assert [outcome.json(f"{job}/record.json")["agent"] for job in (0, 1)] == ["random", "mcmc"]


def test_faulty_job_of_a_sweep_says_so_and_the_others_go_on(search: Any) -> None:
    outcome = search("-m", "agent=random", "seed=-1,5", "budget.simulations=20")

    assert outcome.code == 2
    assert "error: seed: -1 is not a whole number from 0 on\n" in outcome.stderr
    assert outcome.json("1/record.json")["seed"] == 5


def test_topology_may_be_a_file(search: Any, tmp_path: Path) -> None:
    path = tmp_path / "two hosts.yaml"
    path.write_text(
        (ROOT / "sim/conf/topology/p100_cluster.yaml").read_text().replace("name: p100_cluster", "name: own")
    )

    record = search("agent=random", f"topology={path}").json("record.json")

    assert record["topology"] == "own"


def test_parallel_sweep_runs_in_other_processes(search: Any) -> None:
    outcome = search("-m", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "agent=random", "seed=1,2")

    assert [outcome.json(f"{job}/record.json")["seed"] for job in (0, 1)] == [1, 2]


def test_interrupt_keeps_the_best_so_far(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "experiments" / "run.py", "agent=mcmc", "model=lenet", "num_devices=4"]
    options = ["tracker=none", "budget.simulations=100000000", f"hydra.run.dir={tmp_path}"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stderr is not None
    process.stderr.readline()  # the first progress line: the search is on
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert json.loads((tmp_path / "record.json").read_text())["is_interrupted"] is True


def test_interrupt_after_the_search_kills(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "write", interrupt)

    outcome = search("agent=random")

    assert (outcome.code, outcome.json("record.json")["is_partial"]) == (130, True)
