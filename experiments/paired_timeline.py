"""paired_events: a simulated and a measured iteration as two processes of one Perfetto file."""

from typing import Any

from sim.task_graph import TaskGraph
from sim.timeline import trace_events

PROCESSES = ("simulated", "measured")


def paired_events(simulated: TaskGraph, measured: TaskGraph) -> list[dict[str, Any]]:
    """Chrome trace events: two processes, each with a row for every device and connection in use."""
    events: list[dict[str, Any]] = []
    for number, (name, task_graph) in enumerate(zip(PROCESSES, (simulated, measured), strict=True), start=1):
        events.append({"ph": "M", "name": "process_name", "pid": number, "args": {"name": name}})
        rows = (event for event in trace_events(task_graph) if event["name"] != "process_name")
        events += [_moved(event, number) for event in rows]
    return events


def _moved(event: dict[str, Any], process: int) -> dict[str, Any]:
    """The event in one of the two processes; arrows of both have ids of their own, or they would be mixed up."""
    arrow = {"id": len(PROCESSES) * event["id"] + process} if "id" in event else {}
    return event | {"pid": process} | arrow
