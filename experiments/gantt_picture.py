"""gantt_scene: simulated iterations as a picture that does not move, for pages and READMEs."""

from collections.abc import Sequence

import numpy as np
from matplotlib.ticker import MaxNLocator

from experiments.scene import Box, Label, Line, Scene, stacked
from experiments.stored_timeline import FURTHER_COLOURS, KIND_COLOURS, Timeline, busiest
from sim.timeline import CRITICAL_PATH

WIDTH, NAMES_WIDTH, MARGIN = 1000.0, 190.0, 14.0
ROW_HEIGHT, BAR_HEIGHT, GROUP_GAP = 14.0, 11.0, 7.0
TITLE_HEIGHT, AXIS_HEIGHT, LEGEND_HEIGHT = 26.0, 30.0, 26.0
LEAST_WIDTH, LEAST_GAP = 0.5, 0.4
"""Shorter tasks are drawn this wide, and tasks of one kind that are nearer to each other as one bar; px."""


def gantt_scene(timelines: Sequence[Timeline], *, num_connections: int) -> Scene:
    """Draw timelines one above the other on one time axis: the critical path, the devices, the busiest connections.

    Args:
        timelines: at least one.
        num_connections: how many connections get a row, those that are occupied longest in all timelines together.
    """
    shown = busiest(timelines, num_connections)
    last_ms = max(timeline.iteration_ms for timeline in timelines)
    kinds = [kind for kind in KIND_COLOURS if any((timeline.kinds == kind).any() for timeline in timelines)]
    return stacked([_legend(kinds), *(_rows(timeline, shown, last_ms) for timeline in timelines)])


def _legend(kinds: Sequence[str]) -> Scene:
    items: list[Box | Label | Line] = []
    x = NAMES_WIDTH
    for kind in kinds:
        items.append(Box(x, 9, 12, 12, KIND_COLOURS[kind][0]))
        items.append(Label(x + 17, 19, kind, 11))
        x += 38 + 6.5 * len(kind)
    return Scene(WIDTH, LEGEND_HEIGHT, items, "timeline")


def _rows(timeline: Timeline, shown: set[str], last_ms: float) -> Scene:
    """One timeline, its heading above and the axis below."""
    scale = (WIDTH - NAMES_WIDTH - MARGIN) / last_ms
    connections = [name for name in timeline.connections if name in shown]
    groups = [[CRITICAL_PATH] if timeline.has_critical_path else [], list(timeline.devices), connections]
    heading = f"{timeline.label}: {timeline.iteration_ms:,.3f} ms for one iteration"
    items: list[Box | Label | Line] = [Label(NAMES_WIDTH, 18, heading, 13, is_bold=True)]
    bars: list[Box | Label | Line] = []
    y = TITLE_HEIGHT
    for group in groups:
        for name in group:
            bars.append(Label(NAMES_WIDTH - 6, y + BAR_HEIGHT - 1.5, name, 9.5, "end", is_bold=name == CRITICAL_PATH))
            bars += _bars(timeline, name, y, scale)
            y += ROW_HEIGHT
        y += GROUP_GAP if group else 0.0
    for tick in MaxNLocator(8).tick_values(0.0, last_ms):
        if 0 <= tick <= last_ms:
            x = NAMES_WIDTH + tick * scale
            items.append(Line(((x, TITLE_HEIGHT - 2), (x, y))))
            items.append(Label(x, y + 13, f"{tick:g} ms", 9.5, "middle", "faint"))
    end = NAMES_WIDTH + timeline.iteration_ms * scale
    bars.append(Line(((end, TITLE_HEIGHT - 2), (end, y)), "ink"))
    return Scene(WIDTH, y + AXIS_HEIGHT, [*items, *bars], heading)


def _bars(timeline: Timeline, name: str, y: float, scale: float) -> list[Box]:
    """The tasks of one row; thousands of them become a few hundred bars."""
    bars = []
    is_here = timeline.rows == name
    for kind in dict.fromkeys(timeline.kinds[is_here].tolist()):
        chosen = is_here & (timeline.kinds == kind)
        order = np.argsort(timeline.times[chosen, 1], kind="stable")
        starts, ends = (timeline.times[chosen, column][order] * scale for column in (1, 2))
        # A bar begins wherever all that came before it has ended some time ago.
        reached = np.maximum.accumulate(np.concatenate(([-np.inf], ends[:-1])))
        first = np.flatnonzero(starts > reached + LEAST_GAP)
        last = np.append(first[1:], len(starts)) - 1
        colour = KIND_COLOURS.get(kind, FURTHER_COLOURS)[0]
        for low, high, start, end in zip(first, last, starts[first], np.maximum.accumulate(ends)[last], strict=True):
            names = timeline.tasks[chosen][order][low : high + 1]
            tooltip = f"{names[0]}, {(end - start) / scale:,.3f} ms" if low == high else f"{len(names)} {kind} tasks"
            x, width = round(NAMES_WIDTH + float(start), 2), max(LEAST_WIDTH, round(float(end - start), 2))
            bars.append(Box(x, y, width, BAR_HEIGHT, colour, tooltip=tooltip))
    return bars
