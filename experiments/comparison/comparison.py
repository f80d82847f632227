"""Comparison: four tables, of runs, searchers, pairs of searchers and curves, from which all that is shown is taken."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np

from experiments.comparison.bands import (
    Band,
    Floats,
    best_so_far,
    improvement,
    interval_columns,
    mean_columns,
    performance_profile,
)
from experiments.comparison.found_run import FoundRun, Status
from experiments.comparison.labels import agent_labels, choices, problem_labels

Row: TypeAlias = Mapping[str, Any]

ALL_PROBLEMS = "all problems"

NUM_SCORES = 60
"""Points of a performance profile."""

SEED = 0
"""Of the bootstrap."""

RECORDED = (
    *("model", "topology", "num_devices"),
    *("best_ms", "speedup", "data_parallel_ms", "lower_bound_ms", "fits_memory", "is_one_opt", "communication_bytes"),
    *("simulations", "cutoffs", "search_seconds", "attempts", "strategy_hash", "commit"),
)
"""Fields of the record that a row of a run repeats."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that was found.

    Attributes:
        runs: a row for each run folder.
        agents: a row for each searcher on each problem, and on all of them.
        pairs: a row for each ordered pair of searchers on each problem, and on all of them.
        curves: a row for each point of each curve and profile.
    """

    runs: Sequence[Row]
    agents: Sequence[Row]
    pairs: Sequence[Row]
    curves: Sequence[Row]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A run with its labels."""

    run: FoundRun
    problem: str
    agent: str


def compare(runs: Sequence[FoundRun], root: Path) -> Comparison:
    """Compare runs.

    Args:
        runs: as they were found.
        root: the folder that rows name run folders from.
    """
    with_record = [run for run in runs if run.record]
    problems = problem_labels(with_record)
    agents = agent_labels(with_record, problems)
    entries = [_Entry(*labelled) for labelled in zip(with_record, problems, agents, strict=True)]
    entries = _without_repetitions(entries, root)
    counted = [entry for entry in entries if entry.run.status is Status.FINISHED]
    groups: dict[str, dict[str, list[FoundRun]]] = {}
    for entry in sorted(counted, key=lambda entry: (entry.problem, entry.agent)):
        groups.setdefault(entry.problem, {}).setdefault(entry.agent, []).append(entry.run)
    rng = np.random.default_rng(SEED)
    # Only those that ran on every problem can be compared on all of them.
    shared = [agent for agent in next(iter(groups.values()), {}) if all(agent in found for found in groups.values())]
    tasks = {problem: {agent: [_scores(found)] for agent, found in group.items()} for problem, group in groups.items()}
    if len(groups) > 1 and shared:
        tasks[ALL_PROBLEMS] = {agent: [_scores(group[agent]) for group in groups.values()] for agent in shared}
    unlabelled = [_Entry(run, "", "") for run in runs if not run.record]
    ordered = sorted([*entries, *unlabelled], key=lambda entry: (entry.problem == "", entry.problem, entry.agent))
    return Comparison(
        runs=[_run_row(entry, root) for entry in ordered],
        agents=[
            _agent_row(problem, agent, scores, groups.get(problem, {}).get(agent, []), rng)
            for problem, group in tasks.items()
            for agent, scores in group.items()
        ],
        pairs=[row for problem, group in tasks.items() for row in _pair_rows(problem, group, rng)],
        curves=[
            *(row for problem, group in groups.items() for row in _curve_rows(problem, group, rng)),
            *(row for problem, group in tasks.items() for row in _profile_rows(problem, group, rng)),
        ],
    )


def _speedup(record: Mapping[str, Any]) -> float:
    """That of the strategy; 0 if it exceeds a device's memory and cannot run, as in ``experiments.evaluation``."""
    return float(record["speedup"]) if record["fits_memory"] else 0.0


def _scores(runs: Iterable[FoundRun]) -> Floats:
    return np.array([_speedup(run.record) for run in runs], np.float64)


def _without_repetitions(entries: Sequence[_Entry], root: Path) -> list[_Entry]:
    """Mark all but the last of the finished runs that had the same seed: they are no further samples."""
    last: dict[tuple[str, str, int], Path] = {}
    for entry in entries:
        if entry.run.status is Status.FINISHED:
            last[entry.problem, entry.agent, entry.run.record["seed"]] = entry.run.folder
    marked = []
    for entry in entries:
        kept = last.get((entry.problem, entry.agent, entry.run.record["seed"]))
        if entry.run.status is Status.FINISHED and kept != entry.run.folder and kept is not None:
            reason = f"the same search and seed as {kept.relative_to(root)}"
            entry = replace(entry, run=replace(entry.run, status=Status.REPEATED, reason=reason))
        marked.append(entry)
    return marked


def _run_row(entry: _Entry, root: Path) -> Row:
    run, record = entry.run, entry.run.record
    row: dict[str, Any] = {
        "folder": run.folder.relative_to(root).as_posix(),
        "status": run.status.value,
        "reason": run.reason,
        "problem": entry.problem,
        "agent": entry.agent,
        "seed": record.get("seed"),
    }
    row |= {key: record.get(key) for key in RECORDED}
    row |= choices(record) if record else dict.fromkeys(("cost", "space", "sync"))
    return row | {"speedup": _speedup(record) if record else None, "gap": _gap(record) if record else None}


def _gap(record: Mapping[str, Any]) -> float | None:
    """Certified; none for a strategy that cannot run, which may be faster than what bounds those that can."""
    return 1 - record["lower_bound_ms"] / record["best_ms"] if record["fits_memory"] else None


def _agent_row(
    problem: str, agent: str, tasks: Sequence[Floats], runs: Sequence[FoundRun], rng: np.random.Generator
) -> Row:
    """What a searcher found; ``runs`` are those on this one problem, none for all problems.

    Times are of the runs whose strategy fits the memory; of all if none does.
    """
    row: dict[str, Any] = {"problem": problem, "agent": agent, "num_runs": sum(map(len, tasks))}
    row |= mean_columns("speedup", [scores[:, None] for scores in tasks], rng)
    if not runs:
        return row
    records = [run.record for run in runs]
    fitting = [record for record in records if record["fits_memory"]]
    timed = fitting or records
    fastest = min(timed, key=lambda record: record["best_ms"])
    row |= mean_columns("best_ms", [np.array([[record["best_ms"]] for record in timed], np.float64)], rng)
    row |= {
        "fastest_ms": fastest["best_ms"],
        "lower_bound_ms": fastest["lower_bound_ms"],
        "gap": _gap(fastest),
        "num_fitting": len(fitting),
    }
    return row | {key: median(record[key] for record in records) for key in ("simulations", "search_seconds")}


def _pair_rows(problem: str, group: Mapping[str, Sequence[Floats]], rng: np.random.Generator) -> Iterable[Row]:
    """Both orders of each pair; a tie counts half, so that their probabilities add up to one."""
    for first, second in combinations(group, 2):
        chance, low, high = improvement(group[first], group[second], rng)
        mirrored = (None if end is None else 1 - end for end in (high, low))
        figures = interval_columns("probability", chance, low, high)
        yield {"problem": problem, "agent": first, "other": second, **figures}
        figures = interval_columns("probability", 1 - chance, *mirrored)
        yield {"problem": problem, "agent": second, "other": first, **figures}


def _curve_rows(problem: str, group: Mapping[str, Sequence[FoundRun]], rng: np.random.Generator) -> Iterable[Row]:
    for agent, runs in group.items():
        curves = [run.curve for run in runs if run.curve and run.record["fits_memory"]]
        if curves:
            for axis in ("simulations", "seconds"):
                yield from _points(problem, agent, axis, best_so_far(curves, axis, rng))


def _profile_rows(problem: str, group: Mapping[str, Sequence[Floats]], rng: np.random.Generator) -> Iterable[Row]:
    every = np.concatenate([scores for tasks in group.values() for scores in tasks])
    at = np.linspace(every.min(), every.max(), NUM_SCORES) if every.min() < every.max() else every[:1]
    for agent, tasks in group.items():
        yield from _points(problem, agent, "profile", performance_profile(tasks, at, rng))


def _points(problem: str, agent: str, figure: str, band: Band) -> Iterable[Row]:
    for number, (x, y) in enumerate(zip(band.x.tolist(), band.y.tolist(), strict=True)):
        low, high = (None if ends is None else float(ends[number]) for ends in (band.low, band.high))
        yield {"problem": problem, "agent": agent, "figure": figure, "x": x, "y": y, "low": low, "high": high}
