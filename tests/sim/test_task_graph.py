"""What task_graph.json and timeline.json say: enough to simulate again, and to look at."""

import heapq
import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy
from trace_reader import READINGS, trace_faults

from sim import topologies
from sim.critical_path import critical_tasks
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.strategies import single_device
from sim.strategy import ParallelConfig
from sim.sync import Sync
from sim.task_graph import TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.timeline import CRITICAL_PROCESS, MAX_ARROWS, microseconds, trace_events, write_timeline
from sim.topology import load_topology

TASK_FIELDS = [
    "id",
    "name",
    "kind",
    "devices",
    "exe_time",
    "in_tasks",
    "key",
    "ready_time",
    "start_time",
    "end_time",
]


def simulated_again(document: dict[str, Any]) -> dict[int, tuple[int, int, int]]:
    """Ready, start and end times from a task graph's own fields, by a simulator that knows nothing else."""
    tasks = {task["id"]: task for task in document["tasks"]}
    missing = {i: set(task["in_tasks"]) for i, task in tasks.items()}
    queue = [(0, task["key"], i) for i, task in tasks.items() if not missing[i]]
    heapq.heapify(queue)
    free: dict[str, int] = {}
    times: dict[int, tuple[int, int, int]] = {}
    while queue:
        ready, _, i = heapq.heappop(queue)
        start = max([ready, *(free.get(device, 0) for device in tasks[i]["devices"])])
        times[i] = ready, start, start + tasks[i]["exe_time"]
        free.update(dict.fromkeys(tasks[i]["devices"], times[i][2]))
        for j in [j for j, waits_for in missing.items() if i in waits_for]:
            missing[j].remove(i)
            if not missing[j]:
                heapq.heappush(queue, (max(times[k][2] for k in tasks[j]["in_tasks"]), tasks[j]["key"], j))
    return times


@pytest.mark.parametrize("is_occupying", [False, True])
def test_devices_compute_while_they_send_only_if_transfers_do_not_occupy_them(is_occupying: bool) -> None:
    link = {"bandwidth_gb_per_s": 1.0, "latency_us": 1.0}
    topology = topologies.explicit(
        name="pair",
        devices=[{"name": name, "kind": "cpu", "node": 0, "memory_gb": 1} for name in "ab"],
        switches=[],
        connections=[{"src": "a", "dst": "b", **link}, {"src": "b", "dst": "a", **link}],
        transfers_occupy_devices=is_occupying,
    )
    problem = Problem(lenet(num_devices=2, batch_per_device=4), topology)
    task_graph = build_task_graph(problem, problem.data_parallel)
    task_graph.simulate()
    computing = [t for t in task_graph.tasks if t.kind in ("forward", "backward") and t.devices == (0,)]
    syncs = [task for task in task_graph.tasks if task.kind == "sync"]

    overlaps = [s.start_time < t.end_time and t.start_time < s.end_time for s in syncs for t in computing]
    assert any(overlaps) is not is_occupying


def random_document(seed: int) -> dict[str, Any]:
    """The task graph of a random strategy, through JSON."""
    random = Random(seed)
    problem = random_problem(random)
    task_graph = build_task_graph(problem, random_strategy(problem, random))
    task_graph.simulate()
    document: dict[str, Any] = json.loads(json.dumps(task_graph.to_dict()))
    return document


@pytest.fixture
def task_graph() -> TaskGraph:
    """LeNet on two nodes, data parallel; its all-reduces occupy several connections each."""
    problem = Problem(lenet(num_devices=8), load_topology("p100_cluster", num_devices=8))
    simulated = build_task_graph(problem, problem.data_parallel)
    simulated.simulate()
    return simulated


# task_graph.json


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_another_simulator_gets_the_same_times_from_the_task_graphs_own_fields(seed: int) -> None:
    document = random_document(seed)
    times = {task["id"]: (task["ready_time"], task["start_time"], task["end_time"]) for task in document["tasks"]}

    assert simulated_again(document) == times


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_the_makespan_of_the_task_graph_is_the_end_of_its_last_task(seed: int) -> None:
    document = random_document(seed)

    assert document["makespan"] == max(task["end_time"] for task in document["tasks"])


def test_a_task_graph_has_the_fields_of_the_format(task_graph: TaskGraph) -> None:
    document = task_graph.to_dict()

    assert (list(document), document["time_unit"]) == (["time_unit", "makespan", "tasks"], "ns")


def test_a_task_has_the_fields_of_the_format(task_graph: TaskGraph) -> None:
    assert all(list(task) == TASK_FIELDS for task in task_graph.to_dict()["tasks"])


def test_a_transfer_names_every_connection_that_it_occupies() -> None:
    problem = Problem(lenet(num_devices=8), load_topology("p100_cluster", num_devices=8))
    last_elsewhere = single_device(problem).replace(5, ParallelConfig((1, 1), (7,)))
    task_graph = build_task_graph(problem, last_elsewhere)
    task_graph.simulate()
    first, _ = [task for task in task_graph.to_dict()["tasks"] if task["kind"] == "transfer"]

    assert first["devices"] == [
        "node0/device0->node0/pcie0",
        "node0/pcie0->network",
        "network->node1/pcie0",
        "node1/pcie0->node1/device3",
    ]


# timeline.json


def test_a_timeline_is_a_trace_event_document(task_graph: TaskGraph, tmp_path: Path) -> None:
    write_timeline(task_graph, tmp_path / "timeline.json")
    document = json.loads((tmp_path / "timeline.json").read_text())

    assert (document["displayTimeUnit"], document["traceEvents"]) == ("ms", trace_events(task_graph))


def test_every_event_has_what_its_phase_requires(task_graph: TaskGraph) -> None:
    arrow = {"name", "cat", "pid", "tid", "ts", "id"}
    required = {"X": {"name", "cat", "pid", "tid", "ts", "dur"}, "M": {"name", "pid", "args"}}
    required |= {"s": arrow, "f": arrow | {"bp"}}

    assert all(required[event["ph"]] <= set(event) for event in trace_events(task_graph))


def test_a_task_appears_on_the_row_of_everything_that_it_occupies(task_graph: TaskGraph) -> None:
    slices = [event for event in trace_events(task_graph) if event["ph"] == "X" and event["pid"] != CRITICAL_PROCESS]
    rows = [(event["name"], event["tid"]) for event in slices]

    assert sorted(rows) == sorted((task.name, device) for task in task_graph.tasks for device in task.devices)


def test_the_times_of_a_timeline_are_microseconds(task_graph: TaskGraph) -> None:
    ends = [event["ts"] + event["dur"] for event in trace_events(task_graph) if event["ph"] == "X"]

    assert max(ends) == pytest.approx(task_graph.makespan / 1000)


def test_every_row_in_use_bears_the_name_of_its_device(task_graph: TaskGraph) -> None:
    events = trace_events(task_graph)
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}

    all_names = dict(enumerate([*task_graph.device_names, "serial", "critical path"]))
    assert names == {event["tid"]: all_names[event["tid"]] for event in events if event["ph"] == "X"}


def test_events_of_one_row_do_not_overlap(task_graph: TaskGraph) -> None:
    events = [event for event in trace_events(task_graph) if event["ph"] == "X"]
    for row in {event["tid"] for event in events}:
        runs = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["tid"] == row)

        assert all(end <= start + 1e-6 for (_, end), (start, _) in pairwise(runs))


def test_a_timeline_ends_with_serial_synchronisation() -> None:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    serial = Problem(graph, topology, sync=Sync(overlap=False))
    task_graph = build_task_graph(serial, serial.data_parallel)
    makespan = task_graph.simulate()
    ends = [event["ts"] + event["dur"] for event in trace_events(task_graph) if event["ph"] == "X"]

    assert max(ends) == pytest.approx(makespan / 1e3)


def test_writing_a_timeline_leaves_no_other_file(task_graph: TaskGraph, tmp_path: Path) -> None:
    write_timeline(task_graph, tmp_path / "timeline.json")

    assert [path.name for path in tmp_path.iterdir()] == ["timeline.json"]


def test_an_arrow_leads_from_the_middle_of_a_task_to_the_middle_of_one_that_needs_it() -> None:
    task_graph = simulated(Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)))
    arrows = arrow_ends(trace_events(task_graph))
    middles = {
        (task.devices[0], microseconds((task.start_time + task.end_time) // 2)): task.id
        for task in task_graph.tasks
        if task.devices
    }

    found = {(middles[source], middles[target]) for source, target in arrows}
    assert found == {(before, task.id) for task in task_graph.tasks for before in task.in_tasks}
    assert len(arrows) == len(found)


@pytest.mark.parametrize("reading", READINGS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_strict_reader_finds_no_fault_in_a_timeline(reading: str, seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    task_graph = build_task_graph(problem, random_strategy(problem, random))
    task_graph.simulate()
    events = json.loads(json.dumps(trace_events(task_graph)))

    assert trace_faults(events, READINGS[reading]) == []


@pytest.mark.parametrize("sync", [Sync(), Sync(scheme="parameter_server", overlap=False)], ids=["ring", "serial"])
@pytest.mark.parametrize("reading", READINGS)
def test_a_strict_reader_finds_no_fault_in_the_timeline_of_a_large_model(reading: str, sync: Sync) -> None:
    problem = Problem(inception_v3(num_devices=8), load_topology("p100_cluster", num_devices=8), sync=sync)

    assert trace_faults(trace_events(simulated(problem)), READINGS[reading]) == []


def test_a_strict_reader_finds_what_overlaps_by_a_nanosecond() -> None:
    row = {"pid": 1, "tid": 0}
    names = [row | {"ph": "M", "name": name} for name in ("process_name", "thread_name")]
    slices = [row | {"ph": "X", "name": str(n), "ts": n / 1e3, "dur": 1.001} for n in (0, 1001, 2001)]

    assert trace_faults([*names, *slices], READINGS["rounded"]) == [
        "2001 on row (1, 0) overlaps the end of another by 1 ns"
    ]


def test_tasks_that_share_a_connection_are_on_rows_of_their_own() -> None:
    task_graph = TaskGraph(["a", "a->b"], 1)
    for number in range(3):
        task_graph.add(f"transfer {number}", "transfer", [1], 10, (number, 0, 0, 0))
    task_graph.simulate()
    for number, task in enumerate(task_graph.tasks):  # as if measured
        task.start_time, task.end_time = 6 * number, 6 * number + 10
    events = trace_events(task_graph)
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    rows = {event["name"]: names[event["tid"]] for event in events if event["ph"] == "X" and event["pid"] == 2}

    assert rows == {"transfer 0": "a->b", "transfer 1": "a->b (2)", "transfer 2": "a->b"}
    assert [fault for fault in trace_faults(events, READINGS["rounded"]) if "(4, " not in fault] == []


@given(time_ns=st.integers(0, 10**15))
def test_microseconds_are_read_as_the_nanoseconds_that_they_were(time_ns: int) -> None:
    assert {read(microseconds(time_ns)) for read in READINGS.values()} == {time_ns}


def test_large_graphs_have_arrows_on_the_critical_path_alone() -> None:
    problem = Problem(inception_v3(num_devices=4), load_topology("p100_cluster", num_devices=4))
    task_graph = simulated(problem)
    path = [(task_graph.tasks[step.id].exe_time, step.cause) for step in critical_tasks(task_graph)]
    num_critical = sum(cause == "dependency" and ns * before > 0 for (before, _), (ns, cause) in pairwise(path))

    assert sum(len(set(task.in_tasks)) for task in task_graph.tasks) > MAX_ARROWS
    assert len(arrow_ends(trace_events(task_graph))) == num_critical


def test_arrows_neither_begin_nor_end_at_what_has_no_row() -> None:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    task_graph = simulated(Problem(graph, topology, sync=Sync(overlap=False)))
    events = trace_events(task_graph)
    serial = next(event["tid"] for event in events if event.get("args") == {"name": "serial"})

    assert serial not in {row for arrow in arrow_ends(events) for row, _ in arrow}


def test_the_row_of_the_critical_path_is_full(task_graph: TaskGraph) -> None:
    slices = [e for e in trace_events(task_graph) if e["ph"] == "X" and e["pid"] == CRITICAL_PROCESS]

    assert [slices[0]["ts"], slices[-1]["ts"] + slices[-1]["dur"]] == pytest.approx([0, task_graph.makespan / 1e3])
    assert sum(event["dur"] for event in slices) == pytest.approx(task_graph.makespan / 1e3)


def test_critical_tasks_are_marked_where_they_run(task_graph: TaskGraph) -> None:
    events = trace_events(task_graph)
    marked = {e["name"] for e in events if e["ph"] == "X" and e["args"].get("critical")}
    coloured = {e["name"] for e in events if "cname" in e}

    path = {event["name"] for event in events if event["ph"] == "X" and event["pid"] == CRITICAL_PROCESS}
    assert marked == coloured == path


def simulated(problem: Problem) -> TaskGraph:
    """Data parallelism, simulated."""
    task_graph = build_task_graph(problem, problem.data_parallel)
    task_graph.simulate()
    return task_graph


def arrow_ends(events: list[dict[str, Any]]) -> list[tuple[tuple[int, float], tuple[int, float]]]:
    """Row and time of both ends of each arrow."""
    ends = {phase: {e["id"]: (e["tid"], e["ts"]) for e in events if e["ph"] == phase} for phase in ("s", "f")}
    assert list(ends["s"]) == list(ends["f"])
    return list(zip(ends["s"].values(), ends["f"].values(), strict=True))
