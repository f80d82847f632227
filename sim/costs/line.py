"""fit_line: launch and time per byte of what was measured at several sizes: updates and messages."""

import json
from collections.abc import Mapping, Sequence

import numpy as np

from sim.costs.timing import Timing

Point = tuple[int, float]
"""Bytes and ns."""


def update_points(table: Mapping[str, Timing]) -> list[Point]:
    """The updates of a table of times: their sizes and times."""
    keys = {key: json.loads(key) for key in table if '"update"' in key}
    return sorted((fields["bytes"], table[key].forward_ns) for key, fields in keys.items() if "bytes" in fields)


def fit_line(points: Sequence[Point]) -> tuple[float, float]:
    """Time of 0 bytes and time per byte, ns, of the line with the least squared relative errors.

    Neither is negative. A single point is all time per byte.
    """
    sizes, times = np.array(points, dtype=np.float64).T
    if len(points) == 1:
        return 0.0, float(times[0] / max(1.0, sizes[0]))
    # Each row is divided by its time, so that small sizes count as much as large ones.
    rows = np.stack((1 / times, sizes / times), axis=1)
    (at_zero, per_byte), *_ = np.linalg.lstsq(rows, np.ones(len(points)), rcond=None)
    if at_zero < 0:
        return 0.0, float(np.sum(sizes / times) / np.sum((sizes / times) ** 2))
    if per_byte < 0:
        return float(np.sum(1 / times) / np.sum(1 / times**2)), 0.0
    return float(at_zero), float(per_byte)
