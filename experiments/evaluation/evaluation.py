"""Evaluation: who searches what, within which budgets, with which seeds; and what of it is finished."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from experiments.archive import Archive, FinishedSearch, Overrides
from experiments.comparison.bands import Floats
from experiments.errors import OptionError
from experiments.evaluation.curves import UNITS, Unit, speedups
from experiments.evaluation.entrants import Entrant, make_entrant
from experiments.figures.equal_seconds import warm_up


@dataclass(frozen=True, slots=True)
class Case:
    """A problem of the evaluation.

    Attributes:
        model: name.
        cluster: what the evaluation calls the devices.
        words: overrides of run.py.
    """

    model: str
    cluster: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Search:
    """A search that belongs to an evaluation."""

    case: Case
    entrant: Entrant
    unit: Unit
    budget: float
    seed: int

    @property
    def overrides(self) -> Overrides:
        simulations = self.budget if self.unit == "simulations" else "null"
        seconds = (f"budget.seconds={self.budget}",) if self.unit == "seconds" else ()
        budget = (f"budget.simulations={simulations}", *seconds, f"seed={self.seed}")
        return (*self.case.words, *self.entrant.words[self.case.model], *budget)


@dataclass(frozen=True, slots=True)
class Entry:
    """The searches of an entrant on a problem within a budget.

    Attributes:
        case: the problem.
        entrant: the searcher.
        unit: of the budget.
        budget: of each search.
        searches: finished, one for each seed.
    """

    case: Case
    entrant: Entrant
    unit: Unit
    budget: float
    searches: Sequence[FinishedSearch]

    def speedups(self, at: Floats) -> Floats:
        """(seeds, points) best so far after so many simulations, or seconds."""
        return np.stack([speedups(search, self.unit, at) for search in self.searches])


class Evaluation:
    """Learned and classical searchers on the same problems with the same budgets.

    A searcher whose shorter searches are beginnings of its longer ones (``Agent.is_anytime``) searches once with
    the largest budget, and what it had at the smaller ones is read off its curve; others search once for each.

    Args:
        models: names.
        clusters: for each name, overrides of run.py that choose devices.
        contestants: for each name, overrides of run.py that choose a searcher; ``{held_out}`` in them stands for the
            model's family.
        entered: names of the contestants that take part; None: all.
        held_on: names of the clusters that are searched; None: all.
        reference: the contestant whom the others are compared with.
        simulations: budgets, and so the checkpoints of best-so-far.
        seconds: likewise.
        seeds: of each search.
        area_from: simulations at which the area under the best-so-far curve begins.
        missing: ``search`` for what the archive lacks, or ``skip`` it.

    Raises:
        OptionError: a name or number that makes no sense.
        PolicyFileError: a policy file that is missing, or of no use here.
    """

    def __init__(
        self,
        *,
        models: Sequence[str],
        clusters: Mapping[str, Sequence[str]],
        contestants: Mapping[str, Sequence[str]],
        entered: Sequence[str] | None,
        held_on: Sequence[str] | None,
        reference: str,
        simulations: Sequence[int],
        seconds: Sequence[float],
        seeds: Sequence[int],
        area_from: int,
        missing: Literal["search", "skip"],
    ) -> None:
        names = _chosen("entered", entered, contestants)
        self.clusters = _chosen("held_on", held_on, clusters)
        if reference not in names:
            raise OptionError("evaluation.reference", f"{reference!r} is none of {', '.join(names)}")
        for name, values in (("models", models), ("seeds", seeds), ("simulations", [*simulations, *seconds])):
            if not values:
                raise OptionError(f"evaluation.{name}", "there must be at least one")
        for value in (*simulations, *seconds):
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise OptionError("evaluation.simulations, evaluation.seconds", f"{value!r} is not a positive number")
        if simulations and not 0 < area_from < max(simulations):
            raise OptionError("evaluation.area_from", f"{area_from} is not between 0 and {max(simulations)}")
        self.reference, self.seeds, self.area_from = reference, list(seeds), area_from
        self.checkpoints: dict[Unit, list[float]] = {"simulations": sorted(simulations), "seconds": sorted(seconds)}
        self.is_searching = missing == "search"
        self.cases = [
            Case(model, cluster, (f"model={model}", *clusters[cluster]))
            for cluster in self.clusters
            for model in models
        ]
        self.entrants = [make_entrant(name, contestants[name], models) for name in names]

    def hold(self, archive: Archive) -> list[Entry]:
        """Search what the archive lacks, or skip it; returns what is complete, that is, has all its seeds."""
        planned = [search for unit in UNITS for search in self._planned(unit)]
        overrides = [search.overrides for search in planned]
        found: list[FinishedSearch | None]
        if self.is_searching:
            if self.checkpoints["seconds"]:
                warm_up([entrant.words[self.cases[0].model] for entrant in self.entrants])
            found = [*archive.searches(overrides)]
        else:
            found = archive.kept(overrides)
        groups: dict[tuple[Case, str, Unit, float], list[tuple[_Search, FinishedSearch | None]]] = {}
        for search, result in zip(planned, found, strict=True):
            key = (search.case, search.entrant.name, search.unit, search.budget)
            groups.setdefault(key, []).append((search, result))
        entries = []
        for pairs in groups.values():
            finished = [result for _, result in pairs if result is not None]
            if len(finished) == len(pairs):
                first = pairs[0][0]
                entries.append(Entry(first.case, first.entrant, first.unit, first.budget, finished))
        return entries

    def _planned(self, unit: Unit) -> list[_Search]:
        """All seeds of a problem come after all problems' first, so that what is there after a while is even."""
        return [
            _Search(case, entrant, unit, budget, seed)
            for number, seed in enumerate(self.seeds)
            for case in self.cases
            for entrant in self.entrants
            for budget in self._budgets(entrant, unit)
            if number == 0 or entrant.is_seeded
        ]

    def _budgets(self, entrant: Entrant, unit: Unit) -> list[float]:
        """Where nothing is searched, a smaller budget may do for the smaller checkpoints."""
        checkpoints = self.checkpoints[unit]
        return checkpoints[-1:] if entrant.is_anytime and self.is_searching else checkpoints


def _chosen(key: str, names: Sequence[str] | None, known: Mapping[str, object]) -> list[str]:
    """The names, or all there are.

    Raises:
        OptionError: one that there is not.
    """
    for name in names or ():
        if name not in known:
            raise OptionError(f"evaluation.{key}", f"{name!r} is none of {', '.join(known)}")
    return list(names if names is not None else known)
