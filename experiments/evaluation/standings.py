"""Standings: the two tables of an evaluation, from which all that is shown is taken."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, TypeAlias

import numpy as np

from experiments.archive import Archive
from experiments.comparison.bands import (
    Band,
    Floats,
    improvement,
    interquartile_means,
    interval_columns,
    mean_columns,
    performance_profile,
)
from experiments.comparison.found_run import Status, find_runs
from experiments.comparison.labels import problem_labels
from experiments.evaluation.curves import UNITS, Unit
from experiments.evaluation.entrants import Cost, Entrant
from experiments.evaluation.evaluation import Case, Entry, Evaluation

Row: TypeAlias = Mapping[str, Any]

ALL = "all"
"""The group of all clusters."""

NUM_POINTS = 60
"""Of a curve."""

NEAR = 0.99
"""Of the best known speed: what counts as being within 1 % of it."""

SEED = 0
"""Of the bootstrap."""


@dataclass(frozen=True, slots=True)
class Standings:
    """All that was found.

    Attributes:
        rows: one for each problem, contestant and checkpoint.
        totals: one for each group of problems, contestant and checkpoint; of a group only those contestants that have
            searched all its problems.
        curves: by group and contestant, the score of the best so far against simulations.
        left_out: problems that were searched, but on which nothing found fits the memory.
    """

    rows: Sequence[Row]
    totals: Sequence[Row]
    curves: Mapping[tuple[str, str], Band]
    left_out: Sequence[Case]


def judge(evaluation: Evaluation, entries: Sequence[Entry], archive: Archive) -> Standings:
    """Count everything.

    The score of a search is the iteration time of the best strategy that is known of the problem, over that of the best
    it had found: 1 is as good as all that anybody has found.

    Args:
        evaluation: that was held.
        entries: what is complete of it.
        archive: all of whose searches may have found what is best known.
    """
    return _Judge(evaluation, entries, best_known_ms(entries, archive)).standings()


def best_known_ms(entries: Sequence[Entry], archive: Archive) -> dict[Case, float]:
    """For each problem the least iteration time, of strategies that fit the memory, of anything in the archive."""
    runs = [run for run in find_runs(archive.folder) if run.status is Status.FINISHED and run.record["fits_memory"]]
    labels = dict(zip((run.folder for run in runs), problem_labels(runs), strict=True))
    best: dict[str, float] = {}
    for run in runs:
        label = labels[run.folder]
        best[label] = min(best.get(label, np.inf), run.record["best_ms"])
    found = [(entry.case, labels.get(search.folder)) for entry in entries for search in entry.searches]
    return {case: best[label] for case, label in found if label is not None}


class _Judge:
    """Looks up what an entrant had at a checkpoint, and adds it up."""

    def __init__(self, evaluation: Evaluation, entries: Sequence[Entry], best_ms: Mapping[Case, float]) -> None:
        self._evaluation, self._best_ms = evaluation, best_ms
        self._entries = {(e.case, e.entrant.name, e.unit, e.budget): e for e in entries}
        self._rng = np.random.default_rng(SEED)

    def standings(self) -> Standings:
        """All tables."""
        searched = {case for case, *_ in self._entries}
        left_out = [case for case in self._evaluation.cases if case in searched and case not in self._best_ms]
        cases = [case for case in self._evaluation.cases if case not in left_out]
        rows = [
            self._row(case, entrant, unit, at, entry)
            for case in cases
            for unit in UNITS
            for at in self._evaluation.checkpoints[unit]
            for entrant in self._evaluation.entrants
            if (entry := self._entry(case, entrant, unit, at)) is not None
        ]
        groups: dict[str, list[Case]] = {}
        for case in cases:
            groups.setdefault(case.cluster, []).append(case)
        if len(groups) > 1:
            groups = {ALL: cases} | groups
        totals = [row for name, group in groups.items() for row in self._totals(name, group)]
        curves = dict(curve for name, group in groups.items() for curve in self._curves(name, group))
        return Standings(rows, totals, curves, left_out)

    def _entry(self, case: Case, entrant: Entrant, unit: Unit, at: float) -> Entry | None:
        """The searches that say what an entrant has at a checkpoint, those with the largest budget if several do."""
        checkpoints = self._evaluation.checkpoints[unit]
        budgets = [budget for budget in reversed(checkpoints) if budget >= at] if entrant.is_anytime else [at]
        found = (self._entries.get((case, entrant.name, unit, budget)) for budget in budgets)
        return next((entry for entry in found if entry is not None), None)

    def _scores(self, entry: Entry, at: Floats) -> Floats:
        """(seeds, points) scores."""
        data_parallel_ms: float = entry.searches[0].record["data_parallel_ms"]
        return entry.speedups(at) * self._best_ms[entry.case] / data_parallel_ms

    def _tasks(self, group: Sequence[Case], entrant: Entrant, unit: Unit, at: float) -> list[Entry] | None:
        """What an entrant has on all problems of a group; None if one is missing."""
        found = [self._entry(case, entrant, unit, at) for case in group]
        tasks = [entry for entry in found if entry is not None]
        return tasks if len(tasks) == len(group) else None

    def _row(self, case: Case, entrant: Entrant, unit: Unit, at: float, entry: Entry) -> Row:
        here = np.array([at])
        records = [search.record for search in entry.searches]
        return {
            "model": case.model,
            "cluster": case.cluster,
            "topology": records[0]["topology"],
            "num_devices": records[0]["num_devices"],
            "contestant": entrant.name,
            "unit": unit,
            "checkpoint": at,
            "num_seeds": len(records),
            **mean_columns("speedup", [entry.speedups(here)], self._rng),
            **mean_columns("score", [self._scores(entry, here)], self._rng),
            "data_parallel_ms": records[0]["data_parallel_ms"],
            "best_known_ms": self._best_ms[case],
            "budget": entry.budget,
            "simulations": median(record["simulations"] for record in records),
            "search_seconds": median(record["search_seconds"] for record in records),
            "num_fitting": sum(record["fits_memory"] for record in records),
            "pretraining_seconds": entrant.costs[case.model].seconds,
            "pretraining_simulations": entrant.costs[case.model].simulations,
        }

    def _totals(self, name: str, group: Sequence[Case]) -> Iterator[Row]:
        evaluation = self._evaluation
        references = {entrant.name: entrant for entrant in evaluation.entrants}
        for unit in UNITS:
            for at in evaluation.checkpoints[unit]:
                reference = self._tasks(group, references[evaluation.reference], unit, at)
                for entrant in evaluation.entrants:
                    tasks = self._tasks(group, entrant, unit, at)
                    if tasks is not None:
                        yield self._total(name, entrant, unit, at, tasks, reference)

    def _total(
        self,
        group: str,
        entrant: Entrant,
        unit: Unit,
        at: float,
        tasks: Sequence[Entry],
        reference: Sequence[Entry] | None,
    ) -> Row:
        scores = [self._scores(entry, np.array([at])) for entry in tasks]
        row: dict[str, Any] = {"group": group, "num_problems": len(tasks), "contestant": entrant.name}
        row |= {"unit": unit, "checkpoint": at}
        row |= mean_columns("score", scores, self._rng)
        if reference is not None:
            theirs = [self._scores(entry, np.array([at]))[:, 0] for entry in reference]
            figures = improvement([own[:, 0] for own in scores], theirs, self._rng)
            row |= interval_columns("improvement", *figures)
        near = performance_profile([own[:, 0] for own in scores], np.array([NEAR]), self._rng)
        ends = (None if end is None else float(end[0]) for end in (near.low, near.high))
        row |= interval_columns("near_best", float(near.y[0]), *ends)
        if unit == "simulations" and at == self._evaluation.checkpoints[unit][-1]:
            areas = [own.mean(axis=1, keepdims=True) for own in self._paths(tasks)]
            row |= mean_columns("area", areas, self._rng)
        return row | _pretraining([entrant.costs[entry.case.model] for entry in tasks])

    def _curves(self, name: str, group: Sequence[Case]) -> Iterator[tuple[tuple[str, str], Band]]:
        checkpoints = self._evaluation.checkpoints["simulations"]
        for entrant in self._evaluation.entrants if checkpoints else ():
            for at in reversed(checkpoints):
                tasks = self._tasks(group, entrant, "simulations", at)
                if tasks is not None:
                    x = self._positions(at)
                    yield (name, entrant.name), Band(x, *interquartile_means(self._paths(tasks, at), self._rng))
                    break

    def _positions(self, end: float) -> Floats:
        """Simulations at equal distances of their logarithm."""
        return np.geomspace(self._evaluation.area_from, end, NUM_POINTS)

    def _paths(self, tasks: Sequence[Entry], end: float | None = None) -> list[Floats]:
        """(seeds, points) scores along the searches."""
        x = self._positions(end if end is not None else self._evaluation.checkpoints["simulations"][-1])
        return [self._scores(entry, x) for entry in tasks]


def _pretraining(costs: Sequence[Cost]) -> dict[str, float]:
    """Mean over the policies; one serves several problems."""
    policies = set(costs)
    return {
        "pretraining_seconds": sum(cost.seconds for cost in policies) / len(policies),
        "pretraining_simulations": sum(cost.simulations for cost in policies) / len(policies),
    }
