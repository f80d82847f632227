"""FoundRun: what lies in a run folder, be the run finished, partial or failed."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

from agents.curve_point import CurvePoint
from experiments.construct import check_options
from experiments.record import Record
from experiments.resume import started_job
from experiments.run_folder import FAILURE
from experiments.stored_curve import read_curve

COMMANDS = ("config", "simulate")
"""Names of the configurations whose jobs make runs."""

NEEDED = (
    *("model", "topology", "num_devices", "seed", "configuration", "data_parallel_ms", "best_ms", "speedup"),
    *("lower_bound_ms", "fits_memory", "simulations", "search_seconds"),
)
"""Fields of the record without which nothing can be compared."""

POSITIVE = ("data_parallel_ms", "best_ms", "speedup")


class Status(StrEnum):
    """What became of a run; only finished ones are counted."""

    FINISHED = "finished"
    REPEATED = "repeated"
    INTERRUPTED = "interrupted"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """A run folder.

    Attributes:
        folder: where it is.
        status: what became of the run.
        reason: why it is not finished; empty if it is.
        record: the content of record.json; empty if there is none.
        curve: improvements, in order.
    """

    folder: Path
    status: Status
    reason: str
    record: Mapping[str, Any]
    curve: Sequence[CurvePoint] = ()


def find_runs(root: Path) -> list[FoundRun]:
    """All runs of run.py and simulate.py below a folder, in the order of their paths."""
    return [read_run(folder) for folder in sorted(_run_folders(root))]


def read_run(folder: Path) -> FoundRun:
    """What lies in a run folder."""
    try:
        record = checked(json.loads((folder / "record.json").read_text()))
        path = folder / "curve.csv"
        curve = read_curve(path) if path.is_file() else ()
    except FileNotFoundError:
        reason = _failure(folder) or "the search has not begun, or it was killed before"
        return FoundRun(folder=folder, status=Status.FAILED, reason=reason, record={})
    except (OSError, ValueError, KeyError, TypeError) as error:
        return FoundRun(folder=folder, status=Status.FAILED, reason=f"cannot be read: {error}", record={})
    status, reason = Status.FINISHED, ""
    if record.get("is_partial"):
        failure = _failure(folder)
        status = Status.FAILED if failure else Status.PARTIAL
        reason = failure or f"killed or still running after {record['search_seconds']:.0f} s"
    elif record.get("is_interrupted"):
        status, reason = Status.INTERRUPTED, "ended by the user"
    return FoundRun(folder=folder, status=status, reason=reason, record=record, curve=curve)


def checked(record: Any) -> Mapping[str, Any]:
    """A record from which a comparison can be made.

    Raises:
        ValueError: it is none: of another version of this program, or changed by hand.
    """
    missing = [key for key in NEEDED if key not in record]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    check_options(Record, {key: record[key] for key in NEEDED})
    for key in POSITIVE:
        if not 0 < record[key] < math.inf:
            raise ValueError(f"{key}: {record[key]} is not a positive number")
    return cast(Mapping[str, Any], record)


def _run_folders(root: Path) -> Iterator[Path]:
    """Folders with a record, or with the configuration of a job that should have written one."""
    folders = {path.parent for path in root.rglob("record.json")}
    yield from folders
    for path in root.rglob(".hydra/hydra.yaml"):
        folder = path.parent.parent
        job = started_job(path)
        if folder not in folders and job is not None and job.job.config_name in COMMANDS:
            yield folder


def _failure(folder: Path) -> str:
    try:
        return str(json.loads((folder / FAILURE).read_text())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
