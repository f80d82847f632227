import math
from dataclasses import replace

import pytest

from sim.errors import UnknownNameError
from sim.graph_builder import GraphBuilder, Pair
from sim.models.alexnet import alexnet
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.models.resnet101 import resnet101
from sim.models.rnnlm import rnnlm
from sim.operator_graph import Operator, OperatorGraph
from sim.work import Kernel, saved_bytes, work

GRAPHS = [
    alexnet(num_devices=2),
    inception_v3(num_devices=2),
    inception_v3(num_devices=2, fused=False),
    resnet101(num_devices=2),
    nmt(num_devices=2),
    nmt(num_devices=2, attention="luong"),
    rnnlm(num_devices=2),
]


def flop(kernels: tuple[Kernel, ...]) -> int:
    return sum(kernel.flop * kernel.repeats for kernel in kernels)


def last(builder: GraphBuilder) -> Operator:
    return builder.build().operators[-1]


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_the_flop_of_a_matrix_product_are_twice_its_volume(graph: OperatorGraph) -> None:
    for operator in graph.operators:
        todo = work(operator, operator.sizes)

        assert all(k.flop == 2 * math.prod(k.gemm) for k in todo.forward + todo.backward if k.gemm)


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_backward_is_twice_forward_except_at_the_data(graph: OperatorGraph) -> None:
    for operator in graph.operators:
        todo = work(operator, operator.sizes)

        assert flop(todo.backward) == (2 if operator.inputs else 1) * flop(todo.forward)


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_halving_the_samples_halves_the_flop(graph: OperatorGraph) -> None:
    for operator in graph.operators:
        half = (operator.sizes[0] // 2, *operator.sizes[1:])

        assert 2 * flop(work(operator, half).forward) == flop(work(operator, operator.sizes).forward)


@pytest.mark.parametrize("graph", GRAPHS, ids=repr)
def test_what_is_saved_shrinks_with_the_samples(graph: OperatorGraph) -> None:
    for operator in graph.operators:
        half = (operator.sizes[0] // 2, *operator.sizes[1:])

        assert 2 * work(operator, half).saved_bytes == work(operator, operator.sizes).saved_bytes


def test_splitting_the_hidden_units_of_an_lstm_divides_its_flop() -> None:
    operator = rnnlm(num_devices=1).operators[5]
    part = (64, 8, 512)

    assert 4 * flop(work(operator, part).backward) == flop(work(operator, operator.sizes).backward)


def test_an_lstm_repeats_what_depends_on_the_state_for_every_step() -> None:
    operator = rnnlm(num_devices=1).operators[5]
    repeats = {kernel.name: kernel.repeats for kernel in work(operator, operator.sizes).forward}

    assert repeats == {"lstm input": 1, "lstm state": 8, "lstm cell": 8}


def test_a_fused_norm_brings_its_kernels_with_it() -> None:
    builder = GraphBuilder("g")
    builder.conv2d("conv", (2, 3, 8, 8), 16, 3, bias=False, batch_norm=True, relu=True)
    operator = last(builder)

    assert [kernel.name for kernel in work(operator, operator.sizes).forward] == ["conv", "batch norm", "relu"]


def test_a_fused_norm_brings_its_exchange_with_it() -> None:
    fused, separate = (GraphBuilder("g", fused=fused) for fused in (True, False))
    for builder in (fused, separate):
        builder.conv2d("conv", (2, 3, 8, 8), 16, 3, bias=False, batch_norm=True)

    assert last(fused).exchange == last(separate).exchange


@pytest.mark.parametrize(("kernel", "stride", "algorithm"), [(3, 1, 2.0), (5, 1, 1.5), (3, 2, 1.0), ((1, 7), 1, 1.0)])
def test_winograd_serves_square_kernels_of_stride_1(kernel: Pair, stride: int, algorithm: float) -> None:
    builder = GraphBuilder("g")
    builder.conv2d("conv", (2, 3, 16, 16), 16, kernel, stride=stride)
    operator = last(builder)

    assert work(operator, operator.sizes).forward[0].algorithm == algorithm


def test_part_of_an_image_is_read_with_its_halo() -> None:
    builder = GraphBuilder("g")
    builder.pool2d("pool", (1, 1, 9, 9), 3, stride=2)
    operator = last(builder)
    read, written = 3 * 9, 4

    assert work(operator, (1, 1, 1, 4)).forward[0].bytes == 4 * (read + written)


def test_flat_is_free() -> None:
    operator = alexnet(num_devices=1).operators[8]

    assert work(operator, operator.sizes).forward == ()


def test_a_convolution_with_its_norm_saves_two_copies() -> None:
    operator = resnet101(num_devices=1).operators[0]

    assert work(operator, operator.sizes).saved_bytes == 2 * 4 * math.prod(operator.sizes)


def test_an_operator_of_unknown_kind_has_no_work() -> None:
    operator = replace(lenet(num_devices=1).operators[0], kind="o1")

    with pytest.raises(UnknownNameError, match="unknown operator kind 'o1'; choose one of add, attention"):
        work(operator, operator.sizes)


def test_an_operator_of_unknown_kind_saves_its_output() -> None:
    operator = replace(lenet(num_devices=1).operators[0], kind="o1")

    assert saved_bytes(operator, (2, 3, 5, 7)) == 4 * 210


def test_all_kinds_of_lenet_have_work() -> None:
    assert all(work(operator, operator.sizes).saved_bytes > 0 for operator in lenet(num_devices=1).operators)
