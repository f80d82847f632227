"""What batch norm and layer norm share when their statistics come from several parts."""

import torch
from torch import Tensor

NORM_EPSILON = 1e-5
"""Added to the variance, as in torch.nn."""


def moments(tensor: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Mean and variance over ``dims``, which are kept out: (2, ...)."""
    variance, mean = torch.var_mean(tensor, dims, correction=0)
    return torch.stack((mean, variance))


def normalise(tensor: Tensor, statistics: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """The tensor with mean 0 and variance 1, then scaled and shifted; all broadcast, ``statistics`` are (2, ...)."""
    mean, variance = statistics
    return torch.addcmul(shift, tensor - mean, (variance + NORM_EPSILON).rsqrt() * scale)
