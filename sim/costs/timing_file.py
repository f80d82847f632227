"""load_timings: measured times from a database, a CSV with the same columns, or one of the tables shipped here."""

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from sim.costs.timing import Platform, Timing
from sim.costs.timing_database import read_timings
from sim.errors import TimingFileError, UnknownNameError

SHIPPED = Path(__file__).parents[1] / "conf" / "costs"

COLUMNS = (*(field.name for field in fields(Platform)), "part", *(field.name for field in fields(Timing)))


def load_timings(name_or_path: str) -> dict[Platform, dict[str, Timing]]:
    """All times of a file: for each platform, by key of the part.

    Args:
        name_or_path: a CSV (it ends in .csv), a database, or without a folder and an ending the name of a CSV in
            ``sim/conf/costs``.

    Raises:
        TimingFileError: the file is missing or holds something else.
        UnknownNameError: there is no such table.
    """
    path = Path(name_or_path)
    if path.name == name_or_path and not path.suffix:
        path = SHIPPED / f"{name_or_path}.csv"
        if not path.is_file():
            shipped = sorted(file.stem for file in SHIPPED.glob("*.csv"))
            raise UnknownNameError("table of measured costs", name_or_path, [*shipped, "or the path of a file"])
    if not path.is_file():
        raise TimingFileError(name_or_path, "there is no such file; experiments/profile_operators.py makes one")
    return _read_csv(path) if path.suffix == ".csv" else read_timings(path)


def _key(text: str) -> str:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict) or "kind" not in fields:
        raise ValueError(f"'{text}' is no key of a part")
    return text


def _time(text: str) -> float:
    time_ns = float(text)
    if not 0 <= time_ns < math.inf:
        raise ValueError(f"{text} is no time; it must be 0 or a positive number")
    return time_ns


_TYPES: tuple[Callable[[str], Any], ...] = (str, str, int, str, str, _key, _time, float, _time, float, int)


def timing_rows(timings: Mapping[Platform, Mapping[str, Timing]]) -> Iterator[tuple[Any, ...]]:
    """The rows of a CSV under ``COLUMNS``."""
    for platform, by_key in timings.items():
        yield from ((*astuple(platform), key, *astuple(timing)) for key, timing in by_key.items())


def _read_csv(path: Path) -> dict[Platform, dict[str, Timing]]:
    found: dict[Platform, dict[str, Timing]] = {}
    try:
        with path.open(newline="") as file:
            reader = csv.reader(file)
            if tuple(next(reader, ())) != COLUMNS:
                raise TimingFileError(str(path), f"its columns must be {', '.join(COLUMNS)}")
            for row in reader:
                if len(row) != len(COLUMNS):
                    raise ValueError(f"it has {len(row)} columns, not {len(COLUMNS)}")
                values: list[Any] = [convert(text) for convert, text in zip(_TYPES, row, strict=True)]
                found.setdefault(Platform(*values[:5]), {})[values[5]] = Timing(*values[6:])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TimingFileError(str(path), str(error)) from None
    except ValueError as error:
        if isinstance(error, TimingFileError):
            raise
        raise TimingFileError(str(path), f"line {reader.line_num}: {error}") from None
    return found
