"""PeakMemory: the most memory that a rank has used since it was asked to watch."""

import resource
from pathlib import Path

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")

RESET_PEAK = "5"
"""Linux, proc(5): written to clear_refs, the peak resident set size starts again from the present one."""


class PeakMemory:
    """Watches from its construction.

    GPU: what PyTorch allocates there. CPU: growth of the process's resident set beyond the present one, so that
    PyTorch's libraries are not part of it, but whatever else the process does is.

    Args:
        device: of the rank.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        elif CLEAR.exists():
            CLEAR.write_text(RESET_PEAK)
        self._before = self._peak_bytes()

    @property
    def bytes(self) -> int:
        """The peak so far."""
        return self._peak_bytes() - self._before

    def _peak_bytes(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        if STATUS.exists():
            (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
            return int(line.split()[1]) * 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
