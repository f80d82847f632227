"""Explanation: what one iteration of a strategy spends its time on, and what it waits for."""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from sim.breakdown import Category, Group, Shares, device_shares, path_groups, task_groups
from sim.critical_path import CriticalTask, critical_tasks
from sim.problem import Problem
from sim.task_graph import TaskGraph

FORMAT_VERSION = 1

NS_PER_MS = 1e6

SHARE_NAMES = ("compute", "transfer", "synchronisation", "idle")
WORDS: dict[Category, str] = {
    "compute": "computes",
    "transfer": "waits for transfers of",
    "synchronisation": "waits for the synchronisation of",
}
LEAST_SHARE = 0.005
"""Of the iteration, to be worth a word."""

NUM_NAMED = 3
"""Layers that a sentence names."""

MAX_DEVICE_ROWS = 16
"""With more devices, the terminal shows a row for each node."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A simulated task graph, taken apart.

    Attributes:
        problem: what is simulated.
        task_graph: with its times.
        devices: what each compute device spends the iteration on.
        groups: all tasks by category and layer.
        path: the critical path.
        path_groups: its tasks by category and layer; they add up to the makespan.
    """

    problem: Problem
    task_graph: TaskGraph
    devices: Sequence[Shares]
    groups: Sequence[Group]
    path: Sequence[CriticalTask]
    path_groups: Sequence[Group]

    def path_ms(self) -> dict[str, float]:
        """The critical path by category, and how much of it is queued."""
        sums: dict[str, int] = dict.fromkeys((*WORDS, "queued"), 0)
        for group in self.path_groups:
            sums[group.category] += group.total_ns
            sums["queued"] += group.queued_ns
        return {name: total_ns / NS_PER_MS for name, total_ns in sums.items()}

    def to_dict(self) -> dict[str, Any]:
        """The content of breakdown.json."""
        names = self.task_graph.device_names
        return {
            "format_version": FORMAT_VERSION,
            "iteration_ms": self.task_graph.makespan / NS_PER_MS,
            "devices": [
                {"device": names[number], **_in_ms(zip(SHARE_NAMES, astuple(shares), strict=True))}
                for number, shares in enumerate(self.devices)
            ],
            "operator_kinds": self.kinds(),
            "connections": [{"connection": name, "busy_ms": busy_ms} for name, busy_ms in self.connections()],
            "critical_path": {
                "num_tasks": len(self.path),
                **{f"{name}_ms": time for name, time in self.path_ms().items()},
                "groups": [
                    {
                        "category": group.category,
                        "layer": group.layer,
                        "operator_kind": group.kind,
                        "num_tasks": group.num_tasks,
                        **_in_ms((("total", group.total_ns), ("queued", group.queued_ns))),
                    }
                    for group in self.path_groups
                ],
                "words": critical_words(self),
            },
        }

    def kinds(self) -> list[dict[str, Any]]:
        """Time of all tasks by the kind of their operators, over all devices and connections, the longest first."""
        found: dict[str, dict[str, Any]] = {}
        for source, name in ((self.groups, ""), (self.path_groups, "critical_path")):
            for group in source:
                row = found.setdefault(
                    group.kind,
                    {"kind": group.kind, **dict.fromkeys((f"{c}_ms" for c in (*WORDS, "critical_path")), 0.0)},
                )
                row[f"{name or group.category}_ms"] += group.total_ns / NS_PER_MS
        return sorted(found.values(), key=lambda row: -sum(row[f"{category}_ms"] for category in WORDS))

    def connections(self) -> list[tuple[str, float]]:
        """Time in ms for which each connection in use is occupied, the busiest first."""
        first, busy_ns = self.task_graph.num_compute_devices, dict[str, int]()
        for task in self.task_graph.tasks:
            for device in task.devices:
                if device >= first:
                    name = self.task_graph.device_names[device]
                    busy_ns[name] = busy_ns.get(name, 0) + task.exe_time
        return sorted(((name, ns / NS_PER_MS) for name, ns in busy_ns.items()), key=lambda entry: -entry[1])


def explain(problem: Problem, task_graph: TaskGraph) -> Explanation:
    """Take a simulated task graph apart."""
    path = critical_tasks(task_graph)
    return Explanation(
        problem=problem,
        task_graph=task_graph,
        devices=device_shares(task_graph),
        groups=task_groups(problem, task_graph.tasks),
        path=path,
        path_groups=path_groups(problem, task_graph, path),
    )


def critical_words(explanation: Explanation) -> list[str]:
    """The critical path in sentences, the longest category first."""
    total_ns = explanation.task_graph.makespan
    sentences = []
    for category, words in WORDS.items():
        groups = [group for group in explanation.path_groups if group.category == category and group.total_ns]
        if groups:
            share = sum(group.total_ns for group in groups) / total_ns
            sentences.append((share, f"{share:.0%} {words} {_named(groups, total_ns)}"))
    lines = [sentence for _, sentence in sorted(sentences, reverse=True)]
    queued = sum(g.queued_ns for g in explanation.path_groups if g.category != "compute") / total_ns
    if queued >= LEAST_SHARE:
        lines.append(f"{queued:.0%} is messages in a queue: the next was ready, but its connections were occupied")
    return lines


def _named(groups: Sequence[Group], total_ns: int) -> str:
    """The layers that take longest, with their shares of the iteration, and how many more there are."""
    shown = [group for group in groups[:NUM_NAMED] if group.total_ns >= LEAST_SHARE * total_ns]
    if not shown:
        return f"{groups[0].layer}{f' and {len(groups) - 1} more' if len(groups) > 1 else ''}"
    named = ", ".join(f"{group.layer} ({group.total_ns / total_ns:.0%})" for group in shown)
    num_more = len(groups) - len(shown)
    return f"{named} and {num_more} more" if num_more else named


def explanation_tables(explanation: Explanation) -> Stack:
    """What a terminal shows."""
    lines = [Text(f"  {line}") for line in critical_words(explanation)]
    title = Text(f"The critical path of {len(explanation.path)} tasks:")
    return Stack(_device_table(explanation), _kind_table(explanation), title, *lines)


def _device_table(explanation: Explanation) -> Table:
    """Shares of the iteration: a row for each device, or for each node if there are many."""
    rows: dict[str, list[Shares]] = {}
    devices = explanation.problem.topology.devices
    for device, shares in zip(devices, explanation.devices, strict=True):
        name = device.name if len(devices) <= MAX_DEVICE_ROWS else f"node {device.node}, mean"
        rows.setdefault(name, []).append(shares)
    table = _table("share of the iteration", *SHARE_NAMES)
    total_ns = explanation.task_graph.makespan
    for name, members in rows.items():
        sums = [sum(times) for times in zip(*map(astuple, members), strict=True)]
        table.add_row(name, *(f"{time / len(members) / total_ns:.1%}" for time in sums))
    return table


def _kind_table(explanation: Explanation) -> Table:
    """Times by kind of operator."""
    table = _table("all tasks, in ms", *WORDS, "on the critical path")
    for row in explanation.kinds():
        table.add_row(row["kind"], *(f"{row[f'{name}_ms']:,.3f}" for name in (*WORDS, "critical_path")))
    return table


def _table(first: str, *columns: str) -> Table:
    table = Table()
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _in_ms(times_ns: Iterable[tuple[str, int]]) -> dict[str, float]:
    return {f"{name}_ms": time / NS_PER_MS for name, time in times_ns}
