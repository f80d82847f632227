"""validation_table and validation_figure: a validation in the terminal, and as the paper's Figure 10 draws it."""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter
from rich.console import Group
from rich.table import Table
from rich.text import Text

from experiments.rank_correlation import Interval, Statistic
from experiments.validation import Validation, column

BAND = 0.3
"""Relative error that the paper's simulations stayed within."""

INK, GREY, PALE, POINT = "#2b2f36", "#6b7280", "#eef0f3", "#2f6cb5"
SIZE_INCHES = (5.6, 5.2)
MARGIN = 1.25

SHARES = ("compute", "transfer", "sync", "waiting")


def validation_table(validation: Validation, *, title: str) -> Group:
    """Tables for the terminal, and the statistics below them."""
    times = _table(title, "strategy", "simulated", "measured", "95 % interval", "error")
    shares = _table("simulated | measured, means over the devices", "strategy", *SHARES)
    for entry in validation.comparisons:
        low, high = entry.measured_interval_ms
        interval = f"{low:.2f} to {high:.2f}"
        row = (f"{entry.simulated_ms:.2f}", f"{entry.measured_ms:.2f}", interval, f"{entry.error:+.1%}")
        times.add_row(entry.name, *row)
        pairs = zip(astuple(entry.simulated), astuple(entry.measured), strict=True)
        shares.add_row(entry.name, *(f"{simulated:.1f} | {measured:.1f}" for simulated, measured in pairs))
    found = validation.correlation
    lines = (
        f"error: median {validation.median_error:.1%}, worst {validation.worst_error:.1%}; "
        f"slowest over fastest measured time {validation.measured_spread:.2f}",
        f"Kendall's tau {_shown(found.kendall)}; over the {found.num_pairs_beyond_noise} of {found.num_pairs} pairs "
        f"that differ by more than the noise {_shown(found.kendall_beyond_noise)}",
        f"Spearman's rho {_shown(found.spearman)}",
    )
    return Group(times, shares, *map(Text, lines))


def validation_figure(validation: Validation, *, title: str) -> Figure:
    """Simulated over measured times of one model."""
    comparisons = validation.comparisons
    measured, simulated = column(comparisons, "measured_ms"), column(comparisons, "simulated_ms")
    picture = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = picture.add_subplot()
    draw_times(axes, measured, simulated, [entry.measured_interval_ms for entry in comparisons])
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.legend(loc="upper left", fontsize=9, frameon=False)
    return picture


def draw_times(
    axes: Axes, measured_ms: Sequence[float], simulated_ms: Sequence[float], intervals_ms: Sequence[Interval]
) -> None:
    """Draw simulated over measured times, both on log scales, with the band of 30 % (FlexFlow, figure 10).

    Args:
        axes: where.
        measured_ms: a time for each strategy.
        simulated_ms: likewise.
        intervals_ms: of the measured ones.
    """
    measured, simulated = np.array(measured_ms), np.array(simulated_ms)
    both = np.concatenate([measured, simulated])
    ends = np.array([both.min() / MARGIN, both.max() * MARGIN])
    axes.fill_between(ends, (1 - BAND) * ends, (1 + BAND) * ends, color=PALE, label="30 % error", zorder=0)
    axes.plot(ends, ends, color=GREY, linewidth=1, label="simulated = measured", zorder=1)
    spread = np.abs(np.array(intervals_ms).T - measured)
    label = "a strategy, median with 95 % interval"
    axes.errorbar(measured, simulated, xerr=spread, fmt="o", color=POINT, markersize=5, elinewidth=1, label=label)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    for axis, name in ((axes.xaxis, "measured"), (axes.yaxis, "simulated")):
        axis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_locator(LogLocator(subs=()))
        axis.set_label_text(f"{name} iteration time, ms")


def _table(title: str, *headings: str) -> Table:
    table = Table(title=f"{title}, ms", title_justify="left", title_style="bold")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == headings[0] else "right", overflow="fold")
    return table


def _shown(statistic: Statistic) -> str:
    if statistic.value is None or statistic.interval is None:
        return "undefined"
    low, high = statistic.interval
    return f"{statistic.value:.2f} ({low:.2f} to {high:.2f})"
