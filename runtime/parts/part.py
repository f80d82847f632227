"""Part: one part of an operator with all tensors that it computes on."""

from dataclasses import dataclass

from torch import Tensor

from sim.operator_graph import Box, Operator


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an operator, ready to compute.

    Attributes:
        operator: whose part it is.
        span: the interval of each of the operator's dimensions that it computes.
        inputs: for each of the operator's inputs, the box that the part needs of it (``sim.flows.needed_box``); an
            empty interval has length 0. Padding of a convolution is not part of it.
        data: for each of ``runtime.data_needs.data_needs``, the box that the part needs.
        weights: for each of ``runtime.weight_layout.weight_layout``, the units that the part needs.
        is_terminal: nobody reads the operator: the part returns its share of the loss instead of its outputs.
        seed: of the elements that a dropout zeroes.
    """

    operator: Operator
    span: Box
    inputs: tuple[Tensor, ...] = ()
    data: tuple[Tensor, ...] = ()
    weights: tuple[Tensor, ...] = ()
    is_terminal: bool = False
    seed: int = 0

    @property
    def source(self) -> Tensor:
        """The first tensor that the part reads, whoever made it."""
        return self.inputs[0] if self.inputs else self.data[0]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extent of each dimension in the part."""
        return tuple(high - low for low, high in self.span)

    @property
    def is_whole_group(self) -> bool:
        """Whether it has nobody to exchange anything with."""
        exchange = self.operator.exchange
        return exchange is None or all(self.span[dim] == (0, self.operator.sizes[dim]) for dim in exchange.across)
