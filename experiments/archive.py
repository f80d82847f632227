"""Archive: what a figure is made of, kept in its folder; what is finished is not done again."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import hydra
from omegaconf import DictConfig, open_dict

from agents.curve_point import CurvePoint
from experiments.checkpoint import write_found
from experiments.construct import construct, resolved
from experiments.problem import make_problem
from experiments.record import make_record, policy_sha256
from experiments.run_folder import RunFolder
from experiments.series_display import PartReport, SeriesDisplay
from experiments.stored_curve import read_curve
from sim.problem import Problem
from sim.strategy import Strategy

Overrides: TypeAlias = tuple[str, ...]
"""A search as the words behind ``python experiments/run.py``."""

SEED = re.compile(r"seed=\d+")
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

    @cached_property
    def curve(self) -> tuple[CurvePoint, ...]:
        """Every improvement, the end of the search last."""
        return read_curve(self.folder / "curve.csv")

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
        self._compositions: dict[Overrides, tuple[DictConfig, Mapping[str, str]]] = {}

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
                    report.is_kept = not self._search(overrides, folder, report)
                    self._count(report)
                found.append(FinishedSearch(folder))
        return found

    def kept(self, searches: Sequence[Overrides]) -> list[FinishedSearch | None]:
        """Those of these searches that were finished earlier, None for the others; nothing is searched.

        Raises:
            OptionError: as for ``searches``.
        """
        folders = [self.folder / "searches" / _file_name(overrides) for overrides in searches]
        found = [
            FinishedSearch(folder) if self._is_kept(folder, overrides) else None
            for overrides, folder in zip(searches, folders, strict=True)
        ]
        self._num_found += sum(search is not None for search in found)
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

    def _search(self, overrides: Overrides, folder: Path, report: PartReport) -> bool:
        """Search unless the folder has the record of this search; returns whether it searched."""
        if self._is_kept(folder, overrides):
            return False
        cfg, choices = self._composed(overrides)
        problem = make_problem(cfg)
        result = construct(cfg, "agent")(seed=cfg.seed).search(problem, construct(cfg, "budget"), report)
        if result.is_interrupted:
            raise KeyboardInterrupt
        record = make_record(cfg, problem, problem.simulation(result.strategy), result, choices=choices)
        files = RunFolder(folder)
        write_found(files, result)
        files.write_json("record.json", record.to_dict())  # last: a folder that has one is complete
        return True

    def _is_kept(self, folder: Path, overrides: Overrides) -> bool:
        """Whether the folder has the record of a search with this configuration, and with this policy file."""
        if not (folder / "record.json").is_file():
            return False
        cfg, _ = self._composed(overrides)
        record = FinishedSearch(folder).record
        return record["configuration"] == resolved(cfg) and record.get("policy_sha256") == policy_sha256(cfg)

    def _composed(self, overrides: Overrides) -> tuple[DictConfig, Mapping[str, str]]:
        """The configuration; it takes a tenth of a second, and many searches differ in their seeds alone."""
        seeds = [word for word in overrides if SEED.fullmatch(word)]
        others = tuple(word for word in overrides if word not in seeds)
        if others not in self._compositions:
            self._compositions[others] = composed_search(others)
        cfg, choices = self._compositions[others]
        cfg = deepcopy(cfg)
        if seeds:
            cfg.seed = int(seeds[-1].partition("=")[2])
        return cfg, choices

    def _count(self, report: PartReport) -> None:
        self._num_made += not report.is_kept
        self._num_found += report.is_kept


def _file_name(words: Sequence[str]) -> str:
    """The words themselves; of very many, the first ones and a digest of all."""
    name = ",".join(words).replace("/", "_")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]},{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def composed_search(overrides: Overrides) -> tuple[DictConfig, Mapping[str, str]]:
    """The configuration of a search, and what its groups were chosen to be."""
    cfg = hydra.compose("config", [*overrides, "tracker=none"], return_hydra_config=True)
    choices = dict(cfg.hydra.runtime.choices)
    with open_dict(cfg):
        del cfg["hydra"]
    return cfg, choices
