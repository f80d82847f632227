"""ProgressDisplay: a bar with the best cost while a search runs; plain lines where there is no terminal."""

import multiprocessing
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bar

if TYPE_CHECKING:
    from agents.ledger import Progress

BAR_INTERVAL_S = 0.1
LINE_INTERVAL_S = 5.0


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
            columns = (TextColumn(title), BarColumn(bar_width=24), TextColumn("{task.description}"))
            self._bar = Bar(*columns, console=self.console)
            self._task = self._bar.add_task("compiling the simulator", total=1.0)
        self._interval_s = LINE_INTERVAL_S if self._bar is None else BAR_INTERVAL_S
        self._shown_s = time.monotonic()
        self._latest: Progress | None = None

    def __enter__(self) -> "ProgressDisplay":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            if self._latest is not None:
                self._show(self._latest)
            self._bar.stop()

    def __call__(self, progress: "Progress") -> None:
        """Take note of the search's state; most calls show nothing."""
        self._latest = progress
        now = time.monotonic()
        if now - self._shown_s >= self._interval_s:
            self._shown_s = now
            self._show(progress)

    def _show(self, progress: "Progress") -> None:
        if self._bar is None:
            self.console.print(f"{self.title}: {describe(progress)}", highlight=False, soft_wrap=True)
        else:
            self._bar.update(self._task, completed=spent(progress), description=describe(progress))


def spent(progress: "Progress") -> float:
    """The share of the budget that is gone, 0 to 1."""
    limits = progress.budget
    shares = [0.0]
    if limits.simulations is not None:
        shares.append(progress.simulations / limits.simulations)
    if limits.seconds is not None:
        shares.append(progress.seconds / limits.seconds)
    return min(1.0, max(shares))


def describe(progress: "Progress") -> str:
    """The search's state in one line."""
    share = spent(progress)
    parts = [
        f"best {progress.best_ns / 1e6:.2f} ms" + ("" if progress.fits_memory else " (exceeds memory)"),
        f"{progress.data_parallel_ns / progress.best_ns:.2f}x data parallel",
        f"{progress.simulations:,} simulations",
        f"{progress.simulations / max(progress.seconds, 1e-9):,.0f}/s",
    ]
    if share > 0:
        minutes, seconds = divmod(round(progress.seconds * (1 - share) / share), 60)
        parts.append(f"{minutes}:{seconds:02d} left")
    return "  ".join(parts)
