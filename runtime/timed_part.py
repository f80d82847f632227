"""TimedPart: a part of an operator that is computed again and again, on tensors made up for it."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import torch
from torch import Tensor

from runtime.exchange import Alone, Exchanger
from runtime.lone_transport import Echo
from runtime.part_function import run_parts
from runtime.rank_exchanger import RankExchanger
from runtime.stopwatch import Stopwatch
from runtime.synthetic_part import make_part
from sim.operator_graph import OperatorGraph

WeightKey: TypeAlias = tuple[str, tuple[tuple[int, ...], ...]]
"""A weight group, and the sizes of a part's tensors."""


class TimedPart:
    """The part in the middle of an operator.

    Args:
        graph: whose operator.
        position: of the operator in it.
        degrees: parts along each of its dimensions.
        dtype: of all that are real.
        device: where it is computed.
        shared: weights of operators before it, by their group and sizes: it uses the same and updates only its own.

    Attributes:
        weight_bytes: of the weights that it updates.
    """

    def __init__(
        self,
        graph: OperatorGraph,
        position: int,
        degrees: tuple[int, ...],
        *,
        dtype: torch.dtype,
        device: torch.device,
        shared: dict[WeightKey, tuple[Tensor, ...]],
    ) -> None:
        operator = graph.operators[position]
        self._part = make_part(graph, position, degrees, dtype=dtype, device=device)
        num_parts = math.prod(degrees[dim] for dim in operator.exchange.across) if operator.exchange else 1
        # The executor's own way to meet other ranks, all but the messages, which the simulator prices.
        self._exchanger: Exchanger = RankExchanger(range(num_parts), Echo()) if num_parts > 1 else Alone()
        self._is_shared = operator.weight is not None and operator.weight.group != operator.name
        self._roots: list[Tensor] = []
        own = self._part.weights
        if operator.weight is not None:
            key = operator.weight.group, tuple(tuple(weight.shape) for weight in own)
            self._part = replace(self._part, weights=shared.setdefault(key, own))
        self._updated = own if self._part.weights is own else ()
        self.weight_bytes = sum(weight.nbytes for weight in self._updated)

    def prepare(self) -> None:
        """Gradients as before an iteration."""
        for tensor in self._part.inputs:
            tensor.grad = None
        for weight in self._part.weights:
            weight.grad = torch.zeros_like(weight) if self._is_shared else None

    def forward(self, stopwatch: Stopwatch, flush: Callable[[], None]) -> float:
        """Time of the forward pass, ns."""
        flush()
        taken_ns, (outputs,) = stopwatch(lambda: run_parts([self._part], self._exchanger))
        self._roots = [output for output in outputs if output.requires_grad]
        return taken_ns

    def backward(self, stopwatch: Stopwatch, flush: Callable[[], None]) -> float:
        """Time of the backward pass after it, ns; 0 if there is none."""
        roots, self._roots = self._roots, []
        if not roots:
            return 0.0
        flush()  # between its forward and its backward task, much else is computed
        gradients = [None if self._part.is_terminal else torch.ones_like(root) for root in roots]
        return stopwatch(lambda: torch.autograd.backward(roots, gradients))[0]

    def update(self, stopwatch: Stopwatch) -> float:
        """Time of the update of its weights, ns; by 0, so that they stay what they are."""

        def update() -> None:
            for weight in self._updated:
                if weight.grad is not None:
                    weight.add_(weight.grad, alpha=0.0)

        with torch.no_grad():
            return stopwatch(update)[0]
