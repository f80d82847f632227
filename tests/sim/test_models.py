import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import IllegalGraphError, UnknownNameError
from sim.graph_builder import GraphBuilder
from sim.models.alexnet import alexnet
from sim.models.generated import FAMILIES, generated
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.models.resnet101 import resnet101
from sim.models.resnet101_linear import resnet101_linear
from sim.models.rnnlm import rnnlm
from sim.models.rnntc import rnntc
from sim.operator_graph import BYTES_PER_ELEMENT, Exchange, OperatorGraph
from sim.work import num_macs

Model: TypeAlias = Callable[..., OperatorGraph]

MODELS: list[Model] = [alexnet, generated, inception_v3, lenet, nmt, resnet101, resnet101_linear, rnnlm, rnntc]
CNNS: list[Model] = [alexnet, inception_v3, resnet101, resnet101_linear]
YAMLS = Path(__file__).parents[2] / "experiments" / "conf" / "model"


def lstm_parameters(graph: OperatorGraph) -> int:
    members = [graph.operators[positions[0]] for positions in graph.weight_groups.values()]
    return sum(operator.num_weight_elements for operator in members if operator.kind == "lstm")


@pytest.mark.parametrize(
    ("model", "num_operators", "num_parameters"),
    [
        (alexnet, 12, 61_100_840),
        (inception_v3, 121, 23_834_568),
        (resnet101, 141, 44_549_160),
        (resnet101_linear, 104, 41_673_920),
        (lenet, 6, 431_080),
        (nmt, 40, 140_247_040),
    ],
)
def test_a_model_has_the_published_numbers_of_operators_and_parameters(
    model: Model, num_operators: int, num_parameters: int
) -> None:
    graph = model(num_devices=4)

    assert (len(graph), graph.num_parameters) == (num_operators, num_parameters)


@pytest.mark.parametrize(
    ("model", "giga_macs"), [(alexnet, 0.714), (inception_v3, 5.713), (resnet101, 7.80), (resnet101_linear, 7.44)]
)
def test_a_cnn_has_the_published_number_of_multiply_accumulates(model: Model, giga_macs: float) -> None:
    assert num_macs(model(num_devices=2)) / 1e9 == pytest.approx(giga_macs, abs=0.005)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (rnntc(num_devices=1), 33_554_432),
        (rnntc(num_devices=1, bias=True), 33_587_200),
        (rnnlm(num_devices=1), 67_108_864),
    ],
)
def test_the_lstm_layers_have_the_published_number_of_parameters(graph: OperatorGraph, expected: int) -> None:
    assert lstm_parameters(graph) == expected


@pytest.mark.parametrize("model", CNNS)
def test_separate_norms_and_activations_leave_parameters_and_arithmetic_alone(model: Model) -> None:
    fused, separate = model(num_devices=1), model(num_devices=1, fused=False)

    assert len(separate) > len(fused)
    assert (separate.num_parameters, num_macs(separate)) == (fused.num_parameters, num_macs(fused))


@pytest.mark.parametrize("model", MODELS)
def test_the_global_batch_grows_with_the_devices(model: Model) -> None:
    graph = model(num_devices=3, batch_per_device=5)

    assert {operator.sizes[0] for operator in graph.operators} == {15}


@pytest.mark.parametrize(
    "graph",
    [
        alexnet(num_devices=1, image_size=64),
        resnet101(num_devices=1, image_size=64),
        resnet101_linear(num_devices=1, image_size=64),
        inception_v3(num_devices=1, image_size=75),
        rnntc(num_devices=1, hidden=64),
        rnnlm(num_devices=1, hidden=64, steps=2, steps_per_op=1),
        nmt(num_devices=1, hidden=64, vocabulary=128),
    ],
    ids=repr,
)
def test_a_small_model_is_a_legal_graph(graph: OperatorGraph) -> None:
    assert graph.num_parameters > 0


def test_nmt_lists_its_operators_in_the_order_of_the_papers_code() -> None:
    operators = nmt(num_devices=1).operators

    assert [operator.name.rsplit("_", 1)[0] for operator in operators[::5]] == [
        "source_embed",
        "target_embed",
        "encoder1",
        "decoder1",
        "encoder2",
        "decoder2",
        "attention",
        "softmax",
    ]


def test_nmt_has_eight_weight_groups() -> None:
    assert len(nmt(num_devices=1).weight_groups) == 8


def test_nmt_unrolls_to_one_operator_per_step() -> None:
    assert len(nmt(num_devices=1, steps_per_op=1)) == 320


def test_the_decoder_starts_from_the_encoders_last_state() -> None:
    graph = nmt(num_devices=1)

    assert [(i.producer, i.output) for i in graph.operators[graph.position("decoder2_0")].inputs] == [
        ("decoder1_0", 0),
        ("encoder2_4", 1),
        ("encoder2_4", 2),
    ]


def test_the_lstm_attention_does_not_read_the_encoder() -> None:
    graph = nmt(num_devices=1)
    producers = {i.producer for i in graph.operators[graph.position("attention_1")].inputs}

    assert producers == {"decoder2_1", "attention_0"}


def test_the_luong_attention_reads_every_step_of_the_encoder() -> None:
    graph = nmt(num_devices=1, attention="luong")
    producers = [i.producer for i in graph.operators[graph.position("attention_1")].inputs]

    assert producers == ["decoder2_1", *(f"encoder2_{i}" for i in range(5))]


def test_the_experts_nmt_moves_the_24_gib_of_figure_7b() -> None:
    """64 devices: the graph on each of 16 nodes, layer i of the order above on GPU i % 4 of its node."""
    graph = nmt(num_devices=64, state_handoff="code2018")
    crossing = sum(
        graph.operators[edge.src].outputs[edge.output].num_elements
        for edge in graph.edges
        if (edge.src // 5) % 4 != (edge.dst // 5) % 4
    )
    moved = 2 * crossing + 2 * 15 * graph.num_parameters

    assert moved * BYTES_PER_ELEMENT / 2**30 == pytest.approx(24.2, abs=0.05)


def test_parts_of_an_lstm_gather_h_after_every_step_but_the_last() -> None:
    exchange = nmt(num_devices=1).operators[10].exchange

    assert exchange == Exchange("all_gather", across=(2,), over=(0, 2), factor=1, rounds=7)


def test_a_single_step_exchanges_nothing() -> None:
    assert all(o.exchange is None for o in nmt(num_devices=1, steps_per_op=1).operators if o.kind == "lstm")


def test_rnntc_classifies_after_the_last_step() -> None:
    softmax = rnntc(num_devices=1).operators[-1]

    assert (softmax.sizes, softmax.inputs[0].producer, softmax.inputs[0].output) == ((64, 1, 2), "lstm4_4", 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: nmt(num_devices=1, steps_per_op=7),
            "operator 'source_embed': 40 steps cannot be unrolled 7 at a time",
        ),
        (lambda: nmt(num_devices=1, steps_per_op=0), "operator 'source_embed': steps_per_op = 0 must be positive"),
        (lambda: rnnlm(num_devices=1, hidden=0), "operator 'embed_0': channel = 0 must be positive"),
        (lambda: lenet(num_devices=0), "operator 'conv1': sample = 0 must be positive"),
        (
            lambda: inception_v3(num_devices=1, image_size=64),
            "operator 'd_conv2': an image of 2 x 2 is too small for a kernel of 3 x 3",
        ),
    ],
)
def test_impossible_sizes_are_refused(call: Callable[[], OperatorGraph], message: str) -> None:
    with pytest.raises(IllegalGraphError) as error:
        call()

    assert str(error.value) == message


def test_an_unknown_attention_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown attention 'bahdanau'; choose one of lstm, luong"):
        nmt(num_devices=1, attention="bahdanau")


def test_heads_must_divide_the_features() -> None:
    with pytest.raises(IllegalGraphError, match="operator 'attention': 3 heads do not divide 64 features"):
        GraphBuilder("g").attention("attention", (8, 10, 64), 3)


def test_a_transformer_layer_is_a_legal_graph() -> None:
    builder = GraphBuilder("transformer")
    x = builder.embedding("embed", (8, 10), vocabulary=100, channels=64)
    attended = builder.linear("project", builder.attention("attention", x, 4), 64)
    x = builder.layer_norm("norm1", builder.add("add1", x, builder.dropout("dropout", attended)))
    hidden = builder.linear("expand", x, 256, relu=True)
    builder.softmax(
        "softmax", builder.layer_norm("norm2", builder.add("add2", x, builder.linear("shrink", hidden, 64))), 100
    )

    assert builder.build().num_parameters == 6400 + 3 * 64 * 65 + 64 * 65 + 64 * 257 + 256 * 65 + 2 * 128 + 100 * 65


@pytest.mark.parametrize(("channels", "expected"), [((0, 16), (0, 16)), ((16, 24), (16, 16)), ((32, 48), (32, 16))])
def test_concat_reads_of_each_source_what_falls_into_its_channels(
    channels: tuple[int, int], expected: tuple[int, int]
) -> None:
    builder = GraphBuilder("g")
    left = builder.conv2d("left", (2, 3, 8, 8), 16, 1)
    right = builder.conv2d("right", (2, 3, 8, 8), 32, 1)
    builder.concat("concat", [left, right])
    windows = [read.windows[1] for read in builder.build().operators[-1].inputs]
    box = ((0, 2), channels, (0, 8), (0, 8))
    (low, high), second = windows[0].interval(box, 16), windows[1].interval(box, 32)

    assert max(0, high - low) + max(0, second[1] - second[0]) == channels[1] - channels[0]
    assert (low, high) == expected


def test_flat_reads_the_channels_of_its_features() -> None:
    builder = GraphBuilder("g")
    builder.flat("flat", builder.conv2d("conv", (2, 3, 6, 6), 8, 1))
    windows = builder.build().operators[-1].inputs[0].windows
    sizes = (2, 8, 6, 6)
    read = [window.interval(((0, 2), (72, 144)), size) for window, size in zip(windows, sizes, strict=True)]

    assert read == [(0, 2), (2, 4), (0, 6), (0, 6)]


@given(st.integers(0, 2**32), st.sampled_from(FAMILIES))
def test_a_seed_generates_the_same_network_every_time(seed: int, family: str) -> None:
    first, second = (generated(num_devices=2, seed=seed, family=family) for _ in range(2))

    assert first.hash == second.hash


def test_seeds_generate_different_networks() -> None:
    assert len({generated(num_devices=2, seed=seed).hash for seed in range(100)}) == 100


@pytest.mark.parametrize(("family", "kind"), [("convolutional", "conv2d"), ("recurrent", "lstm")])
def test_a_generated_network_is_of_the_family_that_was_asked_for(family: str, kind: str) -> None:
    graphs = [generated(num_devices=2, seed=seed, family=family) for seed in range(20)]

    assert all(kind in {operator.kind for operator in graph.operators} for graph in graphs)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown family 'dense'; choose one of convolutional, recurrent"):
        generated(num_devices=1, family="dense")


@pytest.mark.parametrize("model", MODELS)
def test_the_yaml_of_a_model_repeats_its_constructors_defaults(model: Model) -> None:
    content = yaml.safe_load((YAMLS / f"{model.__name__}.yaml").read_text())
    module, name = content.pop("_target_").rsplit(".", 1)
    parameters = inspect.signature(model).parameters.values()
    defaults = {p.name: "${num_devices}" if p.default is p.empty else p.default for p in parameters}

    assert getattr(importlib.import_module(module), name) is model
    assert content == defaults


@pytest.mark.parametrize("model", [nmt, rnnlm, rnntc])
def test_a_recurrent_model_without_layers_is_refused(model: Model) -> None:
    with pytest.raises(IllegalGraphError) as error:
        model(num_devices=1, layers=-1)
    assert str(error.value) == "operator 'lstm': layers = -1 must be positive"


def test_a_generated_model_of_no_samples_is_refused() -> None:
    with pytest.raises(IllegalGraphError, match="sample = 0 must be positive"):
        generated(num_devices=4, batch_per_device=0)
