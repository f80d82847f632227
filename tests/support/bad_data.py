"""Data that end a rank, for tests of what becomes of the others; importable by the processes that are spawned."""

import os
import signal

from torch import Tensor
from torch import distributed as dist

from runtime.data_needs import DataNeed
from runtime.initial_state import RandomData
from sim.operator_graph import Box, Operator


class DeadlyData(RandomData):
    """Kills the process of rank 1."""

    def box(self, operator: Operator, need: DataNeed, box: Box, iteration: int) -> Tensor:
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().box(operator, need, box, iteration)


class MissingData(RandomData):
    """There is none on rank 1."""

    def box(self, operator: Operator, need: DataNeed, box: Box, iteration: int) -> Tensor:
        if dist.get_rank() == 1:
            raise LookupError("no data")
        return super().box(operator, need, box, iteration)
