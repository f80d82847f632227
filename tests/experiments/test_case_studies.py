"""Figures 12 and 13: the best strategies of two models on one node."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from experiments import reproduce
from experiments.figures.case_study import NUM_DEVICES, has_split, is_on_fewer_devices
from sim.models.nmt import nmt
from sim.strategy import ParallelConfig

SMALL = ("figure.simulations=2", "figure.agents=[random,mcmc]", "figure.seeds=[0]")

Table = dict[tuple[str, str], tuple[str, str]]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Table]:
    """Make a figure from tiny searches; returns ours and the paper's value by synchronisation and quantity."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def invoke(figure: str, *overrides: str) -> Table:
        folders = (f"hydra.run.dir={tmp_path / figure}", f"archive={tmp_path / 'archive'}")
        monkeypatch.setattr(sys, "argv", ["command", f"figure={figure}", *SMALL, *folders, *overrides])
        reproduce.main()
        with (tmp_path / figure / f"{figure}.csv").open(newline="") as file:
            _, *rows = csv.reader(file)
        return {(row[0], row[1]): (row[2], row[3]) for row in rows}

    return invoke


def test_figure_12_holds_times_against_the_papers(make: Callable[..., Table], tmp_path: Path) -> None:
    table = make("fig12")

    assert table["2018", "iteration_ratio"][1] == "0.88"
    assert table["2018", "synchronisation_time_ratio"][1] == "0.25"
    assert (tmp_path / "fig12" / "fig12.png").read_bytes().startswith(b"\x89PNG")


def test_figure_13_draws_the_best_of_all_searches(
    make: Callable[..., Table], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = make("fig13")
    records = [OmegaConf.load(path) for path in (tmp_path / "archive").rglob("record.json")]

    today = [record.best_ms for record in records if record.configuration.sync.scheme == "ring"]
    assert len(today) == 2
    assert float(table["today", "iteration_ms"][0]) == pytest.approx(min(today), abs=1e-3)
    assert "of the embeddings are on one GPU (paper: they are)" in capfd.readouterr().out


def test_data_parallelism_costs_as_much_as_itself_and_splits_samples(make: Callable[..., Table]) -> None:
    table = make("fig13", "figure.agents=[data_parallel]")

    for sync in ("2018", "today"):
        found = {name: float(ours) for (key, name), (ours, _) in table.items() if key == sync}
        assert {found[f"{name}_ratio"] for name in ("iteration", "synchronised_bytes", "communication_bytes")} == {1}
        assert found["share_of_embeddings_split_by_samples"] == found["share_of_lstm_split"] == 1
        assert found["share_of_softmax_split_by_parameters"] == found["share_of_lstm_on_fewer_devices"] == 0


def test_splits_and_devices_of_a_config_are_told_apart() -> None:
    softmax = nmt(num_devices=NUM_DEVICES).operators[-1]
    config = ParallelConfig((1, 1, 2), (0, 1))

    assert has_split(softmax, config, "P")
    assert not has_split(softmax, config, "S")
    assert is_on_fewer_devices(softmax, config)
    assert not is_on_fewer_devices(softmax, ParallelConfig((4, 1, 1), (0, 1, 2, 3)))
