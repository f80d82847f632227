"""Pictures of an evaluation: curves of groups of problems, and what was found on each problem."""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments.comparison.bands import Band
from experiments.evaluation.curves import Unit
from experiments.evaluation.standings import ALL, Row, Standings
from experiments.figures.bars import INK

PANEL_WIDTH, PANEL_HEIGHT, LEGEND_HEIGHT = 4.6, 3.2, 0.8
COLUMNS = 4
LEAST = 0.9
"""Speed-up; with what is worse in sight, the others could not be told apart."""
SPREAD = 0.75
"""Of the points of one problem, in units of the distance between problems."""


def curves_picture(standings: Standings) -> Figure:
    """A panel for each group: score of the best so far against simulations."""
    groups = list(dict.fromkeys(group for group, _ in standings.curves))
    names = _names(standings)
    picture, panels = _panels(max(1, len(groups)), names)
    for axes, group in zip(panels, groups, strict=False):
        for (other, name), band in standings.curves.items():
            if other == group:
                _draw_band(axes, band, _colour(names, name))
        axes.set_xscale("log")
        axes.set_title("all clusters" if group == ALL else group, loc="left", color=INK)
        axes.set_xlabel("simulations")
        axes.set_ylabel("best known time / time found")
    return picture


def problems_picture(standings: Standings) -> Figure:
    """A panel for each cluster and budget: speed-ups over data parallelism with intervals, where above ``LEAST``."""
    groups: dict[tuple[str, Unit, float], list[Row]] = {}
    for row in standings.rows:
        groups.setdefault((row["cluster"], row["unit"], row["checkpoint"]), []).append(row)
    names = _names(standings)
    picture, panels = _panels(len(groups), names)
    for axes, ((cluster, unit, checkpoint), rows) in zip(panels, groups.items(), strict=True):
        models = list(dict.fromkeys(row["model"] for row in rows))
        for name in names:
            own = [row for row in rows if row["contestant"] == name]
            offset = (names.index(name) - (len(names) - 1) / 2) * SPREAD / len(names)
            _draw_points(axes, [models.index(row["model"]) + offset for row in own], own, _colour(names, name))
        axes.set_xticks(range(len(models)), models, fontsize=7)
        axes.set_title(f"{cluster}, {checkpoint:,g} {unit}", loc="left", color=INK)
        axes.set_ylabel("speed-up over data parallelism")
        axes.set_ylim(bottom=max(LEAST, axes.get_ylim()[0]))
    return picture


def _panels(count: int, names: Sequence[str]) -> tuple[Figure, Sequence[Axes]]:
    """Panels in rows, with a legend of the contestants above them."""
    columns = min(COLUMNS, count)
    num_rows = -(-count // columns)
    size = (max(2, columns) * PANEL_WIDTH, num_rows * PANEL_HEIGHT + LEGEND_HEIGHT)
    picture = Figure(figsize=size, layout="constrained")
    panels = np.ravel(picture.subplots(num_rows, columns, squeeze=False))
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[count:]:
        axes.set_axis_off()
    handles = [Line2D([], [], color=_colour(names, name), label=name) for name in names]
    picture.legend(
        handles=handles, loc="outside upper center", ncols=min(6, max(1, len(names))), frameon=False, fontsize=8
    )
    return picture, list(panels[:count])


def _names(standings: Standings) -> list[str]:
    """Contestants that have searched something; in both pictures each has the same colour."""
    return list(dict.fromkeys(row["contestant"] for row in standings.rows))


def _colour(names: Sequence[str], name: str) -> str:
    return to_hex(matplotlib.colormaps["tab20" if len(names) > 10 else "tab10"](names.index(name)))


def _draw_band(axes: Axes, band: Band, colour: str) -> None:
    axes.plot(band.x, band.y, color=colour, linewidth=1.5)
    if band.low is not None and band.high is not None:
        axes.fill_between(band.x, band.low, band.high, color=colour, alpha=0.2, linewidth=0)


def _draw_points(axes: Axes, places: Sequence[float], rows: Sequence[Row], colour: str) -> None:
    means = [row["speedup"] for row in rows]
    lows, highs = (
        [row["speedup"] if row[end] is None else row[end] for row in rows] for end in ("speedup_low", "speedup_high")
    )
    # A mean of the runs may lie a rounding error outside its interval where all runs agree.
    errors = np.maximum(0, [np.subtract(means, lows), np.subtract(highs, means)])
    axes.errorbar(places, means, yerr=errors, fmt="o", color=colour, capsize=2, markersize=3.5, linewidth=1)
