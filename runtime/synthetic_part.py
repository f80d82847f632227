"""make_part: a part of an operator on tensors made up for it, shaped as the executor would hand them over."""

import torch
from torch import Tensor

from runtime.data_needs import DataNeed, data_needs
from runtime.parts.part import Part
from runtime.weight_layout import weight_layout
from sim.flows import needed_box, weight_interval
from sim.operator_graph import Box, OperatorGraph
from sim.strategy import ParallelConfig

SEED = 0


def make_part(
    graph: OperatorGraph, position: int, degrees: tuple[int, ...], *, device: torch.device, dtype: torch.dtype
) -> Part:
    """The part in the middle of an operator: with degrees of 3 and more it touches no border of an image.

    Args:
        graph: whose operator.
        position: of the operator in it.
        degrees: parts along each of its dimensions.
        device: where the tensors are made.
        dtype: of all that are real.
    """
    operator = graph.operators[position]
    config, number = ParallelConfig(degrees, (0,)), 0
    for degree in degrees:
        number = number * degree + degree // 2
    span = config.box(operator, number)
    generator = torch.Generator(device).manual_seed(SEED)

    def random(sizes: tuple[int, ...]) -> Tensor:
        return torch.randn(sizes, generator=generator, device=device, dtype=dtype)

    def data(need: DataNeed) -> Tensor:
        sizes = _sizes(need.box(span))
        if need.num_classes:
            return torch.randint(need.num_classes, sizes, generator=generator, device=device)
        return random(sizes)

    weights = []
    for tensor in weight_layout(operator):
        low, high = weight_interval(operator, config, number)
        sizes = list(tensor.sizes)
        sizes[tensor.unit_axis] = high - low
        weights.append((random(tuple(sizes)) * tensor.std + tensor.mean).requires_grad_())
    edges = [edge for edge in graph.edges if edge.dst == position]
    is_terminal = operator.kind == "softmax"
    return Part(
        operator,
        span,
        tuple(random(_sizes(needed_box(graph, edge, span))).requires_grad_() for edge in edges),
        tuple(data(need) for need in data_needs(operator, is_terminal=is_terminal)),
        tuple(weights),
        is_terminal,
        SEED,
    )


def _sizes(box: Box) -> tuple[int, ...]:
    return tuple(max(0, high - low) for low, high in box)
