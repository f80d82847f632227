"""DeviceKind: the constants of a make of device, and those known by name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A make of device.

    Attributes:
        name: what topologies call it.
        peak_flops: single-precision peak without tensor cores, FLOP/s, at the clock it sustains.
        memory_bandwidth_bytes_per_s: of its own memory, vendor's figure.
        launch_ns: from one short kernel to the next.
    """

    name: str
    peak_flops: float
    memory_bandwidth_bytes_per_s: float
    launch_ns: float


# Vendor data sheets, dense, SXM boards. The K80 is one GK210 at its base clock of 560 MHz: TensorFlow's benchmarks
# of Inception-v3 and ResNet reach 37-49 % of that peak, 46-60 % of a P100's, but only 24-32 % of 4.37 TFLOP/s (boost).
# A null kernel takes 3 us on recent
# systems, 5 us in cuDNN's early years. The CPU is one core with AVX2 at 3 GHz and a fair share of its host (estimate).
DEVICE_KINDS: dict[str, DeviceKind] = {
    kind.name: kind
    for kind in (
        DeviceKind("k80", 2.80e12, 240e9, 5000.0),
        DeviceKind("p100", 10.6e12, 732e9, 5000.0),
        DeviceKind("v100", 15.7e12, 900e9, 5000.0),
        DeviceKind("a100", 19.5e12, 1555e9, 3000.0),
        DeviceKind("h100", 66.9e12, 3350e9, 3000.0),
        DeviceKind("h200", 66.9e12, 4800e9, 3000.0),
        DeviceKind("cpu", 0.1e12, 10e9, 5000.0),
    )
}
