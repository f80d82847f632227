"""Archive: what a figure is made of, kept in its folder; what is finished is not done again."""

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import hydra
from omegaconf import open_dict

from experiments.checkpoint import CURVE_HEADER
from experiments.construct import construct, resolved
from experiments.problem import make_problem
from experiments.record import make_record
from experiments.run_folder import RunFolder
from experiments.series_display import PartReport, SeriesDisplay
from sim.problem import Problem
from sim.strategy import Strategy

Overrides: TypeAlias = tuple[str, ...]
"""A search as the words behind ``python experiments/run.py``."""

LONGEST_NAME = 200
"""File systems take 255 bytes, and ours write to a longer name first."""


class FinishedSearch:
    """A search whose record is on disk.

    Args:
        folder: has what run.py writes, but for the timeline.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def record(self) -> dict[str, Any]:
        """The content of record.json (``experiments.record.Record``)."""
        content: dict[str, Any] = json.loads((self.folder / "record.json").read_text())
        return content

    @property
    def curve(self) -> list[tuple[int, float, float]]:
        """Simulations, seconds and best cost in ms of every improvement, the end of the search last."""
        with (self.folder / "curve.csv").open(newline="") as file:
            _, *rows = csv.reader(file)
        return [(int(simulations), float(seconds), float(best_ms)) for simulations, seconds, best_ms in rows]

    def strategy(self, problem: Problem) -> Strategy:
        """The best strategy of the search."""
        return Strategy.load(self.folder / "strategy.json", problem.graph, problem.topology)


class Archive:
    """Makes the parts of figures, one after the other, unless an earlier call has finished them.

    Each part is kept under its own settings, so changed settings never find an old part, and figures share parts. The
    code may have changed since: ``summary`` says so, and deleting the folder begins anew.

    Args:
        folder: where the parts are kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._num_made = self._num_found = 0

    @property
    def summary(self) -> str:
        """What the parts are, in a sentence."""
        total = self._num_made + self._num_found
        return f"{total} searches and measurements, {self._num_found} of them kept by earlier calls in {self.folder}"

    def searches(self, searches: Sequence[Overrides]) -> list[FinishedSearch]:
        """Search as run.py does, with each of these overrides.

        Raises:
            OptionError: a key that a constructor does not have, or a value of another type.
            KeyboardInterrupt: the user ended the search; what was finished stays.
        """
        found = []
        with SeriesDisplay(len(searches)) as display:
            for overrides in searches:
                folder = self.folder / "searches" / _file_name(overrides)
                with display.part(" ".join(overrides)) as report:
                    report.is_kept = not _search(overrides, folder, report)
                    self._count(report)
                found.append(FinishedSearch(folder))
        return found

    def measurements(
        self, measure: Callable[..., Mapping[str, Any]], settings: Sequence[Mapping[str, Any]]
    ) -> list[dict[str, Any]]:
        """Call a function with each of these keywords.

        Args:
            measure: returns what JSON can hold; its name is part of what the measurement is kept under.
            settings: its keywords, numbers and texts.
        """
        found = []
        with SeriesDisplay(len(settings)) as display:
            for keywords in settings:
                words = [measure.__name__, *(f"{key}={value}" for key, value in keywords.items())]
                path = self.folder / "measurements" / f"{_file_name(words)}.json"
                with display.part(" ".join(words)) as report:
                    report.is_kept = path.is_file()
                    self._count(report)
                    if not report.is_kept:
                        RunFolder(path.parent).write_json(path.name, measure(**keywords))
                found.append(json.loads(path.read_text()))
        return found

    def _count(self, report: PartReport) -> None:
        self._num_made += not report.is_kept
        self._num_found += report.is_kept


def _file_name(words: Sequence[str]) -> str:
    """The words themselves; of very many, the first ones and a digest of all."""
    name = ",".join(words).replace("/", "_")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]},{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _search(overrides: Overrides, folder: Path, report: PartReport) -> bool:
    """Search unless the folder has the record of a search with this configuration; returns whether it searched."""
    cfg = hydra.compose("config", [*overrides, "tracker=none"], return_hydra_config=True)
    choices = cfg.hydra.runtime.choices
    with open_dict(cfg):
        del cfg["hydra"]
    if (folder / "record.json").is_file() and FinishedSearch(folder).record["configuration"] == resolved(cfg):
        return False
    problem = make_problem(cfg)
    result = construct(cfg, "agent")(seed=cfg.seed).search(problem, construct(cfg, "budget"), report)
    if result.is_interrupted:
        raise KeyboardInterrupt
    record = make_record(cfg, problem, problem.simulation(result.strategy), result, choices=choices)
    files = RunFolder(folder)
    result.strategy.save(files / "strategy.json")
    files.write_csv("curve.csv", CURVE_HEADER, map(astuple, result.curve))
    files.write_json("record.json", record.to_dict())  # last: a folder that has one is complete
    return True
