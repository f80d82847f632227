"""Figure 4: operator graph, task graph and timelines of the worked example, as the delta simulation goes through it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from experiments.figures.reproduction import Reproduction
from sim.problem import Problem
from sim.strategy import ParallelConfig
from sim.task_graph import Key, Task
from sim.task_graph_builder import build_task_graph
from sim.worked_example import FIGURE_4C, FIGURE_4D, GPUS, O3, SPLIT, WHOLE, Times, worked_example, worked_strategy

PAPER_NS = (14, 15)
"""Makespans before and after the change."""

_TIMES = ("exe", "ready", "start", "paper_ready", "paper_start")
HEADER = ("task", "device", "step", *(f"{time}_{side}" for side in ("before", "after") for time in _TIMES))

ROWS = ("GPU1", "L12", "GPU2", "L23", "GPU3")
LINES = {"t1:1": 0.0, "t1:2": 1.0, "t2:1": 2.0, "t2:2": 3.0, "t5:1": 0.5, "t6:1": 2.5}
"""Where a task stands in the task graph, by the first task of the figure's line."""

INK, GREY, PALE, PLAIN, CHANGED, REBUILT = "#2b2f36", "#6b7280", "#eef0f3", "#cfe2f6", "#f7c16b", "#d9483b"
SIZE_INCHES, LAST_NS, BAR_HEIGHT = (15.0, 11.5), 15.4, 0.78
ARROW = {"arrowstyle": "-|>", "color": GREY, "linewidth": 0.9}


@dataclass(frozen=True, slots=True)
class Side:
    """The worked example before or after the change.

    Attributes:
        tasks: by their keys, in the order in which they are dequeued.
        rows: what each occupies, in the paper's words: L12 is the link from GPU1 to GPU2.
        times: ready and start time of each, by the compiled simulation.
        paper: the same as the paper prints them.
    """

    tasks: Mapping[Key, Task]
    rows: Mapping[Key, str]
    times: Times
    paper: Times

    @property
    def makespan(self) -> int:
        """End of the last task, ns."""
        return max(start + exe_time for _, start, exe_time in map(self.when, self.tasks))

    def when(self, key: Key) -> tuple[int, int, int]:
        """Ready, start and execution time of a task."""
        return *self.times[key], self.tasks[key].exe_time


def fig4() -> Reproduction:
    """Simulate the strategy of the figure, then propose and accept |c3| = 1 (FlexFlow, figure 4)."""
    problem = worked_example()
    simulation = problem.simulation(worked_strategy(problem, SPLIT))
    before = _side(problem, SPLIT, simulation.timeline(), FIGURE_4C)
    simulation.propose(O3, WHOLE)
    num_simulated = simulation.num_simulated_tasks
    simulation.accept()
    after = _side(problem, WHOLE, simulation.timeline(), FIGURE_4D)
    steps = {key: step for step, key in enumerate(list(after.tasks)[-num_simulated:], start=1)}
    return Reproduction(
        picture=_picture(problem, before, after, steps),
        header=HEADER,
        rows=[_line(key, before, after, steps) for key in sorted({*before.tasks, *after.tasks})],
        difference=_difference(before, after),
    )


def _side(problem: Problem, c3: ParallelConfig, timeline: Mapping[Key, tuple[int, int, int]], paper: Times) -> Side:
    graph = build_task_graph(problem, worked_strategy(problem, c3))
    names = [re.sub(r"GPU(\d)->GPU(\d)", r"L\1\2", name) for name in graph.device_names]
    tasks = {task.key: task for task in graph.tasks}
    return Side(
        tasks={key: tasks[key] for key in timeline},
        rows={key: names[tasks[key].devices[0]] for key in timeline},
        times={key: (ready, start) for key, (ready, start, _) in timeline.items()},
        paper=paper,
    )


def _line(key: Key, before: Side, after: Side, steps: Mapping[Key, int]) -> list[int | str]:
    """A line of the table; empty where there is no such task."""
    side = after if key in after.tasks else before
    cells: list[int | str] = [label(side.tasks[key], " -> "), side.rows[key], steps.get(key, "")]
    for side in (before, after):
        is_there = key in side.tasks
        cells += [side.tasks[key].exe_time, *side.times[key], *side.paper[key]] if is_there else [""] * 5
    return cells


def _difference(before: Side, after: Side) -> str:
    times = [(side.times[key], side.paper[key]) for side in (before, after) for key in side.times]
    equal = [ours == theirs for pair in times for ours, theirs in zip(*pair, strict=True)]
    return (
        f"{sum(equal)} of {len(equal)} ready and start times equal the paper's; makespan {before.makespan} before and "
        f"{after.makespan} after the change, in the paper {PAPER_NS[0]} and {PAPER_NS[1]}"
    )


def label(task: Task, arrow: str) -> str:
    """A task's name as the paper has it: t3:2 for the second part of o3."""
    return re.sub(r"o(\d+)\[(\d+)\]", lambda m: f"t{m[1]}:{int(m[2]) + 1}", task.name).replace(" -> ", arrow)


def _is_of_o3(task: Task) -> bool:
    """Whether a task belongs to what a proposal for o3 builds anew: the operator and its edges."""
    return "o3[" in task.name


def _picture(problem: Problem, before: Side, after: Side, steps: Mapping[Key, int]) -> Figure:
    picture = Figure(figsize=SIZE_INCHES, layout="constrained")
    panels = picture.subplot_mosaic("ab0;ccc;ddd", width_ratios=(0.62, 1, 1), height_ratios=(1.15, 1, 1))
    _draw_operator_graph(panels["a"], problem)
    _draw_task_graph(panels["b"], before, "(b) task graph; red: replaced by the proposal |c3| = 1")
    _draw_task_graph(panels["0"], after, "step 0: the proposal's task graph; red: built anew")
    title = f"(c) full simulation: makespan {before.makespan} ns.  r: ready time, s: start time"
    _draw_timeline(panels["c"], before, title, {}, dict.fromkeys(before.tasks, PLAIN))
    colours = {key: _colour(key, before, after, steps) for key in after.tasks}
    title = f"(d) delta simulation: makespan {after.makespan} ns; steps in the order in which tasks are dequeued"
    _draw_timeline(panels["d"], after, title, steps, colours)
    meanings = {PALE: "before the cut: kept", PLAIN: "simulated again, as before", CHANGED: "simulated again, changed"}
    patches = [Patch(facecolor=colour, edgecolor=GREY, label=text) for colour, text in meanings.items()]
    patches.append(Patch(facecolor="white", edgecolor=REBUILT, linewidth=1.8, label="task of o3 or of its edges"))
    panels["d"].legend(handles=patches, loc="lower left", fontsize=9, frameon=False)
    return picture


def _colour(key: Key, before: Side, after: Side, steps: Mapping[Key, int]) -> str:
    if key not in steps:
        return PALE
    old = {_identity(before, other): before.when(other) for other in before.tasks}
    return PLAIN if old.get(_identity(after, key)) == after.when(key) else CHANGED


def _identity(side: Side, key: Key) -> tuple[str, str]:
    """What a task computes or sends, and where; its key also names the part that a transfer goes to."""
    return label(side.tasks[key], "→").split("→")[0], side.rows[key]


def _draw_operator_graph(axes: Axes, problem: Problem) -> None:
    """Operators with the number of their tasks, a row for each layer, and the GPU that it is on."""
    strategy = worked_strategy(problem, SPLIT)
    places = {position: (position % 2, -(position // 2)) for position in range(len(problem.graph))}
    for edge in problem.graph.edges:
        gap = 15 if places[edge.dst][0] == places[edge.src][0] else 24  # the boxes are wider than high
        axes.annotate("", places[edge.dst], places[edge.src], arrowprops=ARROW | {"shrinkA": gap, "shrinkB": gap})
    for position, (x, y) in places.items():
        config = strategy[position]
        text = f"{problem.graph.operators[position].name}\n|c{position + 1}| = {config.num_tasks}"
        edge_colour = REBUILT if position == O3 else GREY
        box = {"boxstyle": "round,pad=0.35", "facecolor": PLAIN, "edgecolor": edge_colour, "linewidth": 1.4}
        axes.text(x, y, text, ha="center", va="center", fontsize=9, color=INK, bbox=box)
    for layer, gpu in enumerate(GPUS):
        axes.text(1.75, -layer, gpu, ha="center", va="center", fontsize=10, color=GREY)
    _finish(axes, "(a) operator graph", (-0.5, 2.1), (-2.45, 0.45))


def _draw_task_graph(axes: Axes, side: Side, title: str) -> None:
    """Tasks in columns by what they occupy: squares compute, hexagons communicate, as in the paper."""
    places = {}
    for key, task in side.tasks.items():
        name = label(task, "→").split("→")[0]
        line = LINES.get(name, LINES.get(f"t{2 - int(name[1]) % 2}{name[2:]}"))
        places[task.id] = (float(ROWS.index(side.rows[key])), -float(line or 0))
    for task in side.tasks.values():
        for source in task.in_tasks:
            (x, y), start = places[task.id], places[source]
            bend = "arc3,rad=-0.5" if start[0] == x else "arc3"
            style = ARROW | {"connectionstyle": bend, "shrinkA": 13, "shrinkB": 14}
            axes.annotate("", (x, y), start, arrowprops=style)
    for task in side.tasks.values():
        marker = "s" if task.kind == "forward" else "H"
        colour = REBUILT if _is_of_o3(task) else GREY
        axes.scatter(*places[task.id], s=620, marker=marker, facecolor=PLAIN, edgecolor=colour, linewidth=1.5, zorder=2)
        text = label(task, "→") if task.kind == "forward" else f"{task.exe_time} ns"
        axes.text(*places[task.id], text, ha="center", va="center", fontsize=8, color=INK)
    for column, row in enumerate(ROWS):
        axes.text(column, 0.75, row, ha="center", va="center", fontsize=10, color=GREY)
    _finish(axes, title, (-0.5, 4.5), (-3.5, 1.0))


def _draw_timeline(axes: Axes, side: Side, title: str, steps: Mapping[Key, int], colours: Mapping[Key, str]) -> None:
    """A row for each GPU and link, a bar for each task."""
    for key, (ready, start) in side.times.items():
        task, y = side.tasks[key], -ROWS.index(side.rows[key])
        is_of_o3 = _is_of_o3(task)
        edge = {"edgecolor": REBUILT if is_of_o3 else GREY, "linewidth": 1.8 if is_of_o3 else 0.8}
        corner = (start + 0.02, y - BAR_HEIGHT / 2)
        box = Rectangle(corner, task.exe_time - 0.04, BAR_HEIGHT, facecolor=colours[key], zorder=3 if is_of_o3 else 2)
        box.set(**edge)
        axes.add_patch(box)
        middle = start + task.exe_time / 2
        text = f"{label(task, '→')}\nr{ready} s{start}"
        axes.text(middle, y - 0.1, text, ha="center", va="center", fontsize=8, color=INK, zorder=4)
        if key in steps:
            axes.text(start + 0.05, y + 0.35, str(steps[key]), ha="left", va="top", fontsize=8, weight="bold", zorder=4)
    axes.axvline(side.makespan, color=INK, linestyle=":", linewidth=1)
    _finish(axes, title, (-0.02, LAST_NS), (-4.55, 0.5))
    axes.set_axis_on()
    axes.set_yticks([-place for place in range(len(ROWS))], ROWS)
    axes.set_xticks(range(int(LAST_NS) + 1))
    axes.set_xlabel("ns", loc="right", labelpad=-12)
    axes.tick_params(length=0, colors=GREY)
    axes.grid(axis="x", color=PALE, zorder=0)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)


def _finish(axes: Axes, title: str, across: tuple[float, float], along: tuple[float, float]) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlim(*across)
    axes.set_ylim(*along)
    axes.set_axis_off()
