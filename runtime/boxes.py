"""Boxes as regions of tensors: where one lies in another, and how boxes that overlap are sent once."""

from collections.abc import Sequence
from itertools import pairwise, product

from torch import Tensor

from sim.flows import intersection, volume
from sim.operator_graph import Box


def sizes_of(box: Box) -> tuple[int, ...]:
    """Lengths of a box's intervals; 0 where one is empty."""
    return tuple(max(0, high - low) for low, high in box)


def region(tensor: Tensor, held: Box, box: Box) -> Tensor:
    """The view of ``box`` in a tensor that holds the box ``held``."""
    if held == box:
        return tensor
    return tensor[tuple(slice(low - start, high - start) for (low, high), (start, _) in zip(box, held, strict=True))]


def disjoint_cover(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Boxes that hold each element of the union of ``boxes`` once: one if possible, else all cells between bounds."""
    distinct = list(dict.fromkeys(boxes))
    if len(distinct) == 1:
        return (distinct[0],)
    cuts = [sorted({bound for interval in axis for bound in interval}) for axis in zip(*distinct, strict=True)]
    cells: list[Box] = [
        cell
        for cell in product(*(pairwise(axis) for axis in cuts))
        if any(volume(intersection(cell, box)) for box in distinct)
    ]
    hull = tuple((axis[0], axis[-1]) for axis in cuts)
    return (hull,) if volume(hull) == sum(map(volume, cells)) else tuple(cells)
