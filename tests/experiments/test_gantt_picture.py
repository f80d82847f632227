"""Timelines as pictures that do not move."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from experiments.gantt_picture import MARGIN, NAMES_WIDTH, WIDTH, gantt_scene
from experiments.scene import Box, Label, svg_text
from experiments.stored_timeline import KIND_COLOURS, Timeline, load_timeline
from sim.models.nmt import nmt
from sim.problem import Problem
from sim.task_graph_builder import build_task_graph
from sim.timeline import write_timeline
from sim.topology import load_topology


@pytest.fixture(scope="module")
def timeline(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    problem = Problem(nmt(num_devices=4, steps=16), load_topology("p100_cluster", num_devices=4))
    task_graph = build_task_graph(problem, problem.data_parallel)
    task_graph.simulate()
    path: Path = tmp_path_factory.mktemp("timeline") / "timeline.json"
    write_timeline(task_graph, path)
    return load_timeline(path, label="data parallelism")


def rows(timeline: Timeline, num_connections: int) -> dict[str, list[Box]]:
    """Bars by the name of their row."""
    items = gantt_scene([timeline], num_connections=num_connections).items
    names = {item.y: item.text for item in items if isinstance(item, Label) and item.anchor == "end"}
    found: dict[str, list[Box]] = {name: [] for name in names.values()}
    for item in items:
        if isinstance(item, Box) and item.tooltip:
            found[min(names.items(), key=lambda entry: abs(entry[0] - item.y - item.height))[1]].append(item)
    return found


def test_rows_are_the_critical_path_the_devices_and_the_busiest_connections(timeline: Timeline) -> None:
    names = list(rows(timeline, 2))

    assert names[:5] == ["critical path", *timeline.devices]
    assert set(names[5:]) < set(timeline.connections)
    assert len(names) == 7


def test_bars_are_as_long_as_a_row_is_busy(timeline: Timeline) -> None:
    scale = (WIDTH - NAMES_WIDTH - MARGIN) / timeline.iteration_ms

    for name, bars in rows(timeline, 100).items():
        length = sum(bar.width for bar in bars)
        assert length == pytest.approx(timeline.busy_ms(name) * scale, abs=0.5 * len(bars))


def test_the_critical_path_fills_its_row(timeline: Timeline) -> None:
    bars = rows(timeline, 0)["critical path"]

    assert min(bar.x for bar in bars) == NAMES_WIDTH
    assert max(bar.x + bar.width for bar in bars) == pytest.approx(WIDTH - MARGIN, abs=0.1)


def test_tasks_that_follow_each_other_are_one_bar(timeline: Timeline) -> None:
    device = timeline.devices[0]
    num_tasks = int((timeline.rows == device).sum())

    assert len(rows(timeline, 0)[device]) < num_tasks


def test_bars_have_the_colours_of_their_kinds(timeline: Timeline) -> None:
    fills = {bar.fill for bars in rows(timeline, 100).values() for bar in bars}

    assert fills == {KIND_COLOURS[kind][0] for kind in ("forward", "backward", "sync", "update")}


def test_timelines_share_an_axis_and_the_picture_is_svg(timeline: Timeline) -> None:
    scene = gantt_scene([timeline, timeline], num_connections=4)

    headings = [item.text for item in scene.items if isinstance(item, Label) and item.is_bold and item.size == 13]
    assert headings == [f"data parallelism: {timeline.iteration_ms:,.3f} ms for one iteration"] * 2
    assert ElementTree.fromstring(svg_text(scene)).tag.endswith("svg")
