"""Timing and Platform: how long a part took, and on what; the values of the measured cost database."""

from dataclasses import dataclass

TASK_KEY = '{"kind":"task"}'
"""Key of the executor's own time for each task, forward and backward, beside the part's."""


def update_key(num_bytes: int) -> str:
    """Key of an optimizer update of weights of so many bytes; its time is the forward time."""
    return f'{{"kind":"update","bytes":{num_bytes}}}'


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    """What times hold for.

    Attributes:
        device_kind: what topologies call it.
        device: what the machine calls it.
        num_threads: of PyTorch, on a CPU; 0 on a GPU.
        dtype: ``fp32``, ``tf32`` (fp32 whose matrix products round their factors) or ``bf16``.
        torch_version: that computed.
    """

    device_kind: str
    device: str
    num_threads: int
    dtype: str
    torch_version: str

    def __str__(self) -> str:
        threads = f", {self.num_threads} threads" if self.num_threads else ""
        return f"{self.device}{threads}, {self.dtype}, torch {self.torch_version}"


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one part.

    Attributes:
        forward_ns: median.
        forward_variance: of the single times, ns^2.
        backward_ns: median; 0 if it has no backward pass.
        backward_variance: of the single times, ns^2.
        num_repeats: single times of each.
    """

    forward_ns: float
    forward_variance: float
    backward_ns: float
    backward_variance: float
    num_repeats: int
