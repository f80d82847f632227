"""OperatorGraph: the operators of one DNN, the tensors between them and the weights they share.

Dimensions are positional; sample, attribute and parameter are labels on them (FlexFlow, section 4).
Boxes are half-open: one interval [low, high) per axis.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

import networkx

from sim.errors import IllegalGraphError, UnknownNameError

WHOLE = -1
"""In place of a dimension's index: no dimension of the operator cuts this axis."""

BYTES_PER_ELEMENT = 4
"""Single precision, as in the FlexFlow paper (section 8)."""

MAX_AXES = 4
"""Dimensions of an operator and axes of a tensor, at most."""

Label: TypeAlias = Literal["S", "A", "P", ""]
Interval: TypeAlias = tuple[int, int]
Box: TypeAlias = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of an operator's output: sample (S), attribute (A), parameter (P) or not divisible ("")."""

    name: str
    size: int
    label: Label


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that an operator produces.

    Attributes:
        name: unique within the operator.
        sizes: elements along each axis.
        dims: for each axis, the operator's dimension that cuts it, or WHOLE.
    """

    name: str
    sizes: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def num_elements(self) -> int:
        """Elements of the whole tensor."""
        return math.prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Window:
    """The interval of an input axis that an interval of an operator's dimension needs.

    [low, high) of dimension ``dim`` needs
    [low * stride // divisor - pad, (high - 1) * stride // divisor - pad + kernel), clipped to the axis.
    The default is the same interval; convolutions widen it (halo), concat shifts it, flat divides it.
    """

    dim: int
    stride: int = 1
    divisor: int = 1
    pad: int = 0
    kernel: int = 1

    def interval(self, box: Box, size: int) -> Interval:
        """The interval needed of an axis of ``size`` elements for an output ``box``; empty if low >= high."""
        if self.dim == WHOLE:
            return 0, size
        low, high = box[self.dim]
        first = low * self.stride // self.divisor - self.pad
        last = (high - 1) * self.stride // self.divisor - self.pad
        return max(0, first), min(size, last + self.kernel)

    def covered(self, dim_size: int, axis_size: int) -> Interval:
        """The indices of the dimension that need something of an axis of ``axis_size`` elements."""
        first = -((self.kernel - self.pad - 1) * self.divisor // self.stride)
        last = ((axis_size + self.pad) * self.divisor - 1) // self.stride
        return max(0, first), min(dim_size, last + 1)


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor that an operator reads: output ``output`` of operator ``producer``, one window per axis."""

    producer: str
    output: int
    windows: tuple[Window, ...]


@dataclass(frozen=True, slots=True)
class Weight:
    """All parameters that an operator trains, cut along at most one of its dimensions.

    Operators that name the same ``group`` share them (unrolled steps of a recurrent layer).

    Attributes:
        group: name of the weight group.
        dim: the operator's parameter dimension that cuts the weights, or WHOLE.
        elements_per_unit: elements for each index of ``dim`` (all elements if WHOLE).
    """

    group: str
    dim: int
    elements_per_unit: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """What the parts of one operator tell each other, once forward and once backward.

    Splitting batch norm over samples, a softmax over its vocabulary or an LSTM over its hidden units
    does not only divide the work: statistics or hidden states cross between the parts.

    Attributes:
        kind: ``all_reduce`` (every participant ends with the sum) or ``all_gather`` (with all slices).
        across: dimensions along which parts participate in one exchange.
        over: dimensions whose extents in one part multiply to its message.
        factor: elements of the message for each of these.
        rounds: exchanges one after another (recurrent steps within the operator).
    """

    kind: Literal["all_reduce", "all_gather"]
    across: tuple[int, ...]
    over: tuple[int, ...]
    factor: int
    rounds: int = 1


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the DNN.

    Attributes:
        name: unique within the graph.
        kind: what it computes (``conv2d``, ``lstm``, ...); ``sim.work`` knows the arithmetic of each.
        dims: its dimensions.
        outputs: its tensors; every divisible dimension cuts each of them.
        inputs: the tensors it reads, in order.
        weight: what it trains, if anything.
        exchange: what its parts tell each other, if anything.
        attributes: further numbers its kind needs (kernel size, stride, ...), sorted by name.
    """

    name: str
    kind: str
    dims: tuple[Dimension, ...]
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...] = ()
    weight: Weight | None = None
    exchange: Exchange | None = None
    attributes: tuple[tuple[str, int], ...] = field(default=())

    def attribute(self, name: str, default: int = 0) -> int:
        """One of the attributes, or ``default`` where the operator does not have it."""
        return dict(self.attributes).get(name, default)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extent of each dimension."""
        return tuple(dim.size for dim in self.dims)

    @property
    def num_weight_elements(self) -> int:
        """Trainable elements, shared ones included."""
        if self.weight is None:
            return 0
        return self.weight.elements_per_unit * self.num_weight_units

    @property
    def num_weight_units(self) -> int:
        """Extent of the dimension that cuts the weights; 1 if none does."""
        if self.weight is None or self.weight.dim == WHOLE:
            return 1
        return self.dims[self.weight.dim].size


@dataclass(frozen=True, slots=True)
class Edge:
    """Tensor number ``output`` of operator ``src``, read by operator ``dst`` as its input number ``input``.

    ``src`` and ``dst`` are positions in ``OperatorGraph.operators``.
    """

    src: int
    output: int
    dst: int
    input: int


class OperatorGraph:
    """The operator graph G of FlexFlow, section 3: operators in topological order.

    Args:
        operators: in an order where producers come before consumers; it is the order of the task keys.
        name: the model's name.

    Raises:
        IllegalGraphError: an operator contradicts itself or its producers.
    """

    def __init__(self, operators: Iterable[Operator], *, name: str) -> None:
        self.name = name
        self.operators: tuple[Operator, ...] = tuple(operators)
        if not self.operators:
            raise IllegalGraphError(name, "the graph has no operators")
        self._positions: dict[str, int] = {}
        for position, operator in enumerate(self.operators):
            self._check(operator)
            self._positions[operator.name] = position
        self._check_weight_groups()

    def __len__(self) -> int:
        return len(self.operators)

    def __repr__(self) -> str:
        return f"OperatorGraph({self.name!r}, {len(self)} operators, {self.num_parameters:,} parameters)"

    def position(self, name: str) -> int:
        """Position of the operator called ``name``.

        Raises:
            UnknownNameError: there is none.
        """
        if name not in self._positions:
            raise UnknownNameError("operator", name, list(self._positions))
        return self._positions[name]

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All tensors between operators, ordered by consumer, then input number."""
        return tuple(
            Edge(self._positions[read.producer], read.output, position, number)
            for position, operator in enumerate(self.operators)
            for number, read in enumerate(operator.inputs)
        )

    @cached_property
    def weight_groups(self) -> dict[str, tuple[int, ...]]:
        """Positions of the operators that share each weight group, in order of first appearance."""
        groups: dict[str, list[int]] = {}
        for position, operator in enumerate(self.operators):
            if operator.weight is not None:
                groups.setdefault(operator.weight.group, []).append(position)
        return {group: tuple(members) for group, members in groups.items()}

    @property
    def num_parameters(self) -> int:
        """Trainable elements, each weight group counted once."""
        return sum(self.operators[members[0]].num_weight_elements for members in self.weight_groups.values())

    @cached_property
    def networkx(self) -> networkx.MultiDiGraph:
        """The graph for networkx's algorithms: nodes are operator names, an edge for each tensor read."""
        graph = networkx.MultiDiGraph(name=self.name)
        graph.add_nodes_from((operator.name, {"operator": operator}) for operator in self.operators)
        for edge in self.edges:
            src, dst = self.operators[edge.src], self.operators[edge.dst]
            graph.add_edge(src.name, dst.name, tensor=src.outputs[edge.output])
        return graph

    @cached_property
    def hash(self) -> str:
        """Short digest of everything that the cost of a strategy depends on; the name is not part of it."""
        text = json.dumps([asdict(operator) for operator in self.operators], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _check(self, operator: Operator) -> None:
        def require(condition: bool, reason: str) -> None:
            if not condition:
                raise IllegalGraphError(operator.name, reason)

        require(operator.name not in self._positions, "the name is used twice")
        require(0 < len(operator.dims) <= MAX_AXES, f"it needs 1 to {MAX_AXES} dimensions")
        require(bool(operator.outputs), "it has no output")
        require(all(size > 0 for size in operator.sizes), f"extents {operator.sizes} must be positive")
        divisible = {d for d, dim in enumerate(operator.dims) if dim.label}
        for output in operator.outputs:
            require(len(output.sizes) == len(output.dims) <= MAX_AXES, f"output '{output.name}' is malformed")
            cut = [d for d in output.dims if d != WHOLE]
            require(divisible <= set(cut), f"output '{output.name}' would be written twice by parts of one split")
            require(len(cut) == len(set(cut)), f"output '{output.name}' has two axes cut by one dimension")
            for size, dim in zip(output.sizes, output.dims, strict=True):
                require(dim == WHOLE or size == operator.dims[dim].size, f"output '{output.name}' has a wrong extent")
        for read in operator.inputs:
            require(read.producer in self._positions, f"its producer '{read.producer}' does not come before it")
            producer = self.operators[self._positions[read.producer]]
            require(0 <= read.output < len(producer.outputs), f"'{read.producer}' has no output {read.output}")
            num_axes = len(producer.outputs[read.output].sizes)
            require(len(read.windows) == num_axes, f"it reads '{read.producer}' through {len(read.windows)} windows")
            used = [window.dim for window in read.windows if window.dim != WHOLE]
            require(len(used) == len(set(used)), f"it reads two axes of '{read.producer}' along one dimension")
        require(not operator.inputs or self._is_fed(operator), "some of its output needs none of its inputs")
        require(operator.weight is None or operator.weight.elements_per_unit > 0, "its weights have no elements")
        if operator.weight is not None and operator.weight.dim != WHOLE:
            require(operator.dims[operator.weight.dim].label == "P", "its weights are cut along no parameter dimension")

    def _is_fed(self, operator: Operator) -> bool:
        """Whether every element needs some input: one that all need, or several along one dimension (concat)."""
        spans: dict[int, list[Interval]] = {}
        for read in operator.inputs:
            tensor = self.operators[self._positions[read.producer]].outputs[read.output]
            partial = []
            for window, size in zip(read.windows, tensor.sizes, strict=True):
                if window.dim != WHOLE:
                    span = window.covered(operator.dims[window.dim].size, size)
                    if span != (0, operator.dims[window.dim].size):
                        partial.append((window.dim, span))
            if not partial:
                return True
            if len(partial) == 1:
                spans.setdefault(partial[0][0], []).append(partial[0][1])
        return any(_is_covered(intervals, operator.dims[dim].size) for dim, intervals in spans.items())

    def _check_weight_groups(self) -> None:
        for group, members in self.weight_groups.items():
            shapes: Sequence[tuple[int, int]] = [
                (self.operators[m].num_weight_units, self.operators[m].num_weight_elements) for m in members
            ]
            if len(set(shapes)) > 1:
                name = self.operators[members[0]].name
                raise IllegalGraphError(name, f"operators of weight group '{group}' differ in their weights")


def _is_covered(intervals: Iterable[Interval], size: int) -> bool:
    """Whether intervals together hold [0, size)."""
    reached = 0
    for low, high in sorted(intervals):
        if low > reached:
            return False
        reached = max(reached, high)
    return reached >= size
