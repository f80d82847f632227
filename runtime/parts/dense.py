"""Parts of operators that are matrix products or tables: linear, softmax, embedding."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from runtime.exchange import Steps, all_log_sum_exp, all_sum
from runtime.parts.part import Part


def linear(part: Part) -> tuple[Tensor, ...]:
    """The part's channels of a matrix product with all features."""
    output = _product(part)
    return (functional.relu(output, inplace=True) if part.operator.attribute("relu") else output,)


def embedding(part: Part) -> tuple[Tensor, ...]:
    """The part's columns of each word's vector."""
    return (functional.embedding(part.source, part.weights[0]),)


def softmax(part: Part) -> Steps[tuple[Tensor, ...]]:
    """Probabilities over the vocabulary; the part's share of the mean cross-entropy, if nobody reads them.

    Parts along the vocabulary tell each other log(sum(exp(x))) of their own columns. The share of a part of a split
    vocabulary is its fraction of that, less the logits of the labels among its columns: shares add up to the loss.
    """
    logits = _product(part)
    if part.is_whole_group and not part.is_terminal:
        return (logits.softmax(-1),)
    if not part.is_terminal:
        probabilities = yield from _split_softmax(logits)
        return (probabilities,)
    num_rows = math.prod(part.operator.sizes[:-1])
    rows, labels = logits.flatten(0, -2), part.data[-1].flatten()
    if part.is_whole_group:
        return (functional.cross_entropy(rows, labels, reduction="sum") / num_rows,)
    total = yield from all_log_sum_exp(rows.logsumexp(-1))
    low, high = part.span[-1]
    is_mine = (low <= labels) & (labels < high)
    chosen = rows.gather(1, torch.where(is_mine, labels - low, 0)[:, None]).squeeze(1)
    fraction = (high - low) / part.operator.sizes[-1]
    return ((fraction * total - torch.where(is_mine, chosen, 0.0)).sum() / num_rows,)


def _split_softmax(logits: Tensor) -> Steps[Tensor]:
    # The sum is of exponentials of differences to a common number, which has no gradient of its own.
    shift = yield from all_log_sum_exp(logits.detach().logsumexp(-1))
    exponentials = (logits - shift[..., None]).exp()
    total = yield from all_sum(exponentials.sum(-1))
    return exponentials / total[..., None]


def _product(part: Part) -> Tensor:
    lead = len(part.span) - 1
    bias = part.weights[1] if part.operator.attribute("bias") else None
    return functional.linear(part.source.flatten(lead), part.weights[0], bias)
