"""Weights before the first iteration, made-up data, dropouts: functions of a seed and a name, alike on every rank."""

import hashlib
from typing import Protocol

import torch
from torch import Tensor

from runtime.data_needs import DataNeed
from runtime.weight_layout import WeightTensor
from sim.operator_graph import Box, Operator


class DataSource(Protocol):
    """Where the data of a model come from.

    Attributes:
        is_constant: every iteration trains on the same.
    """

    is_constant: bool

    def box(self, operator: Operator, need: DataNeed, box: Box, iteration: int) -> Tensor:
        """A box of what an operator needs: float32 or, where it needs classes, int64."""
        ...


class RandomData:
    """Normal numbers, and words and labels drawn evenly; one batch for all iterations.

    Args:
        seed: of the numbers.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self.seed, self.is_constant = seed, True

    def box(self, operator: Operator, need: DataNeed, box: Box, iteration: int) -> Tensor:
        """See ``DataSource``."""
        generator = generator_of(self.seed, "data", operator.name, need.name)
        whole = (
            torch.randint(need.num_classes, need.sizes, generator=generator)
            if need.num_classes
            else torch.randn(need.sizes, generator=generator)
        )
        return whole[tuple(slice(low, high) for low, high in box)].clone()


def initial_weight(group: str, tensor: WeightTensor, seed: int) -> Tensor:
    """All units of one tensor of a weight group, float32."""
    generator = generator_of(seed, "weight", group, tensor.name)
    return torch.randn(tensor.sizes, generator=generator).mul_(tensor.std).add_(tensor.mean)


def dropout_seed(seed: int, iteration: int) -> int:
    """Which elements dropouts zero in an iteration follows from it."""
    return seed * 1_000_003 + iteration


def generator_of(seed: int, *names: str) -> torch.Generator:
    """A generator of its own for each name."""
    digest = hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
