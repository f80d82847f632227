"""The key under which a part's time is stored holds all that the time depends on."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from sim.costs.part_shape import describe, kind_of, part_key, part_shapes
from sim.graph_builder import GraphBuilder
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.operator_graph import Operator, Weight, Window
from sim.space import SoapSpace
from sim.topology import load_topology

WHOLE = (1, 1, 1, 1)


def conv(*, samples: int = 8, batch_norm: bool = False, name: str = "conv", channels: int = 6) -> Operator:
    builder = GraphBuilder("graph")
    image = builder.relu("image", (samples, 3, 8, 8))
    builder.conv2d(name, image, channels, 3, pad=1, batch_norm=batch_norm)
    return builder.build().operators[1]


def changed_window(operator: Operator) -> Operator:
    (read,) = operator.inputs
    return replace(operator, inputs=(replace(read, windows=(*read.windows[:3], Window(3, kernel=5))),))


def sharing_weights(operator: Operator) -> Operator:
    return replace(operator, weight=Weight("shared", 1, 28))


CHANGES: dict[str, Callable[[Operator], Operator]] = {
    "kind": lambda operator: replace(operator, kind="pool2d"),
    "extent": lambda operator: conv(samples=16),
    "channels": lambda operator: conv(channels=12),
    "input gradient": lambda operator: replace(operator, inputs=()),
    "second input": lambda operator: replace(operator, inputs=operator.inputs * 2),
    "window": changed_window,
    "batch norm": lambda operator: conv(batch_norm=True),
    "shared weights": sharing_weights,
    "weight elements": lambda operator: replace(operator, weight=Weight("conv", 1, 29)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_matters_changes_the_key(change: str) -> None:
    operator = conv()

    assert part_key(CHANGES[change](operator), WHOLE) != part_key(operator, WHOLE)


@pytest.mark.parametrize("name", [name for name, _ in conv().attributes])
def test_every_attribute_changes_the_key(name: str) -> None:
    operator = conv()
    attributes = tuple((key, value + (key == name)) for key, value in operator.attributes)

    assert part_key(replace(operator, attributes=attributes), WHOLE) != part_key(operator, WHOLE)


def test_the_name_of_an_operator_does_not_matter() -> None:
    assert part_key(conv(name="first"), WHOLE) == part_key(conv(name="second"), WHOLE)


def test_half_of_the_samples_is_a_smaller_batch() -> None:
    assert part_key(conv(samples=16), (2, 1, 1, 1)) == part_key(conv(samples=8), WHOLE)


def test_half_of_the_samples_of_a_batch_norm_is_no_smaller_batch() -> None:
    halves = part_key(conv(samples=16, batch_norm=True), (2, 1, 1, 1))

    assert halves != part_key(conv(samples=8, batch_norm=True), WHOLE)


def test_half_of_an_image_is_no_smaller_image() -> None:
    operator = conv()
    small = replace(operator, dims=(*operator.dims[:2], replace(operator.dims[2], size=4), operator.dims[3]))

    assert part_key(operator, (1, 1, 2, 1)) != part_key(small, WHOLE)


def test_unrolled_steps_are_one_shape() -> None:
    graph = nmt(num_devices=2, steps=24, hidden=16, vocabulary=50)
    space = SoapSpace(graph, load_topology("cpu_host", num_devices=1))

    kinds = [kind_of(shape.key) for shape in part_shapes(graph, space)]
    # The first step of an encoder has no state; the others get one, as all of the decoder do.
    assert sorted(kinds) == ["embedding", "lstm", "lstm", "softmax"]


def test_shapes_hold_every_degree_of_every_operator() -> None:
    graph = lenet(num_devices=4, batch_per_device=8)
    space = SoapSpace(graph, load_topology("cpu_host", num_devices=4))

    keys = {shape.key for shape in part_shapes(graph, space)}
    assert keys == {
        part_key(operator, degrees) for i, operator in enumerate(graph.operators) for degrees in space.degree_tuples(i)
    }


def test_key_is_described_in_a_few_words() -> None:
    assert describe(part_key(conv(), (2, 1, 2, 1))) == "conv2d 4x6x4x8, split 1x1x2x1"
