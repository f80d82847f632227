"""Profiler: how long parts of operators and updates take on one device.

Only the computation is timed: where parts of an operator meet, each hears its own words back, since the simulator
prices the messages of exchanges on connections.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from statistics import median, variance
from typing import TypeAlias

import torch
from torch import Tensor

from runtime.errors import RuntimeRoomError
from runtime.host_memory import keep_freed_memory
from runtime.neighbours import Neighbours
from runtime.stopwatch import CpuStopwatch, GpuStopwatch, Stopwatch, cpu_name
from runtime.timed_part import TimedPart, WeightKey
from sim.costs.timing import Platform, Timing
from sim.operator_graph import OperatorGraph

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}

NORMAL_DEVIATION = 1.4826
"""Standard deviation of a normal distribution for each median absolute deviation."""

MEDIAN_ERROR = 1.2533
"""Standard error of a median for each one of a mean."""

Job: TypeAlias = tuple[OperatorGraph, Mapping[int, tuple[int, ...]]] | int
"""A graph and the degrees of a part of each of some operators, by position; or the bytes of an update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerOptions:
    """How precisely parts are timed.

    Attributes:
        warm_ups: times that do not count.
        min_repeats: times at least.
        max_error: the repeats end when the median's relative standard error is below it.
        max_seconds: or, with two times at least, when all took so long for each part.
        flush_mb: so much memory is written before each time of an update or of a part by itself, so that tensors do
            not wait in the nearest caches.
    """

    warm_ups: int
    min_repeats: int
    max_error: float
    max_seconds: float
    flush_mb: int


Repeat: TypeAlias = Callable[[], list[tuple[float, float]]]
"""Does a job once; see ``Profiler.repetition``."""


class Profiler:
    """Times parts and updates on one platform.

    On a CPU with one thread the clock is that thread's CPU time: a part has nothing to wait for, so it is its time on
    an idle machine even where other programs run. With more threads it is the wall's; on a GPU, of its events.

    Args:
        device: ``cpu`` or ``cuda``.
        device_kind: what topologies call it.
        num_threads: of PyTorch, on a CPU.
        dtype: ``fp32``, ``bf16``, or, on a GPU, ``tf32``.
        options: how precisely.

    Attributes:
        device: where parts are computed.
        platform: what the times hold for.
        itemsize: bytes of an element.
        neighbours: compute beside parts of split operators and updates; none at first.

    Raises:
        RuntimeRoomError: there is no such device, or it has no such dtype.
    """

    def __init__(
        self, *, device: str, device_kind: str, num_threads: int, dtype: str, options: ProfilerOptions
    ) -> None:
        name, is_gpu = device_name(device), device == "cuda"
        if dtype not in DTYPES or (dtype == "tf32" and not is_gpu):
            raise RuntimeRoomError(f"dtype={dtype}: give fp32 or bf16, or on cuda tf32")
        self.options, self.device, self._dtype = options, torch.device(device), DTYPES[dtype]
        self.itemsize = self._dtype.itemsize
        self._stopwatch: Stopwatch
        if is_gpu:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
            self._stopwatch = GpuStopwatch()
        else:
            torch.set_num_threads(num_threads)
            keep_freed_memory()
            self._stopwatch = CpuStopwatch(has_one_thread=num_threads == 1)
        self.platform = Platform(device_kind, name, 0 if is_gpu else num_threads, dtype, torch.__version__)
        self.neighbours: Neighbours | None = None
        self._flush = torch.zeros(max(1, options.flush_mb * 10**6 // 4), device=self.device)

    def time_parts(
        self, graph: OperatorGraph, shapes: Mapping[int, tuple[int, ...]]
    ) -> tuple[dict[int, Timing], list[tuple[int, Timing]]]:
        """The times of one part in the middle of each of some operators, and of the updates of their weights.

        All go forward in the graph's order, then backward in the reverse one, then update their weights, and so again:
        each part finds the caches as those of the others leave them, as in an iteration. Before a part by itself,
        memory is written instead. The other parts of a split operator compute at the same time: so do the neighbours,
        if there are any.

        A softmax ends in its cross-entropy, as the simulator prices it; every other kind is read by somebody.
        Weights that other operators share have a gradient already, to which backward adds.

        Args:
            graph: of the operators.
            shapes: for the position of each operator, the degrees of the part.

        Returns:
            The times by the operator's position; bytes of weights and the times of their updates.
        """
        is_split = any(math.prod(degrees) > 1 for degrees in shapes.values())
        timed = self._timed(graph, shapes)
        with self._neighbours_at((graph, shapes), if_=is_split):
            timings = self._repeat(self._round(timed))
        sizes = [part.weight_bytes for part in timed if part.weight_bytes]
        updates = list(zip(sizes, timings[len(shapes) :], strict=True))
        return dict(zip(sorted(shapes), timings[: len(shapes)], strict=True)), updates

    def time_update(self, num_bytes: int) -> Timing:
        """The time of an SGD update of one tensor of weights, while neighbours update theirs."""
        with self._neighbours_at(num_bytes, if_=True):
            (timing,) = self._repeat(self.repetition(num_bytes))
        return timing

    def repetition(self, job: Job) -> Repeat:
        """What does a job once and returns forward and backward time of each of its parts, and of updates, ns."""
        return self._update(job) if isinstance(job, int) else self._round(self._timed(*job))

    def _neighbours_at(self, job: Job, *, if_: bool) -> AbstractContextManager[None]:
        return self.neighbours.busy(job) if if_ and self.neighbours else nullcontext()

    def _timed(self, graph: OperatorGraph, shapes: Mapping[int, tuple[int, ...]]) -> list[TimedPart]:
        shared: dict[WeightKey, tuple[Tensor, ...]] = {}
        return [
            TimedPart(graph, position, shapes[position], dtype=self._dtype, device=self.device, shared=shared)
            for position in sorted(shapes)
        ]

    def _round(self, timed: Sequence[TimedPart]) -> Repeat:
        flush = self._write_memory if len(timed) == 1 else _do_nothing

        def repeat() -> list[tuple[float, float]]:
            for part in timed:
                part.prepare()
            forwards = [part.forward(self._stopwatch, flush) for part in timed]
            backwards = [part.backward(self._stopwatch, flush) for part in reversed(timed)]
            updates = [(part.update(self._stopwatch), 0.0) for part in timed if part.weight_bytes]
            return [*zip(forwards, reversed(backwards), strict=True), *updates]

        return repeat

    def _update(self, num_bytes: int) -> Repeat:
        num_elements = max(1, num_bytes // self._dtype.itemsize)
        weight, gradient = (torch.zeros(num_elements, dtype=self._dtype, device=self.device) for _ in range(2))

        def repeat() -> list[tuple[float, float]]:
            self._write_memory()
            return [(self._stopwatch(lambda: weight.add_(gradient, alpha=-0.01))[0], 0.0)]

        return repeat

    def _write_memory(self) -> None:
        self._flush.add_(1)

    def _repeat(self, repeat: Repeat) -> list[Timing]:
        """Times of what a repetition times: forward and backward of each of several parts."""
        options = self.options
        times: list[list[tuple[float, float]]] = []
        start = time.monotonic()
        while not self._is_enough(times[options.warm_ups :], time.monotonic() - start):
            times.append(repeat())
        timings = []
        for pairs in zip(*times[options.warm_ups :], strict=True):
            forwards, backwards = zip(*pairs, strict=True)
            timings.append(
                Timing(median(forwards), variance(forwards), median(backwards), variance(backwards), len(pairs))
            )
        return timings

    def _is_enough(self, times: Sequence[list[tuple[float, float]]], seconds: float) -> bool:
        if len(times) < 2 or seconds > self.options.max_seconds * len(times[0]):
            return len(times) >= 2
        return len(times) >= self.options.min_repeats and all(map(self._is_precise, zip(*times, strict=True)))

    def _is_precise(self, pairs: Sequence[tuple[float, float]]) -> bool:
        totals = [sum(pair) for pair in pairs]
        middle = median(totals)
        deviation = NORMAL_DEVIATION * median(abs(total - middle) for total in totals)
        return MEDIAN_ERROR * deviation / math.sqrt(len(totals)) <= self.options.max_error * middle


def _do_nothing() -> None:
    """The other parts have filled the caches already."""


def device_name(device: str) -> str:
    """What the machine calls its CPU or its GPU.

    Raises:
        RuntimeRoomError: there is none.
    """
    if device == "cpu":
        return cpu_name()
    if device == "cuda" and torch.cuda.is_available():
        return torch.cuda.get_device_name()
    raise RuntimeRoomError(f"device={device}: PyTorch finds no such device here; give cpu or cuda")
