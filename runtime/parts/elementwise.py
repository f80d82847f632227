"""Parts of operators element by element: concat, add, ReLU, dropout; and layer norm, row by row."""

import torch
from torch import Tensor
from torch.nn import functional

from runtime.exchange import Steps, all_moments
from runtime.parts.normalisation import NORM_EPSILON, moments, normalise
from runtime.parts.part import Part


def concat(part: Part) -> tuple[Tensor, ...]:
    """What the part needs of each tensor, side by side; of some it may need nothing."""
    if not part.inputs:
        return (part.source,)
    return (torch.cat(part.inputs, part.operator.attribute("axis")),)


def add(part: Part) -> tuple[Tensor, ...]:
    """The sum of two tensors, then ReLU if asked for."""
    left, right = (*part.inputs, *part.data)
    output = left + right
    return (functional.relu(output, inplace=True) if part.operator.attribute("relu") else output,)


def relu(part: Part) -> tuple[Tensor, ...]:
    """max(0, x) as an operator of its own."""
    return (functional.relu(part.source),)


def dropout(part: Part) -> tuple[Tensor, ...]:
    """Zeroes elements at random and scales the others up; which ones depends on their place in the whole tensor."""
    rate = part.operator.attribute("rate_percent") / 100
    if not rate:
        return (part.source,)
    kept = _uniform(part) >= rate
    return (part.source * kept * (1 / (1 - rate)),)


def layer_norm(part: Part) -> Steps[tuple[Tensor, ...]]:
    """Mean and variance of each row; parts along its channels tell each other theirs."""
    scale, shift = part.weights
    if part.is_whole_group:
        return (functional.layer_norm(part.source, scale.shape, scale, shift, NORM_EPSILON),)
    statistics = yield from all_moments(moments(part.source, (-1,)))
    return (normalise(part.source, statistics[..., None], scale, shift),)


def _uniform(part: Part) -> Tensor:
    """Numbers in [0, 1) that follow from the seed and each element's place, so that every split draws the same.

    Each axis contributes a well mixed number, their sum is mixed again: 31 bits, by multiplication and shifts.
    """
    bits = torch.zeros((), dtype=torch.int64, device=part.source.device)
    for axis, (low, high) in enumerate(part.span):
        places = torch.arange(low, high, device=part.source.device)
        mixed = _mix(_mix(places + 7919 * part.seed) + 104729 * (axis + 1))
        bits = bits[..., None] + mixed
    return _mix(bits) * 2.0**-31


def _mix(bits: Tensor) -> Tensor:
    """A permutation of 31 bits that spreads each over all (the constants are odd, of no other meaning)."""
    for shift, factor in ((15, 0x2C1B3C6D), (12, 0x297A2D39), (15, 1)):
        bits = ((bits ^ (bits >> shift)) * factor) & 0x7FFFFFFF
    return bits
