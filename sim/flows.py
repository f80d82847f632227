"""Flows: which sub-tensors move between the parts of two operators."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise, product

from sim.operator_graph import BYTES_PER_ELEMENT, WHOLE, Box, Edge, Operator, OperatorGraph
from sim.strategy import ParallelConfig, Strategy


@dataclass(frozen=True, slots=True)
class Flow:
    """What one part of a producer sends to one device.

    Attributes:
        src_part: part of the producer.
        src_device: its device.
        dst_device: a device that needs some of what the part writes; the same one if nothing has to move.
        dst_parts: the consumer's parts on that device that need it, ascending.
        boxes: for each of these, the box of the tensor that it needs of this part.
        num_bytes: of the union of the boxes: what several parts of a device need is sent once.
    """

    src_part: int
    src_device: int
    dst_device: int
    dst_parts: tuple[int, ...]
    boxes: tuple[Box, ...]
    num_bytes: int


def written_box(operator: Operator, output: int, box: Box) -> Box:
    """The box of an output tensor that a part writes whose dimensions span ``box``."""
    tensor = operator.outputs[output]
    return tuple((0, size) if dim == WHOLE else box[dim] for size, dim in zip(tensor.sizes, tensor.dims, strict=True))


def needed_box(graph: OperatorGraph, edge: Edge, box: Box) -> Box:
    """The box of the edge's tensor that a part of the consumer reads whose dimensions span ``box``."""
    windows = graph.operators[edge.dst].inputs[edge.input].windows
    sizes = graph.operators[edge.src].outputs[edge.output].sizes
    return tuple(window.interval(box, size) for window, size in zip(windows, sizes, strict=True))


def intersection(left: Box, right: Box) -> Box:
    """The common box of two; its volume is 0 where they do not meet."""
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(left, right, strict=True))


def volume(box: Box) -> int:
    """Elements of a box; 0 if an interval is empty."""
    return math.prod(max(0, high - low) for low, high in box)


def union_volume(boxes: Iterable[Box]) -> int:
    """Elements that lie in at least one box: all boundaries cut space into cells, each in or out."""
    distinct = list(dict.fromkeys(boxes))
    if len(distinct) == 1:
        return volume(distinct[0])
    cuts = [sorted({bound for interval in axis for bound in interval}) for axis in zip(*distinct, strict=True)]
    cells: Iterator[Box] = product(*(pairwise(axis) for axis in cuts))
    return sum(volume(cell) for cell in cells if any(volume(intersection(cell, box)) for box in distinct))


def tensor_flows(graph: OperatorGraph, strategy: Strategy, edge: Edge) -> Iterator[Flow]:
    """The flows along one edge of the operator graph, by source part, then by first destination part."""
    src_config, dst_config = strategy[edge.src], strategy[edge.dst]
    needed = [
        needed_box(graph, edge, dst_config.box(graph.operators[edge.dst], part)) for part in range(dst_config.num_tasks)
    ]
    for src_part, src_device in enumerate(src_config.devices):
        source = graph.operators[edge.src]
        written = written_box(source, edge.output, src_config.box(source, src_part))
        by_device: dict[int, dict[int, Box]] = {}
        for dst_part, dst_device in enumerate(dst_config.devices):
            box = intersection(written, needed[dst_part])
            if volume(box):
                by_device.setdefault(dst_device, {})[dst_part] = box
        for dst_device, boxes in by_device.items():
            num_bytes = BYTES_PER_ELEMENT * union_volume(boxes.values())
            yield Flow(src_part, src_device, dst_device, tuple(boxes), tuple(boxes.values()), num_bytes)


def weight_interval(operator: Operator, config: ParallelConfig, part: int) -> tuple[int, int]:
    """The interval of the weights' units that a part holds."""
    assert operator.weight is not None
    if operator.weight.dim == WHOLE:
        return 0, 1
    return config.box(operator, part)[operator.weight.dim]
