"""PreviousRun: what an earlier attempt left in a run folder, and what may become of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agents.ledger import Earlier
from experiments.errors import DamagedFolderError, OccupiedFolderError
from experiments.flat import flat
from experiments.run_folder import FAILURE
from experiments.stored_curve import read_curve
from sim.problem import Problem
from sim.strategy import Strategy

UNIMPORTANT = ("tracker", "interrupted", "resume")
"""Keys of the configuration that do not change what a search finds."""

NEEDED = ("is_partial", "is_interrupted", "attempts", "resumed_from", "simulations", "cutoffs", "search_seconds")
"""Fields of the record that say what became of the attempt."""

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
"""What reading a file of another form raises."""


@dataclass(frozen=True, slots=True)
class PreviousRun:
    """An earlier attempt at the same run.

    Attributes:
        folder: where it is.
        record: its record.
    """

    folder: Path
    record: Mapping[str, Any]

    @staticmethod
    def find(folder: Path, configuration: Mapping[str, Any]) -> "PreviousRun | None":
        """The earlier attempt; None if there was none, or if it was killed before its search began.

        What killed processes could not clear away is removed.

        Raises:
            OccupiedFolderError: the folder holds a run of another configuration.
            DamagedFolderError: its record cannot be read.
        """
        for draft in [*folder.glob(".*.tmp"), folder / FAILURE]:
            draft.unlink(missing_ok=True)
        path = folder / "record.json"
        try:
            record = json.loads(path.read_text())
            there = flat(_important(record["configuration"]))
            missing = [key for key in NEEDED if key not in record]
            if missing:
                raise ValueError(f"it lacks {', '.join(missing)}")
        except FileNotFoundError:
            return None
        except UNREADABLE as error:
            raise DamagedFolderError(path, error) from error
        here = flat(_important(json.loads(json.dumps(configuration))))
        for key in [*there, *here]:
            if there.get(key, "nothing") != here.get(key, "nothing"):
                raise OccupiedFolderError(folder, key, there.get(key, "nothing"), here.get(key, "nothing"))
        return PreviousRun(folder, record)

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return not self.record["is_partial"] and not self.record["is_interrupted"]

    @property
    def attempts(self) -> int:
        """How often the search was started."""
        return int(self.record["attempts"])

    def earlier(self, problem: Problem) -> Earlier | None:
        """What the search had spent and found, as far as it was written; None if nothing was.

        Raises:
            SimError: the strategy is not one of the problem.
            DamagedFolderError: the curve cannot be read.
        """
        if not (self.folder / "strategy.json").is_file() or not (self.folder / "curve.csv").is_file():
            return None
        path = self.folder / "curve.csv"
        try:
            points = read_curve(path)
        except UNREADABLE as error:
            raise DamagedFolderError(path, error) from error
        return Earlier(
            strategy=Strategy.load(self.folder / "strategy.json", problem.graph, problem.topology),
            # Killed between two of its files, a search has a curve that is ahead of its record.
            simulations=max([self.record["simulations"], *(point.simulations for point in points)]),
            cutoffs=self.record["cutoffs"],
            seconds=max([self.record["search_seconds"], *(point.seconds for point in points)]),
            curve=points,
        )

    def summary(self) -> list[dict[str, int | float | str]]:
        """What the next record says of this attempt and of those that it had gone on from."""
        keys = ("simulations", "search_seconds", "best_ms", "strategy_hash")
        return [*self.record["resumed_from"], {key: self.record[key] for key in keys}]


def next_seed(seed: int, attempts: int) -> int:
    """For the random numbers of a search that goes on: with the old ones it would propose the same again."""
    return int(np.random.SeedSequence((seed, attempts)).generate_state(1)[0])


def _important(configuration: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in configuration.items() if key not in UNIMPORTANT}
