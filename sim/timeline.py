"""write_timeline: a simulated iteration for Perfetto (ui.perfetto.dev) and chrome://tracing."""

import json
import os
from pathlib import Path
from typing import Any

from sim.task_graph import TaskGraph

COMPUTE_PROCESS, CONNECTION_PROCESS, SERIAL_PROCESS = 1, 2, 3


def trace_events(task_graph: TaskGraph) -> list[dict[str, Any]]:
    """A simulated task graph as Chrome trace events, in us: a row for each device and each connection in use.

    A task that occupies several connections appears on the row of each. Serial synchronisation, which is added behind
    everything else, occupies none and has a row of its own.
    """
    events: list[dict[str, Any]] = []
    used = sorted({device for task in task_graph.tasks for device in task.devices})
    serial = len(task_graph.device_names)
    if any(task.exe_time and not task.devices for task in task_graph.tasks):
        used.append(serial)
    processes = ((COMPUTE_PROCESS, "devices"), (CONNECTION_PROCESS, "connections"), (SERIAL_PROCESS, "synchronisation"))
    for process, name in processes:
        events.append({"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}})
    for device in used:
        row = {"ph": "M", "pid": _process(task_graph, device), "tid": device}
        events.append({**row, "name": "thread_name", "args": {"name": [*task_graph.device_names, "serial"][device]}})
        events.append({**row, "name": "thread_sort_index", "args": {"sort_index": device}})
    for task in task_graph.tasks:
        for device in task.devices or [serial] * bool(task.exe_time):
            events.append(
                {
                    "ph": "X",
                    "name": task.name,
                    "cat": task.kind,
                    "pid": _process(task_graph, device),
                    "tid": device,
                    "ts": task.start_time / 1e3,
                    "dur": task.exe_time / 1e3,
                    "args": {"ready_us": task.ready_time / 1e3, "bytes": task.num_bytes},
                }
            )
    return events


def _process(task_graph: TaskGraph, device: int) -> int:
    if device < task_graph.num_compute_devices:
        return COMPUTE_PROCESS
    return CONNECTION_PROCESS if device < len(task_graph.device_names) else SERIAL_PROCESS


def write_timeline(task_graph: TaskGraph, path: str | Path) -> None:
    """Write the trace events of a simulated task graph as JSON, under a temporary name first."""
    path = Path(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        draft.write_text(json.dumps({"displayTimeUnit": "ms", "traceEvents": trace_events(task_graph)}) + "\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
