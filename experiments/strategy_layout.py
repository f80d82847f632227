"""strategy_panels: where the operators of a graph stand in a picture, with equal neighbours folded into one."""

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

import networkx

from sim.breakdown import layer_name
from sim.operator_graph import OperatorGraph

Look: TypeAlias = Callable[[int], Hashable]
"""What of an operator is seen: neighbours that look alike are folded."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A place for operators that look alike.

    Attributes:
        operators: their positions in the graph; one is drawn.
        column: from the left of the panel.
        row: from its top, in halves where it is centred.
        name: below it.
    """

    operators: tuple[int, ...]
    column: int
    row: float
    name: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Operators that belong together.

    Attributes:
        title: above them.
        num_columns: its width in cells.
        num_rows: its height in cells.
        cells: its operators.
        row_names: beside the rows; none unless they are layers.
        column_names: below the columns; none unless they are steps.
        links: pairs of cells between which a tensor flows.
    """

    title: str
    num_columns: int
    num_rows: int
    cells: tuple[Cell, ...]
    row_names: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()
    links: tuple[tuple[int, int], ...] = ()


def strategy_panels(graph: OperatorGraph, look: Look) -> list[Panel]:
    """The panels of a graph in its order.

    Unrolled recurrent models, in which most operators share their weights with others: a panel for each stack of layers
    that work step by step (encoder, decoder); rows are layers, from the bottom up, columns are steps. Others: a panel
    for each module between operators that all paths go through.
    """
    is_shared = [len(graph.weight_groups.get(layer_name(operator), ())) > 1 for operator in graph.operators]
    return _stacks(graph, look) if 2 * sum(is_shared) > len(graph) else _modules(graph, look)


# Unrolled models


def _stacks(graph: OperatorGraph, look: Look) -> list[Panel]:
    layers: dict[str, list[int]] = {}
    for position, operator in enumerate(graph.operators):
        layers.setdefault(layer_name(operator), []).append(position)
    stacked = _stacked(graph, layers)
    panels = []
    for component in sorted(networkx.weakly_connected_components(stacked), key=lambda c: min(layers[n] for n in c)):
        names = [name for name in layers if name in component]
        levels = networkx.DiGraph(stacked.subgraph(names))
        depth = dict.fromkeys(names, 0)
        for name in networkx.topological_sort(levels):
            depth[name] = max((depth[before] + 1 for before in levels.predecessors(name)), default=0)
        if len(set(depth.values())) < len(names):
            depth = {name: place for place, name in enumerate(names)}
        panels.append(_stack(layers, names, depth, look))
    num_rows = max(panel.num_rows for panel in panels)
    return [_lowered(panel, num_rows) for panel in panels]


def _stacked(graph: OperatorGraph, layers: dict[str, list[int]]) -> networkx.DiGraph:
    """Which layer stands on which: those whose every step reads the same step of the other, or one operator alone."""
    place = {position: (name, step) for name, members in layers.items() for step, position in enumerate(members)}
    pairs: dict[tuple[str, str], set[tuple[int, int]]] = {}
    for edge in graph.edges:
        (below, first), (above, second) = place[edge.src], place[edge.dst]
        if below != above:
            pairs.setdefault((below, above), set()).add((first, second))
    stacked = networkx.DiGraph()
    stacked.add_nodes_from(layers)
    for (below, above), steps in pairs.items():
        is_alone = min(len(layers[below]), len(layers[above])) == 1
        if is_alone or all(first == second for first, second in steps):
            stacked.add_edge(below, above)
    return stacked


def _stack(layers: dict[str, list[int]], names: Sequence[str], depth: dict[str, int], look: Look) -> Panel:
    num_steps = max(len(layers[name]) for name in names)
    # What has fewer steps stands at the end: it reads the last ones.
    members = {name: dict(enumerate(layers[name], num_steps - len(layers[name]))) for name in names}

    def column_look(step: int) -> Hashable:
        return tuple(look(members[name][step]) if step in members[name] else None for name in names)

    runs = [list(run) for _, run in groupby(range(num_steps), key=column_look)]
    num_rows = 1 + max(depth.values())
    cells = []
    for name in names:
        for column, run in enumerate(runs):
            operators = tuple(members[name][step] for step in run if step in members[name])
            if operators:
                cells.append(Cell(operators, column, num_rows - 1 - depth[name], ""))
    row_names = [""] * num_rows
    for name in names:
        row_names[num_rows - 1 - depth[name]] = name
    columns = tuple(_range([str(run[0]), str(run[-1])]) for run in runs)
    return Panel("", len(runs), num_rows, tuple(cells), tuple(row_names), columns)


def _lowered(panel: Panel, num_rows: int) -> Panel:
    """Stacks stand on one floor."""
    missing = num_rows - panel.num_rows
    cells = tuple(Cell(c.operators, c.column, c.row + missing, c.name) for c in panel.cells)
    return Panel("", panel.num_columns, num_rows, cells, ("",) * missing + panel.row_names, panel.column_names)


# Other models


def _modules(graph: OperatorGraph, look: Look) -> list[Panel]:
    """Modules end with an operator that no edge passes by; runs of those that look alike are one panel."""
    reach = 0
    modules: list[list[int]] = [[]]
    outgoing: dict[int, int] = {}
    for edge in graph.edges:
        outgoing[edge.src] = max(outgoing.get(edge.src, 0), edge.dst)
    for position in range(len(graph)):
        modules[-1].append(position)
        is_cut = reach <= position
        reach = max(reach, outgoing.get(position, 0))
        if is_cut and position + 1 < len(graph):
            modules.append([])
    edges = [(edge.src, edge.dst) for edge in graph.edges]
    panels = []
    for _, run in groupby(modules, key=lambda module: _module_look(graph, module, edges, look)):
        panels.append(_module(graph, list(run), edges))
    return panels


def _module_look(graph: OperatorGraph, module: list[int], edges: Sequence[tuple[int, int]], look: Look) -> Hashable:
    inside = [(src - module[0], dst - module[0]) for src, dst in edges if src in module and dst in module]
    return tuple((graph.operators[i].kind, look(i)) for i in module), tuple(inside)


def _module(graph: OperatorGraph, alike: list[list[int]], edges: Sequence[tuple[int, int]]) -> Panel:
    first = alike[0]
    before = {i: [src for src, dst in edges if dst == i and src in first] for i in first}
    column: dict[int, int] = {}
    lane: dict[int, int] = {}
    ends: list[int] = []  # the last operator of each lane
    for i in first:
        column[i] = max((column[j] + 1 for j in before[i]), default=0)
        free = [k for k, last in enumerate(ends) if last in before[i] and column[last] < column[i]]
        if not free:
            free = [len(ends)]
            ends.append(i)
        lane[i] = free[0]
        ends[free[0]] = i
    num_rows = len(ends)
    names = [graph.operators[i].name for i in first]
    prefix = _prefix(names) if len(first) > 1 else ""
    cells = []
    for number, i in enumerate(first):
        is_last = i == first[-1] and len(before[i]) > 1
        row = (num_rows - 1) / 2 if is_last else lane[i]
        members = tuple(module[number] for module in alike)
        cells.append(Cell(members, column[i], row, names[number].removeprefix(prefix)))
    if len(first) == 1 and len(alike) > 1:
        cells = [Cell(cells[0].operators, 0, 0, f"{len(alike)} {graph.operators[first[0]].kind}")]
    place = {i: number for number, i in enumerate(first)}
    links = tuple((place[src], place[dst]) for src, dst in edges if src in place and dst in place)
    title = _title(prefix, [_prefix([graph.operators[i].name for i in module]) for module in alike])
    num_columns = 1 + max(column.values())
    return Panel(title if len(first) > 1 else "", num_columns, num_rows, tuple(cells), links=links)


def _prefix(names: Sequence[str]) -> str:
    """What names have in common, up to an underscore."""
    common = ""
    for letters in zip(*names, strict=False):
        if len(set(letters)) > 1:
            break
        common += letters[0]
    return common[: common.rfind("_") + 1]


def _title(prefix: str, prefixes: Sequence[str]) -> str:
    name = _range([prefixes[0].rstrip("_"), prefixes[-1].rstrip("_")]) if prefix else ""
    return f"{name} ({len(prefixes)} alike)".strip() if len(prefixes) > 1 else name


def _range(ends: Sequence[str]) -> str:
    """0 or 0-4."""
    return ends[0] if ends[0] == ends[1] else re.sub(r"\s", "", f"{ends[0]}-{ends[1]}")
