"""Times of a model's parts on this machine: ``python experiments/profile_operators.py model=lenet num_devices=2``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeAlias

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from experiments.application import application
from experiments.construct import construct, resolved
from experiments.errors import OptionError
from experiments.problem import make_space
from experiments.profile_summary import Profile, print_summary
from experiments.run_folder import RunFolder
from runtime.neighbours import Neighbours
from runtime.profiler import Job, Profiler, ProfilerOptions, device_name
from runtime.task_overhead import time_tasks
from sim.costs.part_shape import describe, part_key, part_shapes
from sim.costs.timing import TASK_KEY, Timing, update_key
from sim.costs.timing_database import TimingDatabase
from sim.costs.timing_file import COLUMNS, timing_rows
from sim.device_kind import DEVICE_KINDS
from sim.flows import weight_interval
from sim.operator_graph import BYTES_PER_ELEMENT, Operator, OperatorGraph
from sim.space import SoapSpace
from sim.strategy import ParallelConfig

BYTES_PER_KB = 1000

TASK_REPEATS = 100
"""Iterations from which the executor's own time for a task follows."""


Measurement: TypeAlias = tuple[tuple[str, ...], Callable[[], dict[str, Timing]]]
"""Keys, and what measures them."""


@application("profile_operators")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Time every part shape that the model's space needs and the database lacks."""
    space, folder, console = checked_space(cfg), RunFolder(), Console(stderr=True)
    with TimingDatabase(cfg.database) as database:
        for dtype in list_of(cfg, "dtypes", str):
            found = profile_space(cfg, space, database, dtype=dtype, console=console)
            folder.write_csv(f"timings_{dtype}.csv", COLUMNS, timing_rows({found.platform: found.timings}))
            print_summary(found, space)
    Console().print(f"database {cfg.database}, files in {folder.label}", soft_wrap=True)


def checked_space(cfg: DictConfig) -> SoapSpace:
    """The model's space.

    Raises:
        OptionError: the number of threads is something else.
    """
    if type(cfg.num_threads) is not int or cfg.num_threads < 1:
        raise OptionError("num_threads", f"{cfg.num_threads!r} is not a whole number from 1 on")
    return make_space(cfg)


def profile_space(
    cfg: DictConfig, space: SoapSpace, database: TimingDatabase, *, dtype: str, console: Console
) -> Profile:
    """Time what a space needs in one dtype and the database lacks.

    Args:
        cfg: the configuration.
        space: of the model.
        database: gets each time at once.
        dtype: one of the configuration's.
        console: shows how far it is.
    """
    profiler = Profiler(
        device=cfg.device,
        device_kind=device_kind(cfg),
        num_threads=cfg.num_threads,
        dtype=dtype,
        options=construct(cfg, "profiler"),
    )
    measurements = all_measurements(space, profiler, list_of(cfg, "update_kb", int), in_company=in_company(cfg))
    needed = {key: None for keys, _ in measurements for key in keys}
    num_known = len(needed.keys() & database.keys(profiler.platform))
    neighbours = make_neighbours(cfg, profiler, num_devices=space.topology.num_devices)
    with closing(neighbours) as profiler.neighbours:
        measure_all(measurements, database, profiler, console)
    timings = database.timings().get(profiler.platform, {})
    timings = {key: timings[key] for key in needed if key in timings}
    return Profile(profiler.platform, timings, len(needed), num_known)


def make_neighbours(cfg: DictConfig, profiler: Profiler, *, num_devices: int) -> Neighbours:
    """Processes that compute beside what is timed, as many as there are other devices, as far as there are cores.

    Raises:
        OptionError: the configuration gives something else than a number.
    """
    num = cfg.neighbours
    if num is None:
        num = num_devices - 1 if cfg.device == "cpu" else 0
    if type(num) is not int or num < 0:
        raise OptionError("neighbours", f"{num!r} is not a whole number from 0 on")
    return Neighbours(
        num_neighbours=num,
        num_threads=cfg.num_threads,
        make_worker=partial(worker, cfg.num_threads, profiler.platform.dtype, profiler.options),
    )


def worker(num_threads: int, dtype: str, options: ProfilerOptions) -> Callable[[Job], Callable[[], Any]]:
    """What a neighbour does with a job."""
    return Profiler(device="cpu", device_kind="", num_threads=num_threads, dtype=dtype, options=options).repetition


def all_measurements(
    space: SoapSpace, profiler: Profiler, update_kb: list[int], *, in_company: bool
) -> list[Measurement]:
    """What the model's space needs: keys, and what measures them.

    Args:
        space: of the model.
        profiler: of the platform.
        update_kb: sizes of updates.
        in_company: all operators have a part in each measurement of parts, else each part is measured by itself.
    """
    measurements: list[Measurement] = [((TASK_KEY,), partial(timed_tasks, profiler))]
    for size in [] if in_company else update_kb:
        measurements.append(((update_key(size * BYTES_PER_KB),), partial(timed_update, profiler, size * BYTES_PER_KB)))
    if in_company:
        rounds = company_rounds(space)
    else:
        rounds = [{shape.operator: shape.degrees} for shape in part_shapes(space.graph, space)]
    for shapes in rounds:
        keys = {part_key(space.graph.operators[p], degrees): None for p, degrees in shapes.items()}
        if in_company:
            sizes = (part_weight_bytes(space.graph.operators[p], degrees) for p, degrees in shapes.items())
            keys |= {update_key(size * profiler.itemsize // BYTES_PER_ELEMENT): None for size in sizes if size}
        measurements.append((tuple(keys), partial(timed_parts, profiler, space.graph, shapes)))
    return measurements


def part_weight_bytes(operator: Operator, degrees: tuple[int, ...]) -> int:
    """Weights of one part, in fp32; 0 if it has none."""
    if operator.weight is None:
        return 0
    low, high = weight_interval(operator, ParallelConfig(degrees, (0,)), 0)
    return (high - low) * operator.weight.elements_per_unit * BYTES_PER_ELEMENT


def company_rounds(space: SoapSpace) -> list[dict[int, tuple[int, ...]]]:
    """Degrees for each operator, round by round, until all have had all of theirs."""
    degrees = [space.degree_tuples(position) for position in range(len(space.graph))]
    num_rounds = max(map(len, degrees))
    return [{p: tuples[number % len(tuples)] for p, tuples in enumerate(degrees)} for number in range(num_rounds)]


def timed_tasks(profiler: Profiler) -> dict[str, Timing]:
    """The executor's own time for a task, under its key."""
    return {TASK_KEY: time_tasks(profiler, num_repeats=TASK_REPEATS)}


def timed_update(profiler: Profiler, num_bytes: int) -> dict[str, Timing]:
    """The time of an update, under its key."""
    return {update_key(num_bytes): profiler.time_update(num_bytes)}


def timed_parts(profiler: Profiler, graph: OperatorGraph, shapes: dict[int, tuple[int, ...]]) -> dict[str, Timing]:
    """The times of parts and their weights' updates under their keys; where several have one key, the median one's."""
    by_key: dict[str, list[Timing]] = {}
    parts, updates = profiler.time_parts(graph, shapes)
    for position, timing in parts.items():
        by_key.setdefault(part_key(graph.operators[position], shapes[position]), []).append(timing)
    for num_bytes, timing in updates:
        by_key.setdefault(update_key(num_bytes), []).append(timing)
    for timings in by_key.values():
        timings.sort(key=lambda timing: timing.forward_ns + timing.backward_ns)
    return {key: timings[(len(timings) - 1) // 2] for key, timings in by_key.items()}


def measure_all(
    measurements: Sequence[Measurement], database: TimingDatabase, profiler: Profiler, console: Console
) -> None:
    """Measure what is not known and what no other process measures; each result is stored at once."""
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(measurements))
        for keys, measure in measurements:
            progress.update(task, description=describe(keys[0]) + (f" and {len(keys) - 1} more" if keys[1:] else ""))
            claimed = [key for key in keys if database.claim(profiler.platform, key)]
            if claimed:
                timings = measure()
                database.add(profiler.platform, {key: timings[key] for key in claimed})
            progress.advance(task)
        progress.update(task, description=profiler.platform.dtype)


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


def in_company(cfg: DictConfig) -> bool:
    """Whether parts are timed in one another's company: on a CPU, unless the configuration says otherwise.

    Raises:
        OptionError: it says something else.
    """
    if cfg.in_company not in (None, True, False):
        raise OptionError("in_company", f"{cfg.in_company!r} is not true, false or null")
    return bool(cfg.device == "cpu" if cfg.in_company is None else cfg.in_company)


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
