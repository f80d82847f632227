"""run_single_process: a whole model in plain PyTorch, one autograd graph, no parts: what every strategy must equal."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from runtime.data_needs import data_needs
from runtime.initial_state import DataSource, dropout_seed, initial_weight
from runtime.options import RunOptions
from runtime.part_function import run_parts
from runtime.parts.part import Part
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


def run_single_process(graph: OperatorGraph, *, data: DataSource, options: RunOptions) -> SingleProcessResult:
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
    gradients = {
        name: [t.grad if t.grad is not None else torch.zeros_like(t) for t in group] for name, group in weights.items()
    }
    return SingleProcessResult(losses, {n: [t.detach() for t in group] for n, group in weights.items()}, gradients)


def _loss(
    graph: OperatorGraph, weights: dict[str, list[Tensor]], data: DataSource, options: RunOptions, iteration: int
) -> Tensor:
    """One forward pass: the sum of what the operators that nobody reads contribute."""
    outputs: dict[str, tuple[Tensor, ...]] = {}
    read = {edge.src for edge in graph.edges}
    total = torch.zeros((), dtype=options.dtype)
    for position, operator in enumerate(graph.operators):
        whole = tuple((0, size) for size in operator.sizes)
        part = Part(operator, whole, is_terminal=position not in read, seed=dropout_seed(options.seed, iteration))
        needs = data_needs(operator, is_terminal=part.is_terminal)
        boxes = [data.box(operator, need, tuple((0, size) for size in need.sizes), iteration) for need in needs]
        group = weights[operator.weight.group] if operator.weight else []
        part = replace(
            part,
            inputs=tuple(outputs[read.producer][read.output] for read in operator.inputs),
            data=tuple(box.to(options.dtype) if box.is_floating_point() else box for box in boxes),
            weights=tuple(group),
        )
        (results,) = run_parts([part])
        if part.is_terminal:
            total = total + results[0]
        outputs[operator.name] = results
    return total
