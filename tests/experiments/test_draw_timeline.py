"""draw_timeline.py: a timeline.json as an interactive page."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from experiments import draw_timeline
from experiments.stored_timeline import KIND_COLOURS, Timeline, load_timeline
from experiments.timeline_figure import timeline_figure
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.task_graph import TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.timeline import write_timeline
from sim.topology import load_topology

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Outcome:
    code: str | int | None
    stdout: str
    stderr: str


Draw = Callable[..., Outcome]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Draw:
    """Call draw_timeline.py with overrides."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def invoke(*overrides: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["command", *overrides])
        code: str | int | None = 0
        try:
            draw_timeline.main()
        except SystemExit as error:
            code = error.code
        return Outcome(code, *capfd.readouterr())

    return invoke


@pytest.fixture(scope="module")
def task_graph() -> TaskGraph:
    """Data parallel LeNet on four devices, simulated."""
    problem = Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))
    graph = build_task_graph(problem, problem.data_parallel)
    graph.simulate()
    return graph


@pytest.fixture
def timeline_json(task_graph: TaskGraph, tmp_path: Path) -> Path:
    path = tmp_path / "timeline.json"
    write_timeline(task_graph, path)
    return path


@pytest.fixture
def timeline(timeline_json: Path) -> Timeline:
    return load_timeline(timeline_json, label="data parallelism")


def timeline_of(graph: TaskGraph) -> Timeline:
    with TemporaryDirectory() as folder:
        write_timeline(graph, Path(folder) / "timeline.json")
        return load_timeline(Path(folder) / "timeline.json", label="a timeline")


def chain(num_tasks: int) -> TaskGraph:
    """Tasks of 1 us in turn on 16 devices and their connections, every kind among them."""
    graph = TaskGraph([*(f"device{d}" for d in range(16)), *(f"link{c}" for c in range(16))], 16)
    kinds = list(KIND_COLOURS)
    for number in range(num_tasks):
        kind = kinds[number % len(kinds)]
        device = number % 16 + (0 if kind in ("forward", "backward", "update") else 16)
        graph.add(f"task {number}", kind, [device], 1000, (number, 0, 0, 0))  # type: ignore[arg-type]
    graph.simulate()
    return graph


# The picture


def test_iteration_time_is_the_makespan(timeline: Timeline, task_graph: TaskGraph) -> None:
    assert timeline.iteration_ms == pytest.approx(task_graph.makespan / 1e6)


def test_title_has_label_and_iteration_time(timeline: Timeline, task_graph: TaskGraph) -> None:
    figure = timeline_figure([timeline], num_connections=8)

    expected = f"<b>data parallelism</b>   {task_graph.makespan / 1e6:,.3f} ms for one iteration"
    assert [annotation.text for annotation in figure.layout.annotations] == [expected]


def test_every_task_on_a_device_is_one_bar(timeline: Timeline, task_graph: TaskGraph) -> None:
    figure = timeline_figure([timeline], num_connections=0)

    drawn = {(kind.name, name) for kind in figure.data for name in kind.text}
    assert drawn == {(task.kind, task.name) for task in task_graph.tasks if task.devices[0] < 4}


def test_bar_spans_start_to_end_and_knows_ready_time_and_bytes(timeline: Timeline, task_graph: TaskGraph) -> None:
    sync = next(task for task in task_graph.tasks if task.kind == "sync")
    figure = timeline_figure([timeline], num_connections=100)

    trace = next(trace for trace in figure.data if trace.name == "sync")
    at = list(trace.text).index(sync.name)
    found = (trace.base[at], trace.base[at] + trace.x[at], *trace.customdata[at])
    times = (sync.start_time, sync.end_time, sync.ready_time, sync.start_time, sync.end_time)
    assert found == pytest.approx((*(time / 1e6 for time in times), sync.num_bytes))


def test_rows_are_devices_then_the_busiest_connections() -> None:
    graph = TaskGraph(["device0", "idle", "busy", "busiest"], 1)
    for number, (device, exe_time) in enumerate([(0, 5), (1, 1), (2, 20), (3, 30)]):
        graph.add(f"task {number}", "forward" if device == 0 else "sync", [device], exe_time, (number, 0, 0, 0))
    graph.simulate()

    figure = timeline_figure([timeline_of(graph)], num_connections=2)

    assert figure.layout.yaxis.ticktext == ("device0", "busy", "busiest")


def test_several_timelines_share_the_time_axis(timeline: Timeline) -> None:
    figure = timeline_figure([timeline, timeline_of(chain(5000))], num_connections=8)

    assert figure.layout.xaxis.matches == "x2"
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range


def test_legend_names_each_kind_once(timeline: Timeline) -> None:
    figure = timeline_figure([timeline, timeline], num_connections=8)

    named = [trace.name for trace in figure.data if trace.showlegend]
    assert sorted(named) == ["backward", "forward", "sync", "update"]


def test_ten_thousand_tasks_are_one_trace_for_each_kind() -> None:
    figure = timeline_figure([timeline_of(chain(10_000))], num_connections=16)

    assert len(figure.data) == len(KIND_COLOURS)
    assert sum(len(trace.base) for trace in figure.data) == 10_000
    assert len(figure.layout.shapes) == 1  # where the iteration ends


# The command


def test_page_lies_beside_the_timeline(timeline_json: Path, draw: Draw) -> None:
    outcome = draw(f"timeline={timeline_json}")

    page = timeline_json.with_name("timeline.html")
    assert (outcome.code, outcome.stdout) == (0, f"picture in {page}\n")
    assert sorted(path.name for path in page.parent.iterdir()) == ["timeline.html", "timeline.json"]


def test_page_needs_no_network(timeline_json: Path, draw: Draw) -> None:
    draw(f"timeline={timeline_json}")

    page = timeline_json.with_name("timeline.html").read_text()
    assert "plotly.js v" in page
    assert "<script src=" not in page


def test_labels_may_have_blanks(timeline_json: Path, draw: Draw) -> None:
    draw(f"timeline=[{timeline_json},{timeline_json}]", "labels=[data parallel,mcmc]")

    page = timeline_json.with_name("timeline.html").read_text()
    assert "data parallel\\u003c\\u002fb\\u003e" in page
    assert "mcmc\\u003c\\u002fb\\u003e" in page


def test_output_may_be_elsewhere(timeline_json: Path, draw: Draw, tmp_path: Path) -> None:
    draw(f"timeline={timeline_json}", f"output={tmp_path / 'picture.html'}")

    assert (tmp_path / "picture.html").is_file()


def test_command_runs_from_a_shell(timeline_json: Path) -> None:
    command = [sys.executable, ROOT / "experiments" / "draw_timeline.py", f"timeline={timeline_json.name}"]

    result = subprocess.run(command, cwd=timeline_json.parent, capture_output=True, text=True, check=False, timeout=60)

    assert (result.returncode, result.stdout, result.stderr) == (0, "picture in timeline.html\n", "")
    assert sorted(path.name for path in timeline_json.parent.iterdir()) == ["timeline.html", "timeline.json"]


# Refusals


def test_a_timeline_must_be_given(draw: Draw) -> None:
    outcome = draw()

    sentence = "timeline: give the path of a timeline.json, or several: timeline=[a.json,b.json]"
    assert (outcome.code, outcome.stderr) == (2, f"error: {sentence}\n")


def test_missing_file_is_refused(draw: Draw, tmp_path: Path) -> None:
    outcome = draw(f"timeline={tmp_path}/timeline.json")

    assert (outcome.code, outcome.stderr) == (
        2,
        f"error: cannot use '{tmp_path}/timeline.json': No such file or directory\n",
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff", b"[]", b"{}", b'{"traceEvents": []}', b'{"traceEvents": [1]}', b'{"traceEvents": [{"ph": "X"}]}'],
    ids=repr,
)
def test_what_is_no_timeline_is_refused(content: bytes, draw: Draw, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)

    outcome = draw(f"timeline={path}")

    sentence = f"timeline: '{path}' is not a timeline.json of this testbed"
    assert (outcome.code, outcome.stderr) == (2, f"error: {sentence}\n")


def test_task_graph_is_not_a_timeline(task_graph: TaskGraph, draw: Draw, tmp_path: Path) -> None:
    path = tmp_path / "task_graph.json"
    path.write_text(json.dumps(task_graph.to_dict()))

    assert draw(f"timeline={path}").code == 2


def test_number_of_labels_must_be_that_of_timelines(timeline_json: Path, draw: Draw) -> None:
    outcome = draw(f"timeline={timeline_json}", "labels=[a,b]")

    assert (outcome.code, outcome.stderr) == (2, "error: labels: give one for each timeline; there are 1, not 2\n")


def test_other_endings_are_refused(timeline_json: Path, draw: Draw, tmp_path: Path) -> None:
    outcome = draw(f"timeline={timeline_json}", f"output={tmp_path}/picture.pdf")

    message = f"error: output: '{tmp_path}/picture.pdf' does not end with .html, .svg or .png\n"
    assert (outcome.code, outcome.stderr) == (2, message)


def test_output_in_a_missing_folder_is_named(timeline_json: Path, draw: Draw, tmp_path: Path) -> None:
    outcome = draw(f"timeline={timeline_json}", f"output={tmp_path}/missing/picture.svg")

    message = f"error: cannot use '{tmp_path}/missing/picture.svg': No such file or directory\n"
    assert (outcome.code, outcome.stderr) == (2, message)


def test_a_refusal_leaves_nothing_in_the_working_directory(
    draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw("timeline=missing.json")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", ["-1", "1.5", "true", "many"])
def test_number_of_connections_must_be_whole(number: str, timeline_json: Path, draw: Draw) -> None:
    outcome = draw(f"timeline={timeline_json}", f"num_connections={number}")

    assert outcome.code == 2
    assert outcome.stderr.endswith("is not a whole number from 0 on\n")


def test_failed_drawing_leaves_the_old_page(timeline_json: Path, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    page = timeline_json.with_name("timeline.html")
    page.write_text("the old page")

    def refuse(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    outcome = draw(f"timeline={timeline_json}")

    assert (outcome.code, page.read_text()) == (2, "the old page")
    assert sorted(path.name for path in page.parent.iterdir()) == ["timeline.html", "timeline.json"]


@pytest.mark.parametrize(("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!doctype html")])
def test_ending_of_the_output_chooses_its_kind(
    ending: str, start: bytes, timeline_json: Path, draw: Draw, tmp_path: Path
) -> None:
    output = tmp_path / f"picture.{ending}"

    assert draw(f"timeline={timeline_json}", f"output={output}").code == 0
    assert output.read_bytes().startswith(start)
