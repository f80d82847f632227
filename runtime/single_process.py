"""run_single_process: a whole model in plain PyTorch, one autograd graph, no parts: what every strategy must equal."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.data_needs import data_needs
from runtime.initial_state import DataSource, dropout_seed, initial_weight
from runtime.options import RunOptions
from runtime.part_function import run_parts
from runtime.parts.part import Part
from runtime.result import Report
from runtime.weight_layout import weight_layout
from sim.operator_graph import OperatorGraph


@dataclass(frozen=True, slots=True)
class SingleProcessResult:
    """What came of a model's training.

    Attributes:
        losses: of each iteration.
        weights: tensors of each weight group, after the last iteration.
        gradients: of each weight group, in the last iteration.
    """

    losses: list[float]
    weights: dict[str, list[Tensor]]
    gradients: dict[str, list[Tensor]]


def run_single_process(
    graph: OperatorGraph, *, data: DataSource, options: RunOptions, report: Report | None = None
) -> SingleProcessResult:
    """Train a model from the same weights, on the same data, for the same iterations as a strategy is run."""
    weights = {
        name: [
            initial_weight(name, tensor, options.seed).to(options.dtype).requires_grad_()
            for tensor in weight_layout(graph.operators[members[0]])
        ]
        for name, members in graph.weight_groups.items()
    }
    losses = []
    for iteration in range(options.num_iterations):
        start = time.perf_counter()
        for tensor in (tensor for group in weights.values() for tensor in group):
            tensor.grad = None
        loss = _loss(graph, weights, data, options, iteration)
        if loss.requires_grad:
            torch.autograd.backward(loss)
        losses.append(loss.item())
        with torch.no_grad():
            for tensor in (tensor for group in weights.values() for tensor in group):
                if tensor.grad is not None:
                    tensor.sub_(options.learning_rate * tensor.grad)
        if report is not None:
            report(iteration, losses[-1], (time.perf_counter() - start) * 1000)
    gradients = {
        name: [t.grad if t.grad is not None else torch.zeros_like(t) for t in group] for name, group in weights.items()
    }
    return SingleProcessResult(losses, {n: [t.detach() for t in group] for n, group in weights.items()}, gradients)


def predict(
    graph: OperatorGraph, weights: Mapping[str, Sequence[NDArray[np.float64]]], *, data: DataSource, options: RunOptions
) -> list[NDArray[np.float64]]:
    """What a trained model makes of its first batch.

    Args:
        graph: of the model, of any batch size.
        weights: tensors of each weight group, as ``RunResult.weights`` has them.
        data: what it reads.
        options: the numbers' type.

    Returns:
        The output of each operator that nobody reads, probabilities of a softmax; ``graph.operators``' order.
    """
    tensors = {name: [torch.tensor(t, dtype=options.dtype) for t in group] for name, group in weights.items()}
    with torch.no_grad():
        results = _forward(graph, tensors, data, options, 0, is_training=False)
    return [outputs[0].double().numpy() for outputs in results]


def _loss(
    graph: OperatorGraph, weights: dict[str, list[Tensor]], data: DataSource, options: RunOptions, iteration: int
) -> Tensor:
    """The sum of what the operators that nobody reads contribute."""
    shares = [outputs[0] for outputs in _forward(graph, weights, data, options, iteration)]
    return sum(shares, torch.zeros((), dtype=options.dtype))


def _forward(
    graph: OperatorGraph,
    weights: dict[str, list[Tensor]],
    data: DataSource,
    options: RunOptions,
    iteration: int,
    *,
    is_training: bool = True,
) -> list[tuple[Tensor, ...]]:
    """What the operators that nobody reads give: in training, their shares of the loss."""
    outputs: dict[str, tuple[Tensor, ...]] = {}
    read = {edge.src for edge in graph.edges}
    ends = [operator.name for position, operator in enumerate(graph.operators) if position not in read]
    for operator in graph.operators:
        whole = tuple((0, size) for size in operator.sizes)
        is_terminal = is_training and operator.name in ends
        needs = data_needs(operator, is_terminal=is_terminal)
        boxes = [data.box(operator, need, tuple((0, size) for size in need.sizes), iteration) for need in needs]
        part = Part(
            operator,
            whole,
            inputs=tuple(outputs[source.producer][source.output] for source in operator.inputs),
            data=tuple(box.to(options.dtype) if box.is_floating_point() else box for box in boxes),
            weights=tuple(weights[operator.weight.group] if operator.weight else ()),
            is_terminal=is_terminal,
            seed=dropout_seed(options.seed, iteration),
        )
        (outputs[operator.name],) = run_parts([part])
    return [outputs[name] for name in ends]
