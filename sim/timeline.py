"""write_timeline: a simulated iteration for Perfetto (ui.perfetto.dev) and chrome://tracing."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from sim.critical_path import CriticalTask, critical_tasks
from sim.task_graph import Task, TaskGraph

COMPUTE_PROCESS, CONNECTION_PROCESS, SERIAL_PROCESS, CRITICAL_PROCESS = 1, 2, 3, 4
CRITICAL_PATH = "critical path"

MAX_ARROWS = 2000
"""Dependencies; where there are more, only those on the critical path have arrows."""

CRITICAL_COLOUR = "terrible"
"""A red of chrome://tracing, among those that it knows by name."""


def trace_events(task_graph: TaskGraph) -> list[dict[str, Any]]:
    """A task graph with its times as Chrome trace events, in us: a row for each device and each connection in use.

    A task that occupies several connections appears on the row of each. Measured tasks may share a connection; then it
    has several rows, since slices of one row must not overlap. Serial synchronisation, which is added behind
    everything else, occupies none and has a row of its own. So has the critical path, whose tasks appear there once
    more and are marked where they run. An arrow leads from a task to each that needs its result.
    """
    path = critical_tasks(task_graph)
    serial = len(task_graph.device_names)
    lanes = _lanes(task_graph)
    used = sorted({(device, lane) for (_, device), lane in lanes.items()})
    if any(task.exe_time and not task.devices for task in task_graph.tasks):
        used.append((serial, 0))
    critical = {step.id for step in path}
    events = _rows(task_graph, used)
    for task in task_graph.tasks:
        is_critical = task.id in critical
        mark, arguments = ({"cname": CRITICAL_COLOUR}, {"critical": True}) if is_critical else ({}, {})
        for device in task.devices or [serial] * bool(task.exe_time):
            row = _row(task_graph, device, lanes.get((task.id, device), 0))
            events.append(_slice(task, **arguments) | row | mark)
    for step in path:
        events.append(_slice(task_graph.tasks[step.id], waited_for=step.cause) | _row(task_graph, serial + 1))
    for number, (source, target) in enumerate(_dependencies(task_graph, path)):
        events += _arrow(task_graph, lanes, number, source, target)
    return events


def _lanes(task_graph: TaskGraph) -> dict[tuple[int, int], int]:
    """For a task's id and a device that it occupies, which of the device's rows it is on."""
    lanes: dict[tuple[int, int], int] = {}
    ends: dict[int, list[int]] = {}
    for task in sorted(task_graph.tasks, key=lambda task: (task.start_time, task.end_time)):
        for device in task.devices:
            own = ends.setdefault(device, [])
            lane = next((lane for lane, end in enumerate(own) if end <= task.start_time), len(own))
            own[lane : lane + 1] = [task.end_time]
            lanes[task.id, device] = lane
    return lanes


def _row(task_graph: TaskGraph, device: int, lane: int = 0) -> dict[str, int]:
    """Serial synchronisation and the critical path come behind the devices."""
    return {"pid": _process(task_graph, device), "tid": device + lane * (len(task_graph.device_names) + 2)}


def _rows(task_graph: TaskGraph, used: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Names of the processes and rows."""
    events: list[dict[str, Any]] = []
    processes = {
        COMPUTE_PROCESS: "devices",
        CONNECTION_PROCESS: "connections",
        SERIAL_PROCESS: "synchronisation",
        CRITICAL_PROCESS: CRITICAL_PATH,
    }
    for process, name in processes.items():
        events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}})
    names = [*task_graph.device_names, "serial", CRITICAL_PATH]
    for place, (device, lane) in enumerate([*used, (len(names) - 1, 0)]):
        row = {"ph": "M"} | _row(task_graph, device, lane)
        name = names[device] + (f" ({lane + 1})" if lane else "")
        events.append({**row, "name": "thread_name", "args": {"name": name}})
        events.append({**row, "name": "thread_sort_index", "args": {"sort_index": place}})
    return events


def _process(task_graph: TaskGraph, device: int) -> int:
    if device < task_graph.num_compute_devices:
        return COMPUTE_PROCESS
    if device < len(task_graph.device_names):
        return CONNECTION_PROCESS
    return SERIAL_PROCESS if device == len(task_graph.device_names) else CRITICAL_PROCESS


def _slice(task: Task, **arguments: Any) -> dict[str, Any]:
    """A task without its row."""
    return {
        "ph": "X",
        "name": task.name,
        "cat": task.kind,
        "ts": microseconds(task.start_time),
        "dur": microseconds(task.exe_time),
        "args": {"ready_us": microseconds(task.ready_time), "bytes": task.num_bytes} | arguments,
    }


def microseconds(time_ns: int) -> float:
    """The number whose thousandfold is ``time_ns``, be it rounded or cut off.

    Versions of Perfetto do either, and drop slices that overlap: cut off, 1.001 us is 1000 ns, and a slice from there
    would overlap one that ends at 1001 ns.
    """
    time_us = time_ns / 1e3
    return time_us if int(time_us * 1e3) == time_ns else math.nextafter(time_us, math.inf)


def _dependencies(task_graph: TaskGraph, path: Sequence[CriticalTask]) -> Iterator[tuple[Task, Task]]:
    """Pairs of tasks between which an arrow is drawn, those on the critical path first."""
    tasks = task_graph.tasks
    steps = list(pairwise(path))
    for before, step in steps:
        if step.cause == "dependency":
            yield tasks[before.id], tasks[step.id]
    if sum(len(set(task.in_tasks)) for task in tasks) <= MAX_ARROWS:
        drawn = {(before.id, step.id) for before, step in steps}
        for task in tasks:
            for before_id in sorted(set(task.in_tasks)):
                if (before_id, task.id) not in drawn:
                    yield tasks[before_id], task


def _arrow(
    task_graph: TaskGraph, lanes: Mapping[tuple[int, int], int], number: int, source: Task, target: Task
) -> list[dict[str, Any]]:
    """Start and end of a flow; each belongs to the slice around it, hence the middles.

    Tasks that occupy nothing or last no time have no slice around anything, and get no arrow; neither do measured tasks
    that seem to wait for a later one.
    """
    if not all(task.devices and task.exe_time for task in (source, target)):
        return []
    middles = [microseconds(task.start_time + task.exe_time // 2) for task in (source, target)]
    if middles[0] > middles[1]:
        return []
    ends: list[dict[str, Any]] = []
    for phase, task, middle in zip("sf", (source, target), middles, strict=True):
        row = _row(task_graph, task.devices[0], lanes[task.id, task.devices[0]])
        ends.append({"ph": phase, "name": "dependency", "cat": "dependency", "id": number, "ts": middle} | row)
    ends[1]["bp"] = "e"  # bound to the enclosing slice, not to the next one
    return ends


def write_timeline(task_graph: TaskGraph, path: str | Path) -> None:
    """Write the trace events of a simulated task graph as JSON, under a temporary name first."""
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": trace_events(task_graph)}) + "\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
