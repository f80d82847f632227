"""trace_faults: what a reader of the Trace Event Format finds wrong that is as strict as Perfetto's trace processor."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Event: TypeAlias = Mapping[str, Any]
Row: TypeAlias = tuple[int, int]

METADATA = ("process_name", "thread_name", "thread_sort_index")

READINGS: Mapping[str, Callable[[float], int]] = {
    "rounded": lambda time_us: round(time_us * 1e3),
    "cut off": lambda time_us: int(time_us * 1e3),
}
"""How versions of Perfetto make nanoseconds of microseconds."""


def trace_faults(events: Sequence[Event], to_ns: Callable[[float], int]) -> list[str]:
    """Everything that a reader would drop, misplace or refuse."""
    return [*_kind_faults(events), *_name_faults(events), *_slice_faults(events, to_ns), *_arrow_faults(events, to_ns)]


def _row(event: Event) -> Row:
    return event["pid"], event["tid"]


def _kind_faults(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        if event["ph"] == "M":
            if event["name"] not in METADATA:
                yield f"unknown metadata {event['name']}"
            continue
        if event["ph"] not in ("X", "s", "f"):
            yield f"unknown phase {event['ph']}"
        times = [event["ts"], event.get("dur", 0.0)]
        if not all(math.isfinite(time) and time >= 0 for time in times):
            yield f"{event['name']} has the times {times}"
        if not all(type(number) is int and number >= 0 for number in _row(event)):
            yield f"{event['name']} is on the row {_row(event)}"


def _name_faults(events: Sequence[Event]) -> Iterator[str]:
    """Every row in use, and its process, has one name."""
    threads = Counter(_row(event) for event in events if event["name"] == "thread_name")
    processes = Counter(event["pid"] for event in events if event["name"] == "process_name")
    for row in {_row(event) for event in events if event["ph"] != "M"}:
        if threads[row] != 1 or processes[row[0]] != 1:
            yield f"row {row} has {threads[row]} names, its process {processes[row[0]]}"


def _slices(events: Sequence[Event], to_ns: Callable[[float], int]) -> dict[Row, list[tuple[int, int, str]]]:
    """Start, end and name of the slices of each row, outer ones first."""
    rows: dict[Row, list[tuple[int, int, str]]] = {}
    for event in events:
        if event["ph"] == "X":
            start = to_ns(event["ts"])
            rows.setdefault(_row(event), []).append((start, start + to_ns(event["dur"]), event["name"]))
    return {row: sorted(found, key=lambda one: (one[0], -one[1])) for row, found in rows.items()}


def _slice_faults(events: Sequence[Event], to_ns: Callable[[float], int]) -> Iterator[str]:
    """Slices of one row nest, or one has ended when the next begins."""
    for row, found in _slices(events, to_ns).items():
        open_ends: list[int] = []
        for start, end, name in found:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1]:
                yield f"{name} on row {row} overlaps the end of another by {open_ends[-1] - start} ns"
            open_ends.append(end)


def _arrow_faults(events: Sequence[Event], to_ns: Callable[[float], int]) -> Iterator[str]:
    """Arrows have both ends, lead forward, and each end lies in a slice."""
    rows = _slices(events, to_ns)
    ends = {phase: {event["id"]: event for event in events if event["ph"] == phase} for phase in ("s", "f")}
    if len(ends["s"]) + len(ends["f"]) != sum(event["ph"] in ("s", "f") for event in events):
        yield "two arrows have one id"
    if ends["s"].keys() != ends["f"].keys():
        yield "an arrow has one end"
    for number in ends["s"].keys() & ends["f"].keys():
        source, target = ends["s"][number], ends["f"][number]
        if to_ns(source["ts"]) > to_ns(target["ts"]):
            yield f"arrow {number} leads back in time"
        if (source["name"], source["cat"]) != (target["name"], target["cat"]) or target.get("bp") != "e":
            yield f"arrow {number} has ends that do not fit"
        for event in (source, target):
            if not any(start <= to_ns(event["ts"]) < end for start, end, _ in rows.get(_row(event), [])):
                yield f"an end of arrow {number} is in no slice"
