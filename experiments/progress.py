"""ProgressDisplay: a bar with the best cost while a search runs; plain lines where there is no terminal."""

import multiprocessing
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from agents.budget import Progress

LINE_INTERVAL_S = 5.0
FIRST_ESTIMATE = 0.01
"""Share of the budget below which nothing is said about the rest: most of the time so far went into compiling."""


class ProgressDisplay:
    """Shows best cost, speed-up over data parallelism, rate and time left, on stderr.

    Args:
        title: what is searched.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.console = Console(stderr=True)
        # Workers of a parallel sweep share one terminal: no bars there.
        is_main = multiprocessing.current_process().name == "MainProcess"
        self._bar: Bar | None = None
        if self.console.is_terminal and is_main:
            columns = (BarColumn(bar_width=10), TextColumn("{task.description}"))  # within 80 characters
            self._bar = Bar(*columns, console=self.console)
            self._task = self._bar.add_task("compiling the simulator", total=1.0)
        self._line_s = time.monotonic()

    def __enter__(self) -> "ProgressDisplay":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, progress: "Progress") -> None:
        """Show the search's state; without a terminal only every few seconds."""
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.fraction, description=describe(progress))
        elif time.monotonic() - self._line_s >= LINE_INTERVAL_S:
            self._line_s = time.monotonic()
            self.console.print(
                f"{self.title}: {progress.fraction:.0%}  {describe(progress)}", highlight=False, soft_wrap=True
            )


def describe(progress: "Progress") -> str:
    """The search's state in one line."""
    parts = [
        f"best {progress.best_ns / 1e6:.3f} ms" + ("" if progress.fits_memory else " (exceeds memory)"),
        f"{progress.data_parallel_ns / progress.best_ns:.2f}x data parallel",
        f"{progress.simulations / max(progress.seconds, 1e-9):,.0f} simulations/s",
    ]
    if progress.stage:
        parts[-1] = progress.stage
    if progress.fraction >= FIRST_ESTIMATE:
        minutes, seconds = divmod(round(progress.seconds * (1 / progress.fraction - 1)), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return "  ".join(parts)
