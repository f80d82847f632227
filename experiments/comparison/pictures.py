"""stored_pictures: strategies and timelines of the fastest runs, packed for a page that draws them when it is asked."""

import base64
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from experiments.comparison.comparison import Row
from experiments.comparison.found_run import Status
from experiments.errors import OptionError
from experiments.gantt_picture import gantt_scene
from experiments.scene import svg_text
from experiments.stored_timeline import load_timeline

MAX_BYTES = 600_000
"""Of all pictures together: beside plotly.js, they leave room for what grows with the number of runs."""

NUM_CONNECTIONS = 6
"""Rows of a timeline; the busiest."""


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """Pictures of one run, each an SVG element, compressed by gzip and written in base64.

    Attributes:
        row: of the run.
        strategy: its picture; empty if the run folder has none.
        timeline: a static Gantt picture; empty if the run folder has no timeline.
    """

    row: Row
    strategy: str
    timeline: str


def stored_pictures(rows: Sequence[Row], root: Path, *, max_bytes: int = MAX_BYTES) -> list[StoredPicture]:
    """Pictures of the fastest run of each searcher on each problem, until they take too much room.

    Args:
        rows: of runs.
        root: the folder that rows name run folders from.
        max_bytes: of all pictures; what would exceed it is left out, the fastest run of each problem last.
    """
    found = []
    for row in _fastest(rows):
        folder = root / row["folder"]
        picture = StoredPicture(row, _packed(_strategy(folder)), _packed(_timeline(folder)))
        num_bytes = len(picture.strategy) + len(picture.timeline)
        if 0 < num_bytes <= max_bytes:
            found.append(picture)
            max_bytes -= num_bytes
    return found


def _fastest(rows: Sequence[Row]) -> Iterator[Row]:
    """The fastest of each problem first, then of each searcher; what exceeds the memory only where nothing fits."""
    finished = [row for row in rows if row["status"] == Status.FINISHED]
    taken: set[tuple[str, ...]] = set()
    for keys in (("problem",), ("problem", "agent")):
        for row in sorted(finished, key=lambda row: (not row["fits_memory"], row["best_ms"])):
            group = tuple(row[key] for key in keys)
            if group not in taken:
                taken |= {group, (row["problem"], row["agent"])}
                yield row


def _strategy(folder: Path) -> str:
    """What run.py drew; nothing if it is not there, or not whole."""
    try:
        text = (folder / "strategy.svg").read_text(encoding="utf-8")
        return text if ElementTree.fromstring(text).tag.endswith("}svg") else ""
    except (OSError, UnicodeDecodeError, ElementTree.ParseError):
        return ""


def _timeline(folder: Path) -> str:
    try:
        timeline = load_timeline(folder / "timeline.json", label="simulated")
    except (OSError, OptionError):
        return ""
    return svg_text(gantt_scene([timeline], num_connections=NUM_CONNECTIONS))


def _packed(text: str) -> str:
    # Without the time of packing: the same runs make the same page.
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode() if text else ""
