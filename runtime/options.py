"""RankOptions: how ranks are started; RunOptions: how a strategy is run on them."""

from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class RankOptions:
    """How ranks are started.

    Attributes:
        backend: ``gloo`` on CPUs; ``nccl`` with one GPU for each rank.
        num_threads: of each rank's PyTorch on CPUs; 0 leaves PyTorch's choice.
        is_pinned: each rank runs on one of the CPUs that this process may use only, in turn.
        timeout_seconds: for which a rank waits for the others in one operation at most.
    """

    backend: Literal["gloo", "nccl"] = "gloo"
    num_threads: int = 1
    is_pinned: bool = False
    timeout_seconds: float = 60.0

    def device(self, local_rank: int) -> torch.device:
        """Where a rank computes."""
        return torch.device("cpu") if self.backend == "gloo" else torch.device("cuda", local_rank)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """How a strategy is run.

    Attributes:
        num_iterations: training iterations, one behind another.
        learning_rate: of SGD.
        seed: of the initial weights and of dropouts.
        receive_ahead: a receive is posted so many computations before its place in the order, so that the message
            moves while the rank computes; nccl, which takes messages in order, posts none ahead.
        is_collecting: weights and the last iteration's gradients are part of the result.
        is_timed: each step is timed; on a GPU this waits for it to end.
        is_double: float64 in place of float32, for tests that must tell mistakes from rounding.
    """

    num_iterations: int = 1
    learning_rate: float = 0.01
    seed: int = 0
    receive_ahead: int = 4
    is_collecting: bool = False
    is_timed: bool = True
    is_double: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """Of weights, activations and gradients."""
        return torch.float64 if self.is_double else torch.float32
