"""StrategyDiff: in what two strategies differ, what each difference is worth, and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from experiments.explanation import NS_PER_MS, WORDS, explain
from experiments.scene import Scene
from experiments.strategy_picture import degrees_text, strategy_scene
from sim.breakdown import layer_name
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.task_graph_builder import build_task_graph

FORMAT_VERSION = 1

LEAST_MENTIONED = 0.1
"""Of the category that changes most, for another to be named beside it."""

MAX_DEVICES = 4
"""That a table lists."""

LEAST_NOTED = 0.002
"""Of the iteration time, to be written into the picture."""


@dataclass(frozen=True, slots=True)
class Reason:
    """By how much a difference changes the critical path, in ms; the first three add up to what it is worth.

    Attributes:
        compute_ms: computing on the path.
        transfer_ms: transfers and exchanges on it.
        synchronisation_ms: synchronisation on it.
        queued_ms: of these, what the next task only waited for since it occupied a device or connection.
        communication_bytes: of the whole iteration.
    """

    compute_ms: float
    transfer_ms: float
    synchronisation_ms: float
    queued_ms: float
    communication_bytes: float


@dataclass(frozen=True, slots=True)
class Difference:
    """Operators whose configs differ, priced by delta simulation; less than 0 is faster.

    Attributes:
        name: of the operator, or of the layer.
        operators: their positions.
        alone_ms: the change when the first strategy gets the other's configs of these operators alone.
        last_ms: the change that they make when all other differences have been made before.
        reason: mean over both; None for differences too small to be explained.
    """

    name: str
    operators: tuple[int, ...]
    alone_ms: float
    last_ms: float
    reason: Reason | None = None

    @property
    def worth_ms(self) -> float:
        """Mean of the first and the last place that the change may have."""
        return (self.alone_ms + self.last_ms) / 2


@dataclass(frozen=True, slots=True)
class StrategyDiff:
    """Two strategies for one problem.

    Attributes:
        names: what they are called.
        strategies: both.
        iteration_ms: of each.
        total: why they differ as a whole.
        operators: their differences by operator, the largest first.
        layers: by layers of which several operators differ, the largest first; none if there are no such layers.
    """

    names: tuple[str, str]
    strategies: tuple[Strategy, Strategy]
    iteration_ms: tuple[float, float]
    total: Reason
    operators: Sequence[Difference]
    layers: Sequence[Difference]

    def to_dict(self) -> dict[str, Any]:
        """The content of diff.json."""
        return {
            "format_version": FORMAT_VERSION,
            "strategy": self.names[0],
            "other": self.names[1],
            "strategy_hash": self.strategies[0].hash,
            "other_hash": self.strategies[1].hash,
            "strategy_ms": self.iteration_ms[0],
            "other_ms": self.iteration_ms[1],
            "reason": _fields(self.total),
            "operators": [self._entry(difference) for difference in self.operators],
            "layers": [self._entry(difference) for difference in self.layers],
        }

    def _entry(self, difference: Difference) -> dict[str, Any]:
        graph = self.strategies[0].graph
        configs = [
            [{"degrees": list(strategy[i].degrees), "devices": list(strategy[i].devices)} for i in difference.operators]
            for strategy in self.strategies
        ]
        return {
            "name": difference.name,
            "operators": [graph.operators[i].name for i in difference.operators],
            "configs": configs[0],
            "other_configs": configs[1],
            "alone_ms": difference.alone_ms,
            "last_ms": difference.last_ms,
            "worth_ms": difference.worth_ms,
            "reason": _fields(difference.reason) if difference.reason else None,
        }


def diff_strategies(
    problem: Problem, strategies: tuple[Strategy, Strategy], *, names: tuple[str, str], num_explained: int
) -> StrategyDiff:
    """Price every difference, and say why the largest are worth what they are.

    Args:
        problem: what both are for.
        strategies: the first and the other.
        names: what they are called.
        num_explained: operators, and as many layers, that get a reason: each takes two task graphs.
    """
    first, other = strategies
    differing = [i for i in range(len(problem.graph)) if first[i] != other[i]]
    layers: dict[str, list[int]] = {}
    for i in differing:
        layers.setdefault(layer_name(problem.graph.operators[i]), []).append(i)
    units = {
        "operators": {problem.graph.operators[i].name: [i] for i in differing},
        "layers": {name: members for name, members in layers.items() if len(members) > 1},
    }
    reason = partial(_reason, strategies, _cache(problem))
    found = {}
    for level, members in units.items():
        differences = sorted(_priced(problem, strategies, members), key=lambda d: -abs(d.worth_ms))
        found[level] = [
            replace(difference, reason=reason(difference.operators)) for difference in differences[:num_explained]
        ] + differences[num_explained:]
    costs = [problem.simulation(strategy).cost_ns / NS_PER_MS for strategy in strategies]
    return StrategyDiff(names, strategies, (costs[0], costs[1]), reason(tuple(differing)), **found)


def _priced(
    problem: Problem, strategies: tuple[Strategy, Strategy], units: Mapping[str, list[int]]
) -> list[Difference]:
    """Each unit switched alone, from either end, by delta simulation."""
    changes = dict.fromkeys(units, (0.0, 0.0))
    for number, (start, target) in enumerate((strategies, strategies[::-1])):
        simulation = problem.simulation(start)
        for name, members in units.items():
            proposal = simulation.propose_together({i: target[i] for i in members})
            change = (proposal.cost_ns - simulation.cost_ns) / NS_PER_MS
            simulation.reject()
            changes[name] = (change, 0.0) if number == 0 else (changes[name][0], -change)
    return [Difference(name, tuple(units[name]), *both) for name, both in changes.items()]


Measure = Callable[[Strategy], tuple[float, ...]]


def _cache(problem: Problem) -> Measure:
    """The critical path of a strategy by category; each strategy is taken apart once."""
    found: dict[str, tuple[float, ...]] = {}

    def measure(strategy: Strategy) -> tuple[float, ...]:
        if strategy.hash not in found:
            task_graph = build_task_graph(problem, strategy)
            task_graph.simulate()
            path_ms = explain(problem, task_graph).path_ms()
            found[strategy.hash] = (*path_ms.values(), float(task_graph.communication_bytes))
        return found[strategy.hash]

    return measure


def _reason(strategies: tuple[Strategy, Strategy], measure: Measure, members: tuple[int, ...]) -> Reason:
    first, other = strategies
    alone = _with(first, {i: other[i] for i in members})
    before_last = _with(other, {i: first[i] for i in members})
    times = zip(*map(measure, (first, alone, before_last, other)), strict=True)
    return Reason(*((b - a + d - c) / 2 for a, b, c, d in times))


def _with(strategy: Strategy, changes: Mapping[int, ParallelConfig]) -> Strategy:
    configs = [changes.get(i, config) for i, config in enumerate(strategy.configs)]
    return Strategy(strategy.graph, strategy.topology, configs)


def _fields(reason: Reason) -> dict[str, float]:
    return {name: getattr(reason, name) for name in reason.__slots__}


def diff_scene(diff: StrategyDiff) -> Scene:
    """Both strategies in one picture, with the worth of each difference."""
    least_ms = LEAST_NOTED * diff.iteration_ms[0]
    notes = {d.operators[0]: f"{d.worth_ms:+.1f} ms" for d in diff.operators if abs(d.worth_ms) >= least_ms}
    graph, topology = diff.strategies[0].graph, diff.strategies[0].topology
    times = [f"{name} ({ms:.3f} ms)" for name, ms in zip(diff.names, diff.iteration_ms, strict=True)]
    return strategy_scene(
        diff.strategies,
        title=f"{graph.name} on {topology.num_devices} devices of {topology.name}",
        key=f"above: {times[0]}; below: {times[1]}; faded: no difference; red: worth of the difference",
        notes=notes,
    )


def diff_tables(diff: StrategyDiff) -> Stack:
    """What a terminal shows: the differences that have a reason."""
    first_ms, other_ms = diff.iteration_ms
    num_operators = len(diff.strategies[0].graph)
    lines = [
        Text(
            f"from {diff.names[0]} ({first_ms:.3f} ms) to {diff.names[1]} ({other_ms:.3f} ms): "
            f"{other_ms - first_ms:+.3f} ms; {len(diff.operators)} of {num_operators} operators differ"
        ),
        Text(f"  {_words(diff.total)}"),
        Text("  alone: nothing else changes; last: all else has changed before; worth: the mean of both"),
    ]
    tables = [
        _table(diff, name, level) for name, level in (("layer", diff.layers), ("operator", diff.operators)) if level
    ]
    unexplained = len(diff.operators) - sum(d.reason is not None for d in diff.operators)
    if unexplained:
        lines.append(Text(f"  the {unexplained} smaller differences of operators are in diff.json"))
    return Stack(*tables, *lines)


def _words(reason: Reason) -> str:
    """Where the critical path becomes shorter or longer."""
    changes = [(getattr(reason, f"{category}_ms"), category) for category in WORDS]
    parts = [f"{category} {change:+.3f} ms" for change, category in sorted(changes, key=lambda c: -abs(c[0]))]
    return f"on the critical path: {', '.join(parts)}; queueing is {reason.queued_ms:+.3f} ms of it"


def _table(diff: StrategyDiff, what: str, differences: Sequence[Difference]) -> Table:
    table = Table(title=f"differences by {what}, in ms; less is faster", title_justify="left", title_style="bold")
    table.add_column(what)
    table.add_column("change")
    for column in ("worth", "alone", "last"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("on the critical path")
    for difference in differences:
        if difference.reason is not None:
            times = (difference.worth_ms, difference.alone_ms, difference.last_ms)
            change = _change(diff.strategies, difference.operators)
            table.add_row(difference.name, change, *(f"{ms:+.2f}" for ms in times), _main_words(difference.reason))
    return table


def _main_words(reason: Reason) -> str:
    """The categories that change most."""
    changes = sorted(((getattr(reason, f"{category}_ms"), category) for category in WORDS), key=lambda c: -abs(c[0]))
    largest = abs(changes[0][0])
    shown = [f"{category} {ms:+.2f}" for ms, category in changes if abs(ms) >= LEAST_MENTIONED * largest]
    return ", ".join(shown) if largest else "nothing"


def _change(strategies: Sequence[Strategy], operators: Sequence[int]) -> str:
    """Degrees before and after; where these are equal, devices."""
    graph = strategies[0].graph
    degrees = [
        ", ".join(dict.fromkeys(degrees_text(graph.operators[i], strategy[i]) for i in operators))
        for strategy in strategies
    ]
    if degrees[0] != degrees[1]:
        return " → ".join(degrees)
    if len(operators) > 1 or len(strategies[0][operators[0]].devices) > MAX_DEVICES:
        return f"{degrees[0]}, other devices"
    return " → ".join(f"device {','.join(map(str, strategy[operators[0]].devices))}" for strategy in strategies)
