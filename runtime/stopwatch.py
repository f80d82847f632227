"""Stopwatches: the times of a forward and a backward pass, on a CPU and on a GPU."""

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

import torch
from torch import Tensor

Forward: TypeAlias = Callable[[], Sequence[Tensor]]
"""Returns the roots of the backward pass; without any there is none."""

NS_PER_MS = 1e6


class Stopwatch(Protocol):
    """Times one repetition."""

    def __call__(
        self, forward: Forward, gradients: Callable[[Sequence[Tensor]], list[Tensor | None]]
    ) -> tuple[float, float]:
        """Time of ``forward``, and of the backward pass of what it returns; ns.

        Args:
            forward: the forward pass.
            gradients: of the roots; making them is not timed.
        """
        ...


class CpuStopwatch:
    """The CPU time of this thread, or the wall's if the computation has several.

    Args:
        has_one_thread: of PyTorch.
    """

    def __init__(self, *, has_one_thread: bool) -> None:
        self._now = time.thread_time_ns if has_one_thread else time.perf_counter_ns

    def __call__(
        self, forward: Forward, gradients: Callable[[Sequence[Tensor]], list[Tensor | None]]
    ) -> tuple[float, float]:
        """See ``Stopwatch``."""
        start = self._now()
        roots = forward()
        forward_ns = self._now() - start
        if not roots:
            return forward_ns, 0.0
        incoming = gradients(roots)
        start = self._now()
        torch.autograd.backward(roots, incoming)
        return forward_ns, self._now() - start


class GpuStopwatch:
    """Events in the GPU's stream: launches that keep it waiting count."""

    def __call__(
        self, forward: Forward, gradients: Callable[[Sequence[Tensor]], list[Tensor | None]]
    ) -> tuple[float, float]:
        """See ``Stopwatch``."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(4)]  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
        events[0].record()
        roots = forward()
        events[1].record()
        incoming = gradients(roots)
        torch.cuda.synchronize()
        events[2].record()
        if roots:
            torch.autograd.backward(roots, incoming)
        events[3].record()
        torch.cuda.synchronize()
        backward_ms = events[2].elapsed_time(events[3]) if roots else 0.0
        return events[0].elapsed_time(events[1]) * NS_PER_MS, backward_ms * NS_PER_MS


def cpu_name() -> str:
    """The CPU's model, as the kernel names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
