"""load_timeline: what a timeline.json holds, for pictures."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.errors import OptionError
from sim.timeline import CRITICAL_PATH

KIND_COLOURS = {
    "forward": ("#9dc3ec", "#7fabdb"),
    "backward": ("#2f6cb5", "#215394"),
    "transfer": ("#f3a93c", "#f3a93c"),
    "exchange": ("#9466c9", "#9466c9"),
    "sync": ("#d9483b", "#b5352a"),
    "update": ("#2e9e6b", "#2e9e6b"),
}
"""Area and outline: blue is computing, warm colours are communication. Short tasks are seen by their outline."""

FURTHER_COLOURS = ("#8a8f98", "#8a8f98")


@dataclass(frozen=True, slots=True)
class Timeline:
    """The content of a timeline.json, an entry for each task and each device or connection that it occupies.

    Attributes:
        label: what it is called in the picture.
        devices: names of the compute devices in use.
        connections: names of the connections in use.
        tasks: name of each entry's task.
        kinds: its kind.
        rows: the name of what it occupies.
        times: (entries, 4) float64: ready, start and end in ms, bytes.
    """

    label: str
    devices: tuple[str, ...]
    connections: tuple[str, ...]
    tasks: NDArray[np.str_]
    kinds: NDArray[np.str_]
    rows: NDArray[np.str_]
    times: NDArray[np.float64]

    @property
    def has_critical_path(self) -> bool:
        """Whether the critical path is among the rows."""
        return bool((self.rows == CRITICAL_PATH).any())

    @property
    def iteration_ms(self) -> float:
        """End of the last task."""
        return float(self.times[:, 2].max())

    def busy_ms(self, row: str) -> float:
        """Time that a device or connection is occupied."""
        is_here = self.rows == row
        return float((self.times[is_here, 2] - self.times[is_here, 1]).sum())


def load_timeline(path: Path, *, label: str) -> Timeline:
    """Read what ``sim.timeline`` wrote.

    Raises:
        OSError: the file cannot be read.
        OptionError: it is not a timeline.
    """
    text = path.read_bytes()
    try:
        events = json.loads(text)["traceEvents"]
        return _timeline(events, label)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError("timeline", f"'{path}' is not a timeline.json of this testbed") from error


def _timeline(events: Sequence[Mapping[str, Any]], label: str) -> Timeline:
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    entries = [e for e in events if e["ph"] == "X"]
    if not entries:
        raise ValueError("no tasks")

    def named(process: str) -> tuple[str, ...]:
        return tuple(name for (pid, _), name in names.items() if processes[pid] == process)

    times = [(e["args"]["ready_us"], e["ts"], e["ts"] + e["dur"], e["args"]["bytes"]) for e in entries]
    return Timeline(
        label=label,
        devices=named("devices"),
        connections=named("connections"),
        tasks=np.array([str(e["name"]) for e in entries]),
        kinds=np.array([str(e["cat"]) for e in entries]),
        rows=np.array([names[e["pid"], e["tid"]] for e in entries]),
        times=np.array(times, dtype=np.float64) / (1e3, 1e3, 1e3, 1.0),
    )


def busiest(timelines: Sequence[Timeline], number: int) -> set[str]:
    """Names of the connections that are occupied longest in all timelines together."""
    busy_ms: dict[str, float] = {}
    for timeline in timelines:
        for name in timeline.connections:
            busy_ms[name] = busy_ms.get(name, 0.0) + timeline.busy_ms(name)
    return set(sorted(busy_ms, key=busy_ms.__getitem__, reverse=True)[:number])
