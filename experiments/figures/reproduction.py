"""Reproduction: what is left of a figure of the paper when it has been made again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A figure or table of the paper, ours beside theirs.

    Attributes:
        picture: of matplotlib, since plotly needs a browser to write a PNG and the install brings none.
        header: names of the table's columns.
        rows: our values beside the paper's.
        difference: how they differ, in a sentence.
    """

    picture: Figure
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    difference: str
