"""Profiler: how long parts of operators and updates take on one device.

Only the computation is timed: where parts of an operator meet, each hears its own words back, since the simulator
prices exchanges on connections.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, variance

import torch
from torch import Tensor

from runtime.errors import RuntimeRoomError
from runtime.exchange import Alone
from runtime.host_memory import keep_freed_memory
from runtime.part_function import run_parts
from runtime.stopwatch import CpuStopwatch, Forward, GpuStopwatch, Stopwatch, cpu_name
from runtime.synthetic_part import make_part
from sim.costs.timing import Platform, Timing
from sim.operator_graph import OperatorGraph

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}

NORMAL_DEVIATION = 1.4826
"""Standard deviation of a normal distribution for each median absolute deviation."""

MEDIAN_ERROR = 1.2533
"""Standard error of a median for each one of a mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerOptions:
    """How precisely parts are timed.

    Attributes:
        warm_ups: times that do not count.
        min_repeats: times at least.
        max_error: the repeats end when the median's relative standard error is below it.
        max_seconds: or, with two times at least, when all took so long.
        flush_mb: so much memory is written between two times, so that tensors do not wait in the nearest caches.
    """

    warm_ups: int
    min_repeats: int
    max_error: float
    max_seconds: float
    flush_mb: int


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
        self._stopwatch: Stopwatch
        if is_gpu:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = dtype == "tf32"
            self._stopwatch = GpuStopwatch()
        else:
            torch.set_num_threads(num_threads)
            keep_freed_memory()
            self._stopwatch = CpuStopwatch(has_one_thread=num_threads == 1)
        self.platform = Platform(device_kind, name, 0 if is_gpu else num_threads, dtype, torch.__version__)
        self._flush = torch.zeros(max(1, options.flush_mb * 10**6 // 4), device=self.device)

    def time_part(self, graph: OperatorGraph, position: int, degrees: tuple[int, ...]) -> Timing:
        """The times of a part in the middle of an operator.

        A softmax ends in its cross-entropy, as the simulator prices it; every other kind is read by somebody.
        Weights that other operators share have a gradient already, to which backward adds.
        """
        operator = graph.operators[position]
        part = make_part(graph, position, degrees, dtype=self._dtype, device=self.device)
        exchanger = Alone(
            num_parts=math.prod(degrees[dim] for dim in operator.exchange.across) if operator.exchange else 1
        )
        is_shared = operator.weight is not None and operator.weight.group != operator.name

        def prepare() -> None:
            for tensor in part.inputs:
                tensor.grad = None
            for weight in part.weights:
                weight.grad = torch.zeros_like(weight) if is_shared else None

        def forward() -> list[Tensor]:
            (outputs,) = run_parts([part], exchanger)
            return [output for output in outputs if output.requires_grad]

        def gradients(roots: Sequence[Tensor]) -> list[Tensor | None]:
            self._flush.add_(1)  # between its forward and its backward task, much else is computed
            return [None if part.is_terminal else torch.ones_like(root) for root in roots]

        return self._repeat(prepare, forward, gradients)

    def time_update(self, num_bytes: int) -> Timing:
        """The time of an SGD update of one tensor of weights."""
        num_elements = max(1, num_bytes // self._dtype.itemsize)
        weight, gradient = (torch.zeros(num_elements, dtype=self._dtype, device=self.device) for _ in range(2))

        def update() -> list[Tensor]:
            weight.add_(gradient, alpha=-0.01)
            return []

        return self._repeat(lambda: None, update, lambda roots: [])

    def _repeat(
        self,
        prepare: Callable[[], None],
        forward: Forward,
        gradients: Callable[[Sequence[Tensor]], list[Tensor | None]],
    ) -> Timing:
        options = self.options
        times: list[tuple[float, float]] = []
        start = time.monotonic()
        while not self._is_enough(times[options.warm_ups :], time.monotonic() - start):
            prepare()
            self._flush.add_(1)
            times.append(self._stopwatch(forward, gradients))
        forwards, backwards = zip(*times[options.warm_ups :], strict=True)
        return Timing(median(forwards), variance(forwards), median(backwards), variance(backwards), len(forwards))

    def _is_enough(self, times: Sequence[tuple[float, float]], seconds: float) -> bool:
        if len(times) < 2 or seconds > self.options.max_seconds:
            return len(times) >= 2
        totals = [sum(both) for both in times]
        middle = median(totals)
        deviation = NORMAL_DEVIATION * median(abs(total - middle) for total in totals)
        is_precise = MEDIAN_ERROR * deviation / math.sqrt(len(totals)) <= self.options.max_error * middle
        return is_precise and len(times) >= self.options.min_repeats


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
