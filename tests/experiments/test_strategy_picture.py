"""Pictures of strategies."""

import re
from collections import Counter
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from experiments.device_colours import device_colours, text_on
from experiments.scene import Box, Label, scene_figure, svg_text
from experiments.strategy_layout import Panel, strategy_panels
from experiments.strategy_picture import degrees_text, strategy_picture, strategy_scene
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.models.resnet101 import resnet101
from sim.models.rnntc import rnntc
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.strategies import one_weird_trick
from sim.strategy import ParallelConfig, Strategy
from sim.topology import load_topology

SVG = "{http://www.w3.org/2000/svg}"
MODELS = (nmt, inception_v3, resnet101, rnntc, lenet)
GRAPHS = {graph.name: graph for graph in (model(num_devices=4) for model in MODELS)}


def problem_of(graph: OperatorGraph, num_devices: int = 4) -> Problem:
    return Problem(graph, load_topology("p100_cluster", num_devices=num_devices))


def random_strategy(graph: OperatorGraph, num_devices: int = 4) -> Strategy:
    return problem_of(graph, num_devices).space.sample_strategy(np.random.default_rng(0))


def drawn(panels: list[Panel]) -> list[int]:
    return sorted(i for panel in panels for cell in panel.cells for i in cell.operators)


# The layout


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("is_alike", [True, False])
def test_every_operator_has_one_place(name: str, is_alike: bool) -> None:
    graph = GRAPHS[name]
    panels = strategy_panels(graph, lambda i: None if is_alike else i)

    assert drawn(panels) == list(range(len(graph)))
    for panel in panels:
        places = Counter((cell.row, cell.column) for cell in panel.cells)
        assert set(places.values()) == {1}
        assert all(0 <= row < panel.num_rows and 0 <= column < panel.num_columns for row, column in places)


@pytest.mark.parametrize("name", GRAPHS)
def test_what_looks_different_is_not_folded(name: str) -> None:
    panels = strategy_panels(GRAPHS[name], lambda i: i)

    assert all(len(cell.operators) == 1 for panel in panels for cell in panel.cells)


def test_nmt_is_an_encoder_beside_a_decoder_with_layers_as_rows_and_steps_as_columns() -> None:
    encoder, decoder = strategy_panels(GRAPHS["nmt"], lambda i: i)

    assert encoder.row_names == ("", "", "encoder2", "encoder1", "source_embed")
    assert decoder.row_names == ("softmax", "attention", "decoder2", "decoder1", "target_embed")
    assert encoder.column_names == decoder.column_names == ("0", "1", "2", "3", "4")


def test_steps_that_look_alike_are_one_column() -> None:
    graph = GRAPHS["nmt"]
    odd = graph.position("decoder1_3")

    encoder, decoder = strategy_panels(graph, lambda i: i == odd)

    assert (encoder.column_names, decoder.column_names) == (("0-4",), ("0-2", "3", "4"))


def test_what_reads_the_last_step_stands_at_the_last_step() -> None:
    (panel,) = strategy_panels(GRAPHS["rnntc"], lambda i: i)

    softmax = next(cell for cell in panel.cells if cell.operators == (len(GRAPHS["rnntc"]) - 1,))
    assert softmax.column == panel.num_columns - 1


def test_modules_of_inception_that_look_alike_are_folded() -> None:
    titles = [panel.title for panel in strategy_panels(GRAPHS["inception_v3"], lambda _: None) if panel.title]

    assert titles == ["a1-a3 (3 alike)", "b", "c1-c4 (4 alike)", "d", "e1-e2 (2 alike)"]


def test_links_are_the_edges_inside_a_module() -> None:
    graph = GRAPHS["inception_v3"]
    edges = {(edge.src, edge.dst) for edge in graph.edges}

    for panel in strategy_panels(graph, lambda i: i):
        members = [cell.operators[0] for cell in panel.cells]
        found = {(members[src], members[dst]) for src, dst in panel.links}
        assert found == {(src, dst) for src, dst in edges if src in members and dst in members}


# The picture


def test_every_part_has_the_colour_of_its_device() -> None:
    graph = GRAPHS["lenet"]
    strategy = random_strategy(graph)
    colours = device_colours(strategy.topology.devices)

    scene = strategy_scene([strategy])

    parts = Counter(item.fill for item in scene.items if isinstance(item, Box) and ": part " in item.tooltip)
    assert parts == Counter(colours[device] for config in strategy.configs for device in config.devices)


def test_samples_go_down_and_other_dimensions_to_the_right() -> None:
    graph = GRAPHS["lenet"]
    problem = problem_of(graph)
    config = ParallelConfig((2, 2, 1, 1), (0, 1, 2, 3))
    scene = strategy_scene([problem.data_parallel.replace(0, config)])
    name = graph.operators[0].name

    parts = [item for item in scene.items if isinstance(item, Box) and item.tooltip.startswith(f"{name} (")]
    places = [(box.x - parts[0].x, box.y - parts[0].y) for box in parts]
    assert places == [(0, 0), (19, 0), (0, 19), (19, 19)]


@pytest.mark.parametrize("name", GRAPHS)
def test_picture_is_svg_within_its_page(name: str) -> None:
    root = ElementTree.fromstring(strategy_picture(random_strategy(GRAPHS[name])))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])

    assert root.tag == f"{SVG}svg"
    for box in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.attrib[key]) for key in ("x", "y", "width", "height"))
        assert x >= 0 <= y
        assert x + w <= width
        assert y + h <= height


def test_picture_has_colours_for_dark_pages() -> None:
    picture = strategy_picture(random_strategy(GRAPHS["lenet"]))

    assert "prefers-color-scheme:dark" in picture
    assert not re.search(r'<text[^>]*fill="#(?!ffffff|111418)', picture)


def test_title_and_names_are_escaped() -> None:
    picture = strategy_picture(random_strategy(GRAPHS["lenet"]), title="a < b & c")

    assert ElementTree.fromstring(picture).findtext(f"{SVG}title") == "a < b & c"


def test_equal_operators_of_two_strategies_are_drawn_once_and_faded() -> None:
    problem = problem_of(GRAPHS["lenet"])
    first = problem.data_parallel
    other = first.replace(0, ParallelConfig((1, 1, 1, 1), (2,)))

    items = strategy_scene([first, other]).items
    boxes = [item for item in items if isinstance(item, Box) and ": part " in item.tooltip]

    name = problem.graph.operators[0].name
    faded = {box.tooltip.split(" (")[0] for box in boxes if box.opacity < 1}
    assert len([box for box in boxes if box.tooltip.startswith(f"{name} (")]) == 4 + 1
    assert name not in faded
    assert len(boxes) == 5 + sum(len(config.devices) for config in first.configs[1:])


def test_degrees_are_told_by_label() -> None:
    problem = problem_of(GRAPHS["nmt"])
    softmax = problem.graph.position("softmax_0")

    assert degrees_text(problem.graph.operators[softmax], one_weird_trick(problem)[softmax]) == "P4"
    assert degrees_text(problem.graph.operators[0], ParallelConfig((1, 1, 1), (0,))) == "whole"


def test_matplotlib_draws_the_same_boxes_and_texts() -> None:
    scene = strategy_scene([random_strategy(GRAPHS["lenet"])])

    (axes,) = scene_figure(scene).axes

    assert len(axes.patches) == sum(isinstance(item, Box) for item in scene.items)
    assert [text.get_text() for text in axes.texts] == [i.text for i in scene.items if isinstance(i, Label)]
    assert svg_text(scene).count("<text") == len(axes.texts)


# Colours


@pytest.mark.parametrize("num_devices", [1, 4, 8, 16, 64])
def test_devices_have_distinct_colours(num_devices: int) -> None:
    topology = load_topology("k80_cluster", num_devices=num_devices)

    assert len(set(device_colours(topology.devices))) == num_devices


def test_a_node_of_eight_has_a_hue_for_each_device() -> None:
    colours = device_colours(load_topology("dgx1_v100").devices)

    assert min(distance(a, b) for a, b in combinations(colours, 2)) > 0.2


def test_devices_of_a_node_are_shades_of_one_hue_from_dark_to_light() -> None:
    colours = device_colours(load_topology("p100_cluster", num_devices=16).devices)
    lightness = [sum(to_rgb(colour)) for colour in colours]

    for first in range(0, 16, 4):
        assert lightness[first : first + 4] == sorted(lightness[first : first + 4])


@pytest.mark.parametrize("num_devices", [4, 16, 64])
def test_numbers_can_be_read_on_every_colour(num_devices: int) -> None:
    colours = device_colours(load_topology("k80_cluster", num_devices=num_devices).devices)

    assert min(abs(sum(to_rgb(colour)) - sum(to_rgb(text_on(colour)))) / 3 for colour in colours) > 0.28


def distance(one: str, other: str) -> float:
    return max(abs(a - b) for a, b in zip(to_rgb(one), to_rgb(other), strict=True))
