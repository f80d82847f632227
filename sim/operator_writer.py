"""OperatorWriter: appends operators to a graph under construction, and the handles of their tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sim.errors import IllegalGraphError
from sim.operator_graph import Dimension, Exchange, Input, Label, Operator, OperatorGraph, Output, Weight, Window

IMAGE = ("sample", "channel", "height", "width")
SEQUENCE = ("sample", "step", "channel")
VECTOR = ("sample", "channel")


@dataclass(frozen=True, slots=True)
class Tensor:
    """Handle of a tensor in a graph under construction: output ``output`` of operator ``producer``."""

    producer: str
    output: int
    axes: tuple[str, ...]
    sizes: tuple[int, ...]


Source: TypeAlias = Tensor | tuple[int, ...]
"""What an operator reads: a tensor, or the sizes of data that is present on every device."""

Read: TypeAlias = tuple[Source, tuple[Window, ...]]
"""A source and the window through which each of its axes is read."""


def axes_of(source: Source) -> tuple[str, ...]:
    """Names of its axes; those of data follow from their number."""
    if isinstance(source, Tensor):
        return source.axes
    return {4: IMAGE, 3: SEQUENCE}.get(len(source), VECTOR)


def sizes_of(source: Source) -> tuple[int, ...]:
    """Elements along each of its axes."""
    return source.sizes if isinstance(source, Tensor) else source


def same_windows(num_axes: int) -> tuple[Window, ...]:
    """Each axis is read where the operator's dimension of that number is computed."""
    return tuple(Window(axis) for axis in range(num_axes))


def dimensions(names: tuple[str, ...], sizes: tuple[int, ...], labels: str) -> tuple[Dimension, ...]:
    """Dimensions with one letter of ``labels`` each: S, A, P, or - if it is not divisible."""
    letters: dict[str, Label] = {"S": "S", "A": "A", "P": "P", "-": ""}
    return tuple(Dimension(*spec) for spec in zip(names, sizes, (letters[x] for x in labels), strict=True))


class OperatorWriter:
    """The operators written so far, in topological order.

    Args:
        name: of the graph.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._operators: list[Operator] = []

    def build(self) -> OperatorGraph:
        """The graph.

        Raises:
            IllegalGraphError: an operator contradicts itself or its producers.
        """
        return OperatorGraph(self._operators, name=self.name)

    def append(
        self,
        name: str,
        kind: str,
        dims: tuple[Dimension, ...],
        reads: Sequence[Read],
        *,
        outputs: tuple[Output, ...] = (),
        weight: Weight | None = None,
        exchange: Exchange | None = None,
        attributes: Mapping[str, int] | None = None,
    ) -> Tensor:
        """Append an operator and return its first output; its only one, shaped like ``dims``, unless given."""
        sizes = tuple(dim.size for dim in dims)
        self.require_positive(name, **{dim.name: dim.size for dim in dims})
        inputs = tuple(
            Input(source.producer, source.output, windows) for source, windows in reads if isinstance(source, Tensor)
        )
        operator = Operator(
            name,
            kind,
            dims,
            outputs or (Output("output", sizes, tuple(range(len(dims)))),),
            inputs,
            weight,
            exchange,
            tuple(sorted((key, int(value)) for key, value in (attributes or {}).items())),
        )
        self._operators.append(operator)
        return Tensor(name, 0, tuple(dim.name for dim in dims), sizes)

    def image_sizes(self, name: str, source: Source) -> tuple[int, ...]:
        """(samples, channels, height, width) of what operator ``name`` reads; IllegalGraphError if it is no image."""
        self.require(name, axes_of(source) == IMAGE, f"it needs an image {IMAGE}, not axes {axes_of(source)}")
        return sizes_of(source)

    def sequence_sizes(self, name: str, source: Source) -> tuple[int, ...]:
        """(samples, steps, channels) of what operator ``name`` reads; IllegalGraphError if it is no sequence."""
        is_sequence = len(axes_of(source)) == len(SEQUENCE)
        self.require(name, is_sequence, f"it needs a sequence {SEQUENCE}, not axes {axes_of(source)}")
        return sizes_of(source)

    def require(self, name: str, condition: bool, reason: str) -> None:
        """Refuse operator ``name`` unless the condition holds."""
        if not condition:
            raise IllegalGraphError(name, reason)

    def require_positive(self, name: str, **values: int) -> None:
        """Refuse operator ``name`` unless all of its numbers are positive."""
        for key, value in values.items():
            self.require(name, value > 0, f"{key} = {value} must be positive")
