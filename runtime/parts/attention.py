"""Parts of attention: multi-head without its output projection, and Luong's."""

import torch
from torch import Tensor
from torch.nn import functional

from runtime.parts.part import Part
from sim.operator_graph import WHOLE


def attention(part: Part) -> tuple[Tensor, ...]:
    """The part's heads: (sample, step, head, head_size)."""
    sources = (*part.inputs, *part.data)
    attended = (sources[0], sources[-1], sources[-1])
    projected = []
    for number, source in enumerate(attended):
        kernel = part.weights[number]
        bias = part.weights[3 + number].flatten() if part.operator.attribute("bias") else None
        heads = functional.linear(source, kernel.flatten(0, 1), bias)
        projected.append(heads.reshape(*heads.shape[:2], *kernel.shape[:2]).transpose(1, 2))
    query, key, value = projected
    return (functional.scaled_dot_product_attention(query, key, value).transpose(1, 2),)


def luong_attention(part: Part) -> tuple[Tensor, ...]:
    """The part's channels of tanh(W [context; query]); scores and context are computed whole in every part."""
    is_query = [read.windows[1].dim != WHOLE for read in part.operator.inputs]
    data = list(part.data)
    query = part.inputs[is_query.index(True)] if any(is_query) else data.pop(0)
    memories = [tensor for tensor, flag in zip(part.inputs, is_query, strict=True) if not flag]
    memory = torch.cat([*memories, *data], 1)
    scores = query @ memory.transpose(1, 2)
    context = scores.softmax(-1) @ memory
    bias = part.weights[1] if part.operator.attribute("bias") else None
    return (functional.linear(torch.cat((context, query), 2), part.weights[0], bias).tanh(),)
