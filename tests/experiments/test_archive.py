"""Archive: the parts of figures, made once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra

from experiments.archive import Archive
from experiments.errors import OptionError
from tests.experiments.conftest import Command

ROOT = Path(__file__).resolve().parents[2]
SEARCH = ("agent=mcmc", "model=lenet", "num_devices=4", "budget.simulations=200", "seed=3")


@pytest.fixture(autouse=True)
def application() -> Iterator[None]:
    """What a Hydra application does before the archive is used."""
    with hydra.initialize_config_dir(str(ROOT / "experiments" / "conf"), version_base="1.3"):
        yield


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def test_search_finds_what_run_finds(archive: Archive, search: Command) -> None:
    (found,) = archive.searches([SEARCH])
    GlobalHydra.instance().clear()  # run.py is an application of its own

    alike = ("configuration", "model", "agent", "seed", "best_ms", "strategy_hash", "simulations", "data_parallel_ms")
    run = search(*SEARCH).json("record.json")
    assert {key: found.record[key] for key in alike} == {key: run[key] for key in alike}


def test_curve_ends_with_the_record(archive: Archive) -> None:
    (found,) = archive.searches([SEARCH])

    end = found.curve[-1]
    assert (end.simulations, end.best_ms) == (found.record["simulations"], found.record["best_ms"])


def test_finished_search_is_not_repeated(archive: Archive, tmp_path: Path) -> None:
    first = archive.searches([SEARCH])[0].record

    later = Archive(tmp_path)
    assert later.searches([SEARCH])[0].record == first  # seconds too
    assert later.summary == f"1 searches and measurements, 1 of them kept by earlier calls in {tmp_path}"


def test_search_of_other_settings_is_made(archive: Archive) -> None:
    first, second = archive.searches([SEARCH, (*SEARCH[:-1], "seed=4")])

    assert (first.record["seed"], second.record["seed"]) == (3, 4)


def test_search_is_repeated_if_defaults_have_changed_since(archive: Archive) -> None:
    (found,) = archive.searches([SEARCH])
    record = found.record | {"best_ms": -1.0}
    record["configuration"]["agent"]["temperature"] = 7.0
    (found.folder / "record.json").write_text(json.dumps(record))

    assert archive.searches([SEARCH])[0].record["best_ms"] > 0


def test_interrupted_search_leaves_no_record(archive: Archive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupt(*arguments: Any, **keywords: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agents.mcmc.Mcmc.run", interrupt)

    with pytest.raises(KeyboardInterrupt):
        archive.searches([SEARCH])
    assert list(tmp_path.rglob("record.json")) == []


def test_unknown_option_of_a_search_is_refused(archive: Archive) -> None:
    with pytest.raises(OptionError, match=r"agent\.warmth: there is no such key"):
        archive.searches([(*SEARCH, "+agent.warmth=1")])


def test_measurement_is_made_once(archive: Archive) -> None:
    calls = []

    def measure(*, number: int) -> dict[str, int]:
        calls.append(number)
        return {"square": number**2}

    settings = [{"number": 2}, {"number": 3}, {"number": 2}]
    assert archive.measurements(measure, settings) == [{"square": 4}, {"square": 9}, {"square": 4}]
    assert calls == [2, 3]


def test_measurements_of_very_many_words_are_told_apart(archive: Archive) -> None:
    def measure(*, words: str) -> dict[str, str]:
        return {"last": words[-1]}

    settings = [{"words": "x" * 300 + end} for end in "ab"]

    assert archive.measurements(measure, settings) == [{"last": "a"}, {"last": "b"}]
