"""Times of a model's parts on this machine: ``python experiments/profile_operators.py model=lenet num_devices=2``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from experiments.application import application
from experiments.construct import construct, resolved
from experiments.errors import OptionError
from experiments.problem import make_space
from experiments.run_folder import RunFolder
from runtime.profiler import Profiler, device_name
from runtime.task_overhead import time_tasks
from sim.costs.part_shape import describe, kind_of, part_shapes
from sim.costs.timing import TASK_KEY, Timing, update_key
from sim.costs.timing_database import TimingDatabase
from sim.costs.timing_file import COLUMNS, timing_rows
from sim.device_kind import DEVICE_KINDS
from sim.space import SoapSpace

BYTES_PER_KB = 1000

TASK_REPEATS = 100
"""Iterations from which the executor's own time for a task follows."""


@application("profile_operators")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Time every part shape that the model's space needs and the database lacks."""
    if type(cfg.num_threads) is not int or cfg.num_threads < 1:
        raise OptionError("num_threads", f"{cfg.num_threads!r} is not a whole number from 1 on")
    space, folder = make_space(cfg), RunFolder()
    kind = device_kind(cfg)
    console = Console(stderr=True)
    with TimingDatabase(cfg.database) as database:
        for dtype in list_of(cfg, "dtypes", str):
            profiler = Profiler(
                device=cfg.device,
                device_kind=kind,
                num_threads=cfg.num_threads,
                dtype=dtype,
                options=construct(cfg, "profiler"),
            )
            measurements = all_measurements(space, profiler, list_of(cfg, "update_kb", int))
            known = database.keys(profiler.platform)
            left = {key: measure for key, measure in measurements.items() if key not in known}
            measure_all(left, database, profiler, console)
            timings = database.timings().get(profiler.platform, {})
            timings = {key: timings[key] for key in measurements if key in timings}
            folder.write_csv(f"timings_{dtype}.csv", COLUMNS, timing_rows({profiler.platform: timings}))
            print_summary(timings, len(measurements), len(left), title=str(profiler.platform))
    Console().print(f"database {cfg.database}, files in {folder.label}", soft_wrap=True)


def all_measurements(space: SoapSpace, profiler: Profiler, update_kb: list[int]) -> dict[str, Callable[[], Timing]]:
    """What the model's space needs: under each key, what measures it."""
    measurements: dict[str, Callable[[], Timing]] = {TASK_KEY: partial(time_tasks, profiler, num_repeats=TASK_REPEATS)}
    for size in update_kb:
        measurements[update_key(size * BYTES_PER_KB)] = partial(profiler.time_update, size * BYTES_PER_KB)
    for shape in part_shapes(space.graph, space):
        measurements[shape.key] = partial(profiler.time_part, space.graph, shape.operator, shape.degrees)
    return measurements


def measure_all(
    measurements: Mapping[str, Callable[[], Timing]], database: TimingDatabase, profiler: Profiler, console: Console
) -> None:
    """Measure what no other process measures; each result is stored at once."""
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(measurements))
        for key, measure in measurements.items():
            progress.update(task, description=describe(key))
            if database.claim(profiler.platform, key):
                database.add(profiler.platform, {key: measure()})
            progress.advance(task)
        progress.update(task, description=profiler.platform.dtype)


def print_summary(timings: Mapping[str, Timing], num_needed: int, num_measured: int, *, title: str) -> None:
    """The times by kind of operator, on stdout."""
    by_kind: dict[str, list[Timing]] = {}
    for key, timing in timings.items():
        by_kind.setdefault(kind_of(key), []).append(timing)
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("kind")
    for column in ("parts", "forward, us", "backward, us", "deviation"):
        table.add_column(column, justify="right")
    for kind, found in sorted(by_kind.items()):
        deviations = sorted(timing.forward_variance**0.5 / max(1.0, timing.forward_ns) for timing in found)
        table.add_row(
            kind,
            str(len(found)),
            spread([timing.forward_ns for timing in found]),
            spread([timing.backward_ns for timing in found]),
            f"{deviations[len(deviations) // 2]:.0%}",
        )
    console = Console()
    console.print(table)
    console.print(f"{num_needed} needed, {num_needed - num_measured} known before", highlight=False)
    if len(timings) < num_needed:
        console.print(f"{num_needed - len(timings)} are being measured by other processes", highlight=False)


def spread(times_ns: list[float]) -> str:
    """The least and the greatest of some times, in us."""
    low, high = min(times_ns) / 1000, max(times_ns) / 1000
    return f"{low:,.0f}" if len(times_ns) == 1 else f"{low:,.0f} to {high:,.0f}"


def device_kind(cfg: DictConfig) -> str:
    """What topologies call the device.

    Raises:
        OptionError: nothing known is part of the GPU's name.
    """
    if cfg.device_kind is not None:
        return str(cfg.device_kind)
    name = device_name(cfg.device)
    if cfg.device == "cpu":
        return "cpu"
    for kind in DEVICE_KINDS:
        if kind in name.lower():
            return kind
    raise OptionError("device_kind", f"say what topologies call '{name}'")


def list_of(cfg: DictConfig, key: str, kind: type) -> list[Any]:
    """A list of the configuration.

    Raises:
        OptionError: it is something else.
    """
    values = resolved(cfg)[key]
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        raise OptionError(key, f"{values!r} is not a list of {'texts' if kind is str else 'whole numbers'}")
    return values


if __name__ == "__main__":
    main()
