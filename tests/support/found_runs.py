"""A finished search on NMT, for tests that compare some."""

from pathlib import Path
from typing import Any

from agents.curve_point import CurvePoint
from experiments.comparison.found_run import FoundRun, Status


def found_run(
    folder: Path, agent: str, seed: int, best_ms: float, *, lower_bound_ms: float, fits: bool = True, **choices: Any
) -> FoundRun:
    """Data parallelism takes 256 ms; ``choices`` are further groups of the configuration."""
    record = {
        "model": "nmt",
        "topology": "p100_cluster",
        "num_devices": 16,
        "agent": agent,
        "seed": seed,
        "data_parallel_ms": 256.0,
        "best_ms": best_ms,
        "speedup": 256 / best_ms,
        "lower_bound_ms": lower_bound_ms,
        "simulations": 1000,
        "search_seconds": 2.0,
        "fits_memory": fits,
        "configuration": {"agent": {"_target_": agent}, "budget": {"simulations": 1000}} | choices,
    }
    curve = [CurvePoint(1, 0.01, 400.0), CurvePoint(500, 1.0, best_ms), CurvePoint(1000, 2.0, best_ms)]
    return FoundRun(folder=folder, status=Status.FINISHED, reason="", record=record, curve=curve)
