"""Stopwatches: how long something takes on a CPU and on a GPU."""

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import torch

Result = TypeVar("Result")

NS_PER_MS = 1e6


class Stopwatch(Protocol):
    """Times one thing."""

    def __call__(self, operation: Callable[[], Result]) -> tuple[float, Result]:
        """Time of an operation, ns, and its result."""
        ...


class CpuStopwatch:
    """The CPU time of this thread, or the wall's if the computation has several.

    Args:
        has_one_thread: of PyTorch.
    """

    def __init__(self, *, has_one_thread: bool) -> None:
        self._now = time.thread_time_ns if has_one_thread else time.perf_counter_ns

    def __call__(self, operation: Callable[[], Result]) -> tuple[float, Result]:
        """See ``Stopwatch``."""
        start = self._now()
        result = operation()
        return self._now() - start, result


class GpuStopwatch:
    """Events in the GPU's stream: launches that keep it waiting count."""

    def __call__(self, operation: Callable[[], Result]) -> tuple[float, Result]:
        """See ``Stopwatch``."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        start.record()
        result = operation()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * NS_PER_MS, result


def cpu_name() -> str:
    """The CPU's model, as the kernel names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
