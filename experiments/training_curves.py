"""Curve: how the loss of one training fell; a table, rows and a picture of several."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest

from matplotlib.figure import Figure
from rich.table import Table

MS_PER_S = 1000

# The reference is wide and pale, so that curves on top of it leave it visible.
COLOURS = ("#c3c8d0", "#2f6fb3", "#d9483b", "#3c9a5f")
DASHES = ("solid", "solid", (0, (5, 3)), (0, (1, 2)))
WIDTHS = (5.0, 1.6, 1.6, 2.2)
SIZE_INCHES = (15.0, 4.4)

HEADER = ("strategy", "ranks", "final_loss", "test_accuracy", "seconds", "largest_difference")


@dataclass(slots=True)
class Curve:
    """How the loss of one training fell.

    Attributes:
        name: of the strategy.
        num_ranks: that compute anything.
        losses: of each iteration so far.
        wall_ms: likewise, its time.
        test_accuracy: after the last iteration; None before.
    """

    name: str
    num_ranks: int
    losses: list[float] = field(default_factory=list)
    wall_ms: list[float] = field(default_factory=list)
    test_accuracy: float | None = None

    @property
    def seconds(self) -> list[float]:
        """From the start to the end of each iteration, without the time between iterations."""
        return [total / MS_PER_S for total in accumulate(self.wall_ms)]

    def differences(self, reference: "Curve") -> list[float]:
        """Of the losses from another curve's, as far as both go."""
        return [abs(ours - theirs) for ours, theirs in zip(self.losses, reference.losses, strict=False)]


def table_rows(curves: Sequence[Curve]) -> list[list[str | int | float | None]]:
    """A row for each curve that has begun, under ``HEADER``; differences are from the first."""
    return [
        [
            curve.name,
            curve.num_ranks,
            curve.losses[-1],
            curve.test_accuracy,
            curve.seconds[-1],
            max(curve.differences(curves[0])),
        ]
        for curve in curves
        if curve.losses
    ]


def curve_rows(curves: Sequence[Curve]) -> tuple[list[str], list[list[float | None]]]:
    """Header and rows of all losses and times; empty where a curve has not got."""
    header = [f"{curve.name}_{what}" for curve in curves for what in ("loss", "ms")]
    columns = [column for curve in curves for column in (curve.losses, curve.wall_ms)]
    rows = enumerate(zip_longest(*columns), start=1)
    return ["iteration", *header], [[number, *values] for number, values in rows]


def terminal_table(curves: Sequence[Curve], *, title: str) -> Table:
    """The table for people."""
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("strategy", no_wrap=True)
    for column in ("ranks", "final loss", "test accuracy", "seconds", "largest difference"):
        table.add_column(column, justify="right")
    for name, ranks, loss, accuracy, seconds, difference in table_rows(curves):
        rate = "" if accuracy is None else f"{accuracy:.2%}"
        table.add_row(str(name), str(ranks), f"{loss:.6f}", rate, f"{seconds:.1f}", f"{difference:.1e}")
    return table


def picture(curves: Sequence[Curve], *, title: str, note: str) -> Figure:
    """Loss against iterations and seconds, and how far the losses are from the first curve's.

    Args:
        curves: at most four; the first is what the others are held against.
        title: of the picture.
        note: under the axis of seconds.
    """
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    figure.suptitle(title)
    by_iteration, by_seconds, difference = figure.subplots(1, 3)
    styles = zip(curves, COLOURS, DASHES, WIDTHS, strict=False)
    for curve, colour, dashes, width in styles:
        style = {"color": colour, "linestyle": dashes, "linewidth": width, "label": curve.name}
        numbers = range(1, len(curve.losses) + 1)
        by_iteration.plot(numbers, curve.losses, **style)
        by_seconds.plot(curve.seconds, curve.losses, **style)
        if curve is not curves[0]:
            shared = curve.differences(curves[0])
            difference.plot(numbers[: len(shared)], shared, **style | {"linestyle": "solid", "linewidth": 1.2})
    by_iteration.set(xlabel="iteration", ylabel="training loss", title="by iteration")
    by_iteration.legend(frameon=False)
    by_seconds.set(xlabel=f"seconds{note}", ylabel="training loss", title="by time")
    difference.set(xlabel="iteration", ylabel=f"|loss - loss of {curves[0].name}|", title="differences")
    difference.set_yscale("log", nonpositive="mask")
    for axes in (by_iteration, by_seconds, difference):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#eef0f3")
    return figure
