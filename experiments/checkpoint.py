"""Checkpoint: writes what a search has found while it goes on, so that a killed one leaves a readable folder."""

import time
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

from experiments.record import Record, priced
from experiments.run_folder import RunFolder
from experiments.stored_curve import CURVE_HEADER
from sim.problem import Problem
from sim.strategy import Strategy

if TYPE_CHECKING:
    from agents.agent import SearchResult
    from agents.budget import Progress
    from agents.ledger import Earlier

INTERVAL_S = 1.0
MAX_SHARE = 0.01
"""Of the search's time."""


def write_found(folder: RunFolder, result: "SearchResult") -> None:
    """Write the strategy and the curve of a search that has ended."""
    result.strategy.save(folder / "strategy.json")
    folder.write_csv("curve.csv", CURVE_HEADER, map(astuple, result.curve))


class Checkpoint:
    """Follows a search and writes its strategy, curve and partial record now and then; each appears whole.

    The curve has a point for each report at which the best strategy was another, a few a second. The finished run
    replaces all three files.

    Args:
        folder: of the run.
        problem: what is searched.
        record: what is known before the search.
        earlier: the search that this one continues.
    """

    def __init__(self, folder: RunFolder, problem: Problem, record: Record, earlier: "Earlier | None" = None) -> None:
        self._folder, self._problem = folder, problem
        self._record = replace(record, is_partial=True)
        self._rows = [astuple(point) for point in earlier.curve] if earlier is not None else []
        self._written: object = None
        self._next_s = time.monotonic()
        if earlier is None:  # else what it wrote is still true
            for name in ("strategy.json", "curve.csv", "timeline.json"):
                (folder / name).unlink(missing_ok=True)
            folder.write_json("record.json", self._record.to_dict())

    def __call__(self, progress: "Progress") -> None:
        """Take note of the search's state, and write it if it is time."""
        best_ms = progress.best_ns / 1e6
        if progress.simulations > 0 and (not self._rows or self._rows[-1][2] != best_ms):
            self._rows.append((progress.simulations, progress.seconds, best_ms))
        began = time.monotonic()
        if began >= self._next_s:
            self._write(progress)
            now = time.monotonic()
            self._next_s = now + max(INTERVAL_S, (now - began) / MAX_SHARE)

    def _write(self, progress: "Progress") -> None:
        if progress.best_configs is not self._written and progress.best_configs:
            # The list is the search's own, and is never changed after it was made.
            strategy = Strategy(self._problem.graph, self._problem.topology, progress.best_configs)
            strategy.save(self._folder / "strategy.json")
            self._folder.write_csv("curve.csv", CURVE_HEADER, self._rows)
            self._record = replace(self._record, **priced(self._problem, self._problem.simulation(strategy)))
            self._written = progress.best_configs
        self._record = replace(
            self._record,
            simulations=progress.simulations,
            cutoffs=progress.cutoffs,
            search_seconds=progress.seconds,
        )
        self._folder.write_json("record.json", self._record.to_dict())
