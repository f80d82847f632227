"""What parts compute: together the same as the whole operator, forward and backward, alone what PyTorch does."""

from dataclasses import replace
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_graph
from torch import Tensor

from runtime.data_needs import data_needs
from runtime.exchange import Alone, Together
from runtime.part_function import run_parts
from runtime.parts.part import Part
from runtime.weight_layout import weight_layout
from sim.flows import needed_box, weight_interval, written_box
from sim.graph_builder import GraphBuilder
from sim.operator_graph import Box, OperatorGraph
from sim.space import degree_tuples
from sim.strategy import ParallelConfig
from sim.task_graph_builder import exchange_groups


def cut(tensor: Tensor, box: Box) -> Tensor:
    return tensor[tuple(slice(low, max(low, high)) for low, high in box)]


class OneOperator:
    """An operator on random tensors, whose parts all live here."""

    def __init__(self, graph: OperatorGraph, position: int, *, is_terminal: bool, seed: int = 0) -> None:
        self.graph, self.position, self.is_terminal = graph, position, is_terminal
        self.operator = graph.operators[position]
        self.edges = [edge for edge in graph.edges if edge.dst == position]
        generator = torch.Generator().manual_seed(seed)

        def random(sizes: tuple[int, ...]) -> Tensor:
            return torch.randn(sizes, generator=generator, dtype=torch.float64, requires_grad=True)

        self.inputs = [random(graph.operators[edge.src].outputs[edge.output].sizes) for edge in self.edges]
        self.weights = [random(tensor.sizes) for tensor in weight_layout(self.operator)]
        self.needs = data_needs(self.operator, is_terminal=is_terminal)
        self.data = [
            torch.randint(need.num_classes, need.sizes, generator=generator)
            if need.num_classes
            else random(need.sizes).detach()
            for need in self.needs
        ]

    def part(self, config: ParallelConfig, number: int) -> Part:
        span = config.box(self.operator, number)
        inputs = [
            cut(tensor, needed_box(self.graph, edge, span))
            for tensor, edge in zip(self.inputs, self.edges, strict=True)
        ]
        data = [cut(tensor, need.box(span)) for tensor, need in zip(self.data, self.needs, strict=True)]
        weights = []
        if self.operator.weight is not None:
            low, high = weight_interval(self.operator, config, number)
            layout = weight_layout(self.operator)
            weights = [w.narrow(t.unit_axis, low, high - low) for w, t in zip(self.weights, layout, strict=True)]
        return Part(self.operator, span, tuple(inputs), tuple(data), tuple(weights), self.is_terminal, seed=3)

    def run(self, degrees: tuple[int, ...]) -> list[Tensor]:
        """Outputs (or the loss) and all gradients of a fixed function of them."""
        config = ParallelConfig(degrees, (0,) * torch.tensor(degrees).prod().item())
        parts = [self.part(config, number) for number in range(config.num_tasks)]
        exchange = self.operator.exchange
        groups = [[p] for p in range(len(parts))] if exchange is None else exchange_groups(exchange, config)
        outputs = [torch.zeros(output.sizes, dtype=torch.float64) for output in self.operator.outputs]
        loss = torch.zeros((), dtype=torch.float64)
        for group in groups:
            results = run_parts([parts[p] for p in group], Together(num_parts=len(group)))
            for p, result in zip(group, results, strict=True):
                if self.is_terminal:
                    loss = loss + result[0]
                    continue
                for number, (output, tensor) in enumerate(zip(outputs, result, strict=True)):
                    cut(output, written_box(self.operator, number, parts[p].span)).copy_(tensor.detach())
                    loss = loss + (tensor.sigmoid() * (1 + number)).sum()
        leaves = [*self.inputs, *self.weights]
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True) if leaves and loss.requires_grad else []
        return [*outputs, loss.detach(), *(gradient for gradient in gradients if gradient is not None)]


@settings(max_examples=120, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_parts_of_an_operator_compute_together_what_the_whole_does(random: Random) -> None:
    graph = random_graph(random, has_custom=False)
    position = random.randrange(len(graph))
    one = OneOperator(graph, position, is_terminal=random.random() < 0.4, seed=random.randrange(100))
    divisible = tuple(bool(dim.label) for dim in one.operator.dims)
    degrees = random.choice(list(degree_tuples(one.operator.sizes, divisible, 12)))

    whole, split = one.run((1,) * len(degrees)), one.run(degrees)

    torch.testing.assert_close(split, whole, rtol=1e-9, atol=1e-9)


@settings(max_examples=60, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_gradients_of_every_kind_are_those_of_finite_differences(random: Random) -> None:
    graph = random_graph(random, max_operators=3, has_custom=False)
    one = OneOperator(graph, len(graph) - 1, is_terminal=random.random() < 0.5)
    config = ParallelConfig((1,) * len(one.operator.dims), (0,))
    leaves = [*one.inputs, *one.weights]
    if not leaves:
        return

    def run(*_: Tensor) -> tuple[Tensor, ...]:
        return run_parts([one.part(config, 0)])[0]

    assert torch.autograd.gradcheck(run, leaves, fast_mode=True, atol=1e-3, nondet_tol=0)


def lstm_part(hidden: int, units: int) -> Part:
    builder = GraphBuilder("g")
    builder.lstm("lstm", (2, 5, 3), hidden)
    operator = builder.build().operators[0]
    weights = [
        torch.randn([units if axis == tensor.unit_axis else size for axis, size in enumerate(tensor.sizes)])
        for tensor in weight_layout(operator)
    ]
    return Part(operator, ((0, 2), (0, 5), (0, units)), (), (torch.randn(2, 5, 3),), tuple(weights))


def test_an_lstm_is_that_of_torch() -> None:
    part = lstm_part(4, 4)
    module = torch.nn.LSTM(3, 4, batch_first=True)
    for parameter, weight in zip(module.parameters(), part.weights, strict=True):
        parameter.data = weight.flatten(0, 1)

    (outputs,) = run_parts([part])

    sequence, (hidden, cell) = module(part.data[0])
    torch.testing.assert_close(outputs, (sequence, hidden[0][:, None], cell[0][:, None]))


def test_a_lone_part_of_a_split_lstm_computes_outputs_of_its_own_units() -> None:
    (outputs,) = run_parts([lstm_part(4, 2)], Alone(num_parts=2))

    assert [tuple(output.shape) for output in outputs] == [(2, 5, 2), (2, 1, 2), (2, 1, 2)]


@pytest.mark.parametrize("rate", [25, 50])
def test_dropout_zeroes_the_rate_and_keeps_the_mean(rate: int) -> None:
    builder = GraphBuilder("g")
    builder.dropout("dropout", (64, 3, 40, 40), rate_percent=rate)
    operator = builder.build().operators[0]
    part = Part(operator, tuple((0, size) for size in operator.sizes), data=(torch.ones(operator.sizes),))

    ((output,),), ((other,),) = run_parts([part]), run_parts([replace(part, seed=1)])

    kept = output > 0
    rates = [kept.float().mean().item(), *kept.float().mean((0, 1, 2)), *kept.float().mean((1, 2, 3))]
    assert all(abs(1 - float(found) - rate / 100) < 0.04 for found in rates)
    assert abs(output.mean().item() - 1) < 0.01
    assert 0.3 < ((other > 0) == kept).float().mean().item() < 0.7
