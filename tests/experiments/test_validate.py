"""validate.py: strategies on real ranks, beside their simulation."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import validate
from experiments.errors import OptionError
from experiments.strategy_choice import choose_strategies, climb
from runtime.errors import RankFailedError
from runtime.launch import Ranks
from runtime.result import RunResult
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.topology import load_topology

ROOT = Path(__file__).resolve().parents[2]
TINY = ("model=lenet", "num_devices=2", "model.batch_per_device=2", "cost=analytic", "oversubscribe=true")
BRIEF = ("num_rounds=2", "num_iterations=3", "warm_ups=1")


@pytest.fixture
def check(call: Any) -> Any:
    """Call validate.py in this process with overrides."""
    return lambda *overrides: call(validate.main, *TINY, *BRIEF, *overrides)


@pytest.fixture
def problem() -> Problem:
    return Problem(lenet(num_devices=2, batch_per_device=2), load_topology("cpu_host", num_devices=2))


def test_strategies_of_all_sources_are_run_and_written(tmp_path: Path) -> None:
    def run(script: str, *overrides: str) -> subprocess.CompletedProcess[str]:
        path = str(ROOT / "experiments" / script)
        return subprocess.run([sys.executable, path, *overrides], capture_output=True, text=True, check=True)

    search = tmp_path / "search"
    common = (*TINY[:4], "topology=cpu_host", "tracker=none")
    run("run.py", *common, "agent=mcmc", "budget.simulations=50", f"hydra.run.dir={search}")
    folder = tmp_path / "validation"
    sources = (f"strategy=[single_device,{search}/strategy.json]", f"run={search}", "sample=2")

    shown = run("validate.py", *TINY, *BRIEF, *sources, f"hydra.run.dir={folder}").stdout
    found = json.loads((folder / "validation.json").read_text())

    names = {entry["name"] for entry in found["comparisons"]}
    assert {"single_device", str(search), f"{search}/strategy.json"} < names
    assert len(names) == 5
    assert all(entry["num_measured"] == 6 for entry in found["comparisons"])
    assert found["is_complete"]
    assert "Kendall's tau" in shown
    assert {path.suffix for path in folder.glob("validation.*")} == {".json", ".png"}
    assert [len(list(folder.glob(f"{kind}_*.json"))) for kind in ("timeline", "strategy")] == [5, 5]


def test_shares_add_up_to_the_iteration_and_errors_follow_from_the_times(check: Any) -> None:
    [entry] = check("strategy=data_parallel").json("validation.json")["comparisons"]

    assert sum(entry["simulated"].values()) == pytest.approx(entry["simulated_ms"])
    assert sum(entry["measured"].values()) == pytest.approx(entry["measured_ms"], rel=0.5)
    assert entry["error"] == pytest.approx(entry["simulated_ms"] / entry["measured_ms"] - 1)


def test_both_timelines_are_processes_of_one_file(check: Any) -> None:
    events = check("strategy=data_parallel").json("timeline_00.json")["traceEvents"]

    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    tasks = {name: {e["name"] for e in events if e["ph"] == "X" and names[e["pid"]] == name} for name in names.values()}
    assert list(tasks) == ["simulated", "measured"]
    assert tasks["simulated"] == tasks["measured"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed=0", "strategy: give names or files, or run=FOLDER for a search's best, or sample=12"),
        ("sample=-1", "sample: -1 is not a whole number from 0 on"),
        ("num_rounds=0", "num_rounds: 0 is not a whole number from 1 on"),
        ("run=nowhere", "run: 'nowhere' is not the folder of a finished search"),
        ("oversubscribe=maybe", "oversubscribe: 'maybe' is not true or false"),
        ("strategy=nowhere.json", "nowhere.json: No such file or directory"),
        (
            "sync=zero",
            "sync: ranks run 'zero' as one all-reduce, not as it is simulated; choose one of ring, parameter_server",
        ),
    ],
)
def test_mistake_is_one_sentence(override: str, message: str, check: Any) -> None:
    outcome = check("strategy=data_parallel", override) if override.startswith("sync") else check(override)

    assert outcome.code == 2
    assert message in outcome.stderr
    assert outcome.stderr.count("\n") == 1


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"is_partial": false}'])
def test_folder_whose_record_is_damaged_is_no_finished_search(record: str, problem: Problem, tmp_path: Path) -> None:
    problem.data_parallel.save(tmp_path / "strategy.json")
    (tmp_path / "record.json").write_text(record)

    with pytest.raises(OptionError) as refusal:
        choose_strategies(problem, strategies=[], runs=[str(tmp_path)], num_sampled=0, seed=0)

    assert str(refusal.value) == f"run: '{tmp_path}' is not the folder of a finished search"


def test_fewer_cores_than_ranks_are_refused(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})

    outcome = check("strategy=data_parallel", "oversubscribe=false")

    message = "num_devices: 2 ranks would share 1 core; oversubscribe=true lets them"
    assert (outcome.code, outcome.stderr) == (2, f"error: {message}\n")


@pytest.fixture
def break_off(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Let the third run end with an error."""

    def at_the_third(error: BaseException) -> None:
        run, calls = Ranks.run, []

        def broken(*arguments: Any, **options: Any) -> RunResult:
            calls.append(None)
            if len(calls) == 3:
                raise error
            return run(*arguments, **options)

        monkeypatch.setattr(Ranks, "run", broken)

    return at_the_third


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (RankFailedError(1, "was killed"), 1)])
def test_what_was_measured_so_far_is_left(error: BaseException, code: int, check: Any, break_off: Any) -> None:
    break_off(error)

    outcome = check("strategy=[data_parallel,single_device]")
    found = outcome.json("validation.json")

    assert outcome.code == code
    assert not found["is_complete"]
    assert [entry["num_measured"] for entry in found["comparisons"]] == [3, 3]


def test_failed_rank_is_one_sentence(check: Any, break_off: Any) -> None:
    break_off(RankFailedError(1, "was killed by SIGKILL"))

    outcome = check("strategy=data_parallel", "num_rounds=3")

    assert outcome.stderr.splitlines()[-1] == "error: rank 1 was killed by SIGKILL"


def test_sample_spreads_over_simulated_times(problem: Problem) -> None:
    chosen = choose_strategies(problem, strategies=(), runs=(), num_sampled=6, seed=0)

    costs = [problem.simulation(strategy).cost_ns for strategy in chosen.values()]
    assert len(costs) == 6
    assert costs == sorted(costs)
    assert costs[-1] > 1.9 * costs[0]
    assert max(costs[i + 1] / costs[i] for i in range(5)) < 1.3


def test_climbing_makes_a_strategy_no_better(problem: Problem) -> None:
    simulation, rng = problem.simulation(), np.random.default_rng(0)
    before_ns = simulation.cost_ns

    climb(simulation, rng, 50)

    assert simulation.cost_ns > before_ns
    assert simulation.cost_ns == problem.simulation(simulation.strategy).cost_ns


def test_sample_is_that_of_the_seed(problem: Problem) -> None:
    samples: list[Mapping[str, Any]] = [
        choose_strategies(problem, strategies=(), runs=(), num_sampled=4, seed=seed) for seed in (1, 1, 2)
    ]

    hashes = [[strategy.hash for strategy in sample.values()] for sample in samples]
    assert hashes[0] == hashes[1] != hashes[2]
