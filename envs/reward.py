"""Rewards: what a change of one config earns. A new reward is one more class here."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from envs.errors import RewardError
from sim.problem import Problem

Rewards: TypeAlias = NDArray[np.float64] | float


@dataclass(frozen=True, slots=True)
class Price:
    """What the simulator says of a strategy, or of S strategies.

    Attributes:
        cost_ns: iteration time, or (S,).
        overflow_bytes: bytes beyond the devices' memory, summed over devices; 0 if the strategy fits. Or (S,).
    """

    cost_ns: NDArray[np.int64] | int
    overflow_bytes: NDArray[np.int64] | int


class Reward(Protocol):
    """Judges one step of each episode."""

    def __call__(self, problem: Problem, before: Price, after: Price) -> Rewards:
        """The rewards, (S,), of changes from ``before`` to ``after``, element by element."""
        ...


class CostReduction:
    """(cost before - cost after) / cost of data parallelism, so that an episode's return telescopes.

    Memory is penalised in the same way: by the growth of the overflow as a share of all devices' memory, times
    ``memory_penalty``. The return of an episode is therefore the drop of ``cost + penalty * overflow``.

    Args:
        memory_penalty: cost of overflowing by the memory of all devices, in iterations of data parallelism. At the
            default, overflowing by one per cent costs a tenth of one such iteration.
    """

    def __init__(self, *, memory_penalty: float = 10.0) -> None:
        if not memory_penalty >= 0:
            raise RewardError("memory_penalty", memory_penalty)
        self.memory_penalty = memory_penalty

    def __call__(self, problem: Problem, before: Price, after: Price) -> Rewards:
        """The rewards of changes from ``before`` to ``after``."""
        # One nanosecond keeps the rewards finite for graphs whose operators all take no time.
        saved = (before.cost_ns - after.cost_ns) / max(1, problem.data_parallel_ns)
        return saved - self.memory_penalty * _overflow_growth(problem, before, after)


class LogCostReduction:
    """log(cost before / cost after): halving the cost earns the same wherever one is.

    Random strategies can be ten times slower than data parallelism; here such a step does not drown the small
    gains near the optimum. It telescopes like ``CostReduction`` and penalises memory alike.

    Args:
        memory_penalty: see ``CostReduction``; in units of the logarithm.
    """

    def __init__(self, *, memory_penalty: float = 10.0) -> None:
        if not memory_penalty >= 0:
            raise RewardError("memory_penalty", memory_penalty)
        self.memory_penalty = memory_penalty

    def __call__(self, problem: Problem, before: Price, after: Price) -> Rewards:
        """The rewards of changes from ``before`` to ``after``."""
        # One nanosecond keeps the logarithm finite too.
        gained = np.log(np.maximum(1, before.cost_ns) / np.maximum(1, after.cost_ns))
        return gained - self.memory_penalty * _overflow_growth(problem, before, after)


def _overflow_growth(problem: Problem, before: Price, after: Price) -> Rewards:
    total = sum(device.memory_bytes for device in problem.topology.devices)
    return (after.overflow_bytes - before.overflow_bytes) / total
