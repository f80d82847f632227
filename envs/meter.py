"""Meter: whoever pays for the pricings of an environment."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.strategy import ParallelConfig


class Meter(Protocol):
    """Is asked before strategies are priced, and learns their prices; a search's ledger is one."""

    def charge_batch(self, count: int) -> int:
        """Pay for up to ``count`` pricings, which come next.

        Its exceptions end the step: strategies that were not paid for are not priced.

        Returns:
            How many are paid for, at least one.
        """
        ...

    def record_batch(
        self,
        overflow_bytes: NDArray[np.int64],
        cost_ns: NDArray[np.int64],
        configs: Callable[[int], list[ParallelConfig]],
    ) -> None:
        """Learn the prices of the pricings paid for last, in order.

        Args:
            overflow_bytes: (count,) memory needed beyond what the devices have.
            cost_ns: (count,) iteration times.
            configs: the configs of one of the strategies.
        """
        ...
