"""draw_bars: groups of bars, one for each baseline and searcher."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#2b2f36"
LABELS = {
    "data_parallel": "data parallelism",
    "expert": "expert",
    "optcnn": "OptCNN",
    "mcmc": "FlexFlow (MCMC)",
    "best_response": "best response",
    "large_neighbourhood": "large neighbourhood search",
}
COLOURS = {
    "data_parallel": "#9aa5b1",
    "expert": "#5b7a99",
    "optcnn": "#7a6ba8",
    "mcmc": "#e0803c",
    "best_response": "#c9a227",
    "large_neighbourhood": "#3f8f6b",
}
GROUP_WIDTH = 0.8


def draw_bars(
    axes: Axes,
    groups: Sequence[str],
    heights: Mapping[str, Sequence[float | None]],
    *,
    texts: Mapping[str, Sequence[str]] = MappingProxyType({}),
    marks: Mapping[str, Sequence[float | None]] = MappingProxyType({}),
) -> None:
    """Draw a group of bars for each label.

    Args:
        axes: where.
        groups: labels below the groups.
        heights: for each name (``LABELS``) the height of its bar in each group; None: no bar.
        texts: above the bars.
        marks: the paper's values, black lines across the bars.
    """
    width = GROUP_WIDTH / len(heights)
    for number, (name, values) in enumerate(heights.items()):
        middles = np.arange(len(groups)) + (number - (len(heights) - 1) / 2) * width
        axes.bar(middles, [value or 0.0 for value in values], width, color=COLOURS[name], label=LABELS[name])
        for middle, value, text in zip(middles, values, texts.get(name, ()), strict=False):
            if value is not None:
                axes.text(middle, value, f" {text}", ha="center", va="bottom", fontsize=7, rotation=90, color=INK)
        for middle, mark in zip(middles, marks.get(name, ()), strict=False):
            if mark is not None:
                axes.hlines(mark, middle - width / 2, middle + width / 2, color="black", linewidth=2)
    axes.set_xticks(range(len(groups)), groups, fontsize=8)
    axes.margins(y=0.2)
    axes.spines[["top", "right"]].set_visible(False)


def add_legend(picture: Figure) -> None:
    """Say above all panels what the colours mean."""
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
