"""Chains: which elements of an operator graph must wait for each other, whatever the strategy.

Element y of a consumer waits for element x of its producer if y's windows hold x. The part with y then waits for
the part with x, however both operators are split, since a part needs all that its elements need.
"""

from dataclasses import dataclass, field

import numpy as np

from sim.flows import intersection, volume
from sim.operator_graph import WHOLE, Box, Edge, Interval, OperatorGraph, Window

MAX_BOXES = 12
"""Boxes remembered for one operator, besides all of it; a dropped one only weakens the bound."""


@dataclass(slots=True)
class Link:
    """A box of an operator's elements, each of which waits for some element of every box before it.

    Attributes:
        operator: its position.
        box: half-open, one interval for each of the operator's dimensions.
        before: positions of links, in ``Chains.links``, of the operator's producers.
    """

    operator: int
    box: Box
    before: list[int] = field(default_factory=list)


class Chains:
    """The links of an operator graph, producers first.

    Args:
        graph: the operator graph.

    Attributes:
        links: in topological order.
        whole: for each operator, the position of the link of all its elements.
        coverage: for each edge, whether some element of the consumer waits for each element of the producer, and
            whether each element of the consumer waits for some element of the producer.
    """

    def __init__(self, graph: OperatorGraph) -> None:
        self.graph = graph
        self.links: list[Link] = []
        self.whole: list[int] = []
        self.coverage = {
            edge: (every_element_is_read(graph, edge), every_reader_is_fed(graph, edge)) for edge in graph.edges
        }
        incoming: list[list[Edge]] = [[] for _ in graph.operators]
        for edge in graph.edges:
            incoming[edge.dst].append(edge)
        of_operator: list[list[int]] = []
        for position in range(len(graph)):
            readers = [
                (number, readers_of(graph, edge, self.links[number].box))
                for edge in incoming[position]
                for number in of_operator[edge.src]
            ]
            everything: Box = tuple((0, size) for size in graph.operators[position].sizes)
            boxes = {box for _, box in readers if volume(box)} - {everything}
            kept = [everything, *sorted(boxes, key=lambda box: (-volume(box), box))[:MAX_BOXES]]
            self.whole.append(len(self.links))
            of_operator.append([*range(len(self.links), len(self.links) + len(kept))])
            for box in kept:
                before = [number for number, needing in readers if intersection(box, needing) == box]
                self.links.append(Link(position, box, sorted(set(before))))


def window_readers(window: Window, interval: Interval, dim_size: int) -> Interval:
    """The indices of the window's dimension whose own window meets an interval of the axis; empty if low >= high."""
    low, high = interval
    first = -(-(low - window.kernel + 1 + window.pad) * window.divisor // window.stride)
    last = ((high + window.pad) * window.divisor - 1) // window.stride
    return max(0, first), min(dim_size, last + 1)


def readers_of(graph: OperatorGraph, edge: Edge, box: Box) -> Box:
    """The consumer's elements that wait for something that the producer's elements in ``box`` write."""
    producer, consumer = graph.operators[edge.src], graph.operators[edge.dst]
    tensor = producer.outputs[edge.output]
    intervals: list[Interval] = [(0, size) for size in consumer.sizes]
    for window, size, dim in zip(consumer.inputs[edge.input].windows, tensor.sizes, tensor.dims, strict=True):
        if window.dim != WHOLE:
            written = (0, size) if dim == WHOLE else box[dim]
            intervals[window.dim] = window_readers(window, written, consumer.dims[window.dim].size)
    return tuple(intervals)


def every_reader_is_fed(graph: OperatorGraph, edge: Edge) -> bool:
    """Whether every element of the consumer waits for some element of the producer."""
    sizes = graph.operators[edge.dst].sizes
    everything: Box = tuple((0, size) for size in graph.operators[edge.src].sizes)
    return readers_of(graph, edge, everything) == tuple((0, size) for size in sizes)


def every_element_is_read(graph: OperatorGraph, edge: Edge) -> bool:
    """Whether some element of the consumer waits for what each element of the producer writes."""
    consumer = graph.operators[edge.dst]
    tensor = graph.operators[edge.src].outputs[edge.output]
    for window, size, dim in zip(consumer.inputs[edge.input].windows, tensor.sizes, tensor.dims, strict=True):
        if window.dim == WHOLE:
            continue
        dim_size = consumer.dims[window.dim].size
        if dim == WHOLE:
            low, high = window_readers(window, (0, size), dim_size)
            if low >= high:
                return False
            continue
        # ``window_readers`` of every index alone.
        at = np.arange(size, dtype=np.int64) + window.pad
        first = -(-(at - window.kernel + 1) * window.divisor // window.stride)
        last = ((at + 1) * window.divisor - 1) // window.stride
        if (np.maximum(first, 0) > np.minimum(last, dim_size - 1)).any():
            return False
    return True
