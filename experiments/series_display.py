"""SeriesDisplay: how far a series of long parts is; plain lines where there is no terminal."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from agents.budget import Progress

WORTH_A_LINE_S = 1.0


class SeriesDisplay:
    """Shows the part that is being made, and the time left, on stderr.

    Args:
        num_parts: of the series.
    """

    def __init__(self, num_parts: int) -> None:
        self.num_parts = num_parts
        self.console = Console(stderr=True)
        columns = (BarColumn(bar_width=10), TimeRemainingColumn(), TextColumn("{task.description}", markup=False))
        self._bar = Bar(*columns, console=self.console, disable=not self.console.is_terminal)
        self._task = self._bar.add_task("", total=num_parts)
        self._num_done = 0

    def __enter__(self) -> "SeriesDisplay":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    @contextmanager
    def part(self, label: str) -> Iterator["PartReport"]:
        """Show that a part is being made; with the report, how far it is."""
        began = time.monotonic()
        text = f"{self._num_done + 1} of {self.num_parts}: {label}"
        self._bar.update(self._task, completed=self._num_done, description=text)
        report = PartReport(self._bar, self._num_done)
        yield report
        seconds = time.monotonic() - began
        if not self.console.is_terminal and seconds >= WORTH_A_LINE_S and not report.is_kept:
            self.console.print(f"{text}: {seconds:.0f} s", highlight=False, markup=False, soft_wrap=True)
        self._num_done += 1
        self._bar.update(self._task, completed=self._num_done)


class PartReport:
    """Takes the progress of the search that is the part.

    Args:
        bar: has one task, whose unit are parts.
        num_done: parts before this one.

    Attributes:
        is_kept: to be set if the part was there already.
    """

    def __init__(self, bar: Bar, num_done: int) -> None:
        self._bar, self._num_done = bar, num_done
        self.is_kept = False

    def __call__(self, progress: "Progress") -> None:
        """Show how far the search is."""
        self._bar.update(self._bar.task_ids[0], completed=self._num_done + progress.fraction)
