"""AnalyticCost: a roofline with launch overhead, algorithm factors and the efficiency of matrix products."""

import math

from sim.device_kind import DEVICE_KINDS, DeviceKind
from sim.errors import SimError, UnknownNameError
from sim.operator_graph import Operator
from sim.work import Kernel, work

UPDATE_BYTES_PER_WEIGHT_BYTE = 3
"""Plain SGD reads weight and gradient and writes the weight."""

NS_PER_S = 1e9


class AnalyticCost:
    """Times by arithmetic alone, for the device kinds of ``sim.device_kind``.

    A kernel takes launch + max(FLOP / (peak * eff * algorithm), bytes / (bandwidth * bandwidth_efficiency)),
    where a matrix product m x n x k runs at eff = efficiency * m / (m + half_rows) * n / (n + half_columns)
    * k / (k + half_inner) of the peak. What fixed the constants (REFERENCE 4.4): efficiency and half_columns are
    its suggestions; half_rows puts an LSTM operator of 64 samples and 1024 units at 0.415 of a P100's peak
    (0.35 to 0.45 asked for); half_inner was fitted to TensorFlow's benchmarks of CNNs. No figure of the FlexFlow
    paper was used, so its RNNs are independent checks. Samples/s of one device, here / there:

    ==================  ===================  ===================
    batch 64            P100                 K80
    ==================  ===================  ===================
    AlexNet (512)       2146 / 2987 = 0.72   577 / 656 = 0.88
    Inception-v3        148 / 142 = 1.04     40.5 / 30.5 = 1.33
    ResNet-101          119 / 127 = 0.94     33.1 / 28.5 = 1.16
    NMT                 287 / 245 = 1.17     77.5 / 115 = 0.67
    RNNLM               247 / 234 = 1.05
    RNNTC               545 / 365 = 1.49
    ==================  ===================  ===================

    CNNs: TensorFlow's benchmarks of 2017, ResNet-101 between its ResNet-50 and -152; FlexFlow's own K80 did 38
    on Inception-v3 (1.07). RNNs: FlexFlow, P100 of figure 9b with their communication (so above 1 is right),
    K80 of the task times of figure 7c. Splitting NMT's softmax by vocabulary saves 15 % over splitting it by
    samples, where FlexFlow's section 8 has 38 %: that would need half_rows of about 520 and LSTMs at a tenth of the
    peak.

    Args:
        efficiency: share of the peak that large matrix products reach.
        half_rows: m at which a matrix product reaches half of that.
        half_columns: the same for n.
        half_inner: the same for k.
        bandwidth_efficiency: share of the memory bandwidth that streaming kernels reach.

    Raises:
        SimError: one of them makes no time.
    """

    deterministic = True
    platform_dependent = False

    def __init__(
        self,
        *,
        efficiency: float = 0.9,
        half_rows: float = 128.0,
        half_columns: float = 64.0,
        half_inner: float = 128.0,
        bandwidth_efficiency: float = 0.75,
    ) -> None:
        for name, value in (("efficiency", efficiency), ("bandwidth_efficiency", bandwidth_efficiency)):
            if not 0 < value < math.inf:
                raise SimError(f"cost.{name} must be a positive number, not {value}")
        halves = {"half_rows": half_rows, "half_columns": half_columns, "half_inner": half_inner}
        for name, value in halves.items():
            if not 0 <= value < math.inf:
                raise SimError(f"cost.{name} must be 0 or a positive number, not {value}")
        self.efficiency = efficiency
        self.half_rows = half_rows
        self.half_columns = half_columns
        self.half_inner = half_inner
        self.bandwidth_efficiency = bandwidth_efficiency
        self._known: dict[tuple[object, ...], tuple[int, int]] = {}

    def part_ns(self, operator: Operator, degrees: tuple[int, ...], device_kind: str) -> tuple[int, int]:
        """Forward and backward time of one part, ns; see ``CostSource``."""
        sizes = operator.sizes
        # All that work depends on, so that the unrolled steps of a recurrent layer are priced once (A1).
        key = (operator.kind, sizes, operator.attributes, len(operator.inputs), degrees, device_kind)
        known = self._known.get(key)
        if known is None:
            kind = _device_kind(device_kind)
            todo = work(operator, tuple(size // degree for size, degree in zip(sizes, degrees, strict=True)))
            known = self._sum_ns(todo.forward, kind), self._sum_ns(todo.backward, kind)
            self._known[key] = known
        return known

    def update_ns(self, device_kind: str) -> tuple[float, float]:
        """Update time: ns for each launch and for each byte of weights."""
        kind = _device_kind(device_kind)
        bytes_per_s = kind.memory_bandwidth_bytes_per_s * self.bandwidth_efficiency
        return kind.launch_ns, UPDATE_BYTES_PER_WEIGHT_BYTE / bytes_per_s * NS_PER_S

    def kernel_ns(self, kernel: Kernel, kind: DeviceKind) -> float:
        """Time of a kernel with all its repeats, ns."""
        memory_s = kernel.bytes / (kind.memory_bandwidth_bytes_per_s * self.bandwidth_efficiency)
        compute_s = 0.0
        if kernel.gemm is not None:
            m, n, k = kernel.gemm
            halves = (m + self.half_rows) * (n + self.half_columns) * (k + self.half_inner)
            reached = self.efficiency * m * n * k / halves
            compute_s = kernel.flop / (kind.peak_flops * reached * kernel.algorithm)
        return kernel.repeats * (kernel.launches * kind.launch_ns + max(compute_s, memory_s) * NS_PER_S)

    def _sum_ns(self, kernels: tuple[Kernel, ...], kind: DeviceKind) -> int:
        return round(sum(self.kernel_ns(kernel, kind) for kernel in kernels))


def _device_kind(name: str) -> DeviceKind:
    if name not in DEVICE_KINDS:
        raise UnknownNameError("device kind", name, list(DEVICE_KINDS))
    return DEVICE_KINDS[name]
