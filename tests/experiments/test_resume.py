"""Interrupted searches and sweeps: what becomes of their folders when they are resumed."""

import json
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killing import SAME, kill

from experiments import run
from experiments.comparison.found_run import Status, find_runs, read_run
from experiments.errors import ResumeError
from experiments.previous_run import next_seed
from experiments.resume import resumed

LONG = ("model=lenet", "num_devices=4", "tracker=none", "budget.simulations=400000")
LONGEST_S = 2.0


Resume = Callable[..., str]


@pytest.fixture
def resume(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Resume:
    """Call ``run.py resume=FOLDER`` with more overrides; returns what it prints."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def invoke(folder: Path, *overrides: str) -> str:
        monkeypatch.setattr(sys, "argv", ["command", f"resume={folder}", *overrides])
        run.main()
        return capfd.readouterr().out

    return invoke


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def kill_at_a_random_moment(folder: Path, agent: str, seed: int) -> None:
    """Once the search has begun; one that is faster is left finished."""
    overrides = (f"agent={agent}", *LONG, f"hydra.run.dir={folder}")
    kill(overrides, folder=folder, awaited="record.json", delay_s=random.Random(seed).uniform(0, LONGEST_S))


def as_if_killed(folder: Path) -> None:
    """Undo what a finished search wrote last."""
    record = read(folder / "record.json")
    (folder / "record.json").write_text(json.dumps(record | {"is_partial": True, "simulations": 90}))
    (folder / "timeline.json").unlink()


@pytest.mark.parametrize(("agent", "seed"), [("mcmc", 0), ("large_neighbourhood", 1)])
def test_killed_search_finds_the_same_when_it_is_resumed(
    agent: str, seed: int, search: Any, resume: Resume, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    kill_at_a_random_moment(folder, agent, seed)
    partial = read(folder / "record.json")
    found = read_run(folder)
    resume(folder)
    whole = search(f"agent={agent}", *LONG).json("record.json")

    record = read(folder / "record.json")
    assert [record[key] for key in SAME] == [whole[key] for key in SAME]
    assert (partial["is_partial"], record["is_partial"]) == (record["attempts"] == 2, False)
    assert found.status is (Status.PARTIAL if partial["is_partial"] else Status.FINISHED)


def test_finished_run_is_not_repeated(search: Any) -> None:
    first = search("agent=random")
    before = (first.folder / "record.json").stat().st_mtime_ns
    again = search("agent=random", f"hydra.run.dir={first.folder}")

    assert again.stdout == f"finished before: {first.folder}\n"
    assert (first.folder / "record.json").stat().st_mtime_ns == before


def test_folder_of_another_configuration_is_refused(search: Any) -> None:
    folder = search("agent=random").folder
    again = search("agent=random", "seed=1", f"hydra.run.dir={folder}")

    assert again.code == 2
    assert again.stderr == f"error: '{folder}' holds a run with seed=0, not 1; choose another folder\n"
    assert not (folder / "failure.json").exists()


@pytest.mark.parametrize("written", ['{"model": ', "[]", "{}", "null"])
def test_damaged_record_is_one_sentence(written: str, search: Any) -> None:
    folder = search("agent=random").folder
    (folder / "record.json").write_text(written)
    again = search("agent=random", f"hydra.run.dir={folder}")

    assert again.code == 2
    assert again.stderr.startswith(f"error: '{folder}/record.json' is damaged (")
    assert again.stderr.endswith("); delete the folder, or choose another\n")


def test_record_that_does_not_say_what_became_of_the_run_is_one_sentence(search: Any) -> None:
    folder = search().folder
    record = read(folder / "record.json")
    del record["attempts"]
    (folder / "record.json").write_text(json.dumps(record))

    again = search(f"hydra.run.dir={folder}")

    message = f"error: '{folder}/record.json' is damaged (it lacks attempts); delete the folder, or choose another\n"
    assert (again.code, again.stderr) == (2, message)


def test_damaged_curve_is_one_sentence(search: Any) -> None:
    folder = search("agent=random").folder
    as_if_killed(folder)
    (folder / "curve.csv").write_text("simulations,seconds,best_ms\none,0.1,2.0\n")
    again = search("agent=random", f"hydra.run.dir={folder}", "interrupted=continue")

    reason = "invalid literal for int() with base 10: 'one'"
    message = f"error: '{folder}/curve.csv' is damaged ({reason}); delete the folder, or choose another\n"
    assert (again.code, again.stderr) == (2, message)


def test_interrupted_search_goes_on_from_its_best_if_asked(search: Any, resume: Resume) -> None:
    folder = search("agent=mcmc").folder
    found = read(folder / "record.json")
    as_if_killed(folder)
    resume(folder, "interrupted=continue")

    record = read(folder / "record.json")
    assert record["attempts"] == 2
    assert [spent["strategy_hash"] for spent in record["resumed_from"]] == [found["strategy_hash"]]
    assert (record["simulations"], record["best_ms"]) == (200, found["best_ms"])


def test_search_that_goes_on_draws_other_random_numbers() -> None:
    assert len({7, next_seed(7, 2), next_seed(7, 3), next_seed(8, 2)}) == 4


def test_only_unfinished_jobs_of_a_sweep_are_repeated(search: Any, resume: Resume) -> None:
    folder = search("-m", "agent=random,mcmc", "seed=0,1", "budget.simulations=20").folder
    shutil.rmtree(folder / "3")
    as_if_killed(folder / "1")
    printed = resume(folder)

    assert printed.count("finished before: ") == 2
    assert [read(folder / job / "record.json")["attempts"] for job in "0123"] == [1, 2, 1, 1]


def test_resuming_says_which_folder_is_none(tmp_path: Path) -> None:
    with pytest.raises(ResumeError) as error:
        resumed([f"resume={tmp_path}"])

    assert str(error.value) == f"resume: '{tmp_path}' is neither a run folder nor that of a sweep"


@pytest.mark.parametrize("quote", ["'", '"'])
def test_folder_may_stand_in_quotes_as_hydra_wants_what_has_commas(quote: str, tmp_path: Path) -> None:
    folder = tmp_path / "a,b"
    with pytest.raises(ResumeError) as error:
        resumed([f"resume={quote}{folder}{quote}"])

    assert str(error.value) == f"resume: '{folder}' is neither a run folder nor that of a sweep"


@pytest.mark.parametrize("written", ["", "hydra:", "hydra:\n  job:\n    na", "hydra: [1,"])
def test_folder_that_does_not_say_how_it_was_started_is_not_resumed(written: str, tmp_path: Path) -> None:
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "hydra.yaml").write_text(written)

    with pytest.raises(ResumeError) as error:
        resumed([f"resume={tmp_path}"])

    reason = "was killed before it said how it was started; start it as you did"
    assert str(error.value) == f"resume: '{tmp_path}' {reason}"
    assert find_runs(tmp_path) == []


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """What Hydra leaves of a run."""
    content = {"job": {"config_name": "config"}, "overrides": {"task": ["seed=2", "tracker=wandb"], "hydra": []}}
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra" / "hydra.yaml").write_text(json.dumps({"hydra": content}))
    return tmp_path


def test_resuming_takes_no_keys_that_change_the_run(begun: Path) -> None:
    with pytest.raises(ResumeError) as error:
        resumed([f"resume={begun}", "seed=3"])

    assert str(error.value) == f"resume: '{begun}' is finished as it was begun; 'seed=3' cannot change it"


def test_resuming_takes_another_tracker(begun: Path) -> None:
    assert resumed([f"resume={begun}", "tracker=none"]) == ["seed=2", f"hydra.run.dir='{begun}'", "tracker=none"]


def test_resuming_takes_the_same_keys_again(begun: Path) -> None:
    assert resumed(["seed=2", f"resume={begun}"]) == ["seed=2", "tracker=wandb", f"hydra.run.dir='{begun}'"]


def test_failure_leaves_its_reason(search: Any) -> None:
    outcome = search("agent=random", "seed=-1")

    assert outcome.json("failure.json") == {"reason": "seed: -1 is not a whole number from 0 on"}
