"""curve.csv: the improvements of a search as its run folder keeps them."""

import csv
from pathlib import Path

from agents.curve_point import CurvePoint

CURVE_HEADER = ("simulations", "seconds", "best_ms")


def read_curve(path: Path) -> tuple[CurvePoint, ...]:
    """What a search wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError, KeyError, TypeError: it is no curve.
    """
    with path.open(newline="") as file:
        return tuple(
            CurvePoint(int(row["simulations"]), float(row["seconds"]), float(row["best_ms"]))
            for row in csv.DictReader(file)
        )
