"""Strategies on real ranks, beside their simulation: ``python experiments/validate.py model=lenet sample=12``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track

from experiments.application import EXIT_INTERRUPTED, application
from experiments.construct import check_options, resolved
from experiments.cores import check_cores
from experiments.draw_timeline import texts
from experiments.errors import OptionError
from experiments.paired_timeline import paired_events
from experiments.problem import make_problem
from experiments.record import PACKAGES, commit
from experiments.run_folder import RunFolder
from experiments.strategy_choice import choose_strategies
from experiments.sync import check_sync
from experiments.validation import Measurement, validate
from experiments.validation_report import validation_figure, validation_table
from runtime.errors import RankFailedError
from runtime.launch import Ranks
from runtime.options import RankOptions, RunOptions
from runtime.program import build_program
from sim.problem import Problem

FORMAT_VERSION = 1

LEAST = {"sample": 0, "num_rounds": 1, "num_iterations": 1, "warm_ups": 0, "num_threads": 1}


@application("validate")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Run and simulate strategies; write both times, how well they agree, and the timelines."""
    options = checked(cfg)
    problem = make_problem(cfg)
    check_cores(
        "num_devices", problem.topology.num_devices, backend=cfg.backend, oversubscribe=options["oversubscribe"]
    )
    measurements = chosen(cfg, problem, options)
    folder, load = RunFolder(), os.getloadavg()[0]
    end: KeyboardInterrupt | RankFailedError | None = None
    try:
        measure(problem, measurements, options, console=Console(stderr=True))
    except (KeyboardInterrupt, RankFailedError) as error:
        end = error
    if any(measurement.results for measurement in measurements.values()):
        write(cfg, problem, measurements, folder, is_complete=end is None, load=load)
    if isinstance(end, RankFailedError):
        raise end
    if end is not None:
        raise SystemExit(EXIT_INTERRUPTED)


def chosen(cfg: DictConfig, problem: Problem, options: Mapping[str, Any]) -> dict[str, Measurement]:
    """The strategies to be run, by the names that people know them by; nothing is measured yet.

    Raises:
        OptionError: gradients are synchronised otherwise than simulated, or a folder has no finished search.
        SimError: an unknown name, or a file without a strategy for this problem.
        RuntimeRoomError: a strategy that ranks cannot run.
    """
    check_sync(problem.sync)
    strategies = choose_strategies(
        problem,
        strategies=texts("strategy", options["strategy"]),
        runs=texts("run", options["run"]),
        num_sampled=options["sample"],
        seed=cfg.seed,
    )
    for strategy in strategies.values():
        build_program(problem, strategy)  # refuses before anything is started
    return {name: Measurement(strategy, options["warm_ups"]) for name, strategy in strategies.items()}


def measure(
    problem: Problem,
    measurements: Mapping[str, Measurement],
    options: Mapping[str, Any],
    *,
    console: Console,
) -> None:
    """Run all strategies in turn, round by round, so that a machine that slows down slows all of them.

    Args:
        problem: what the strategies are for.
        measurements: get the results.
        options: of the command.
        console: shows how far it is.

    Raises:
        RankFailedError: a rank died; the measurements have what was done before.
    """
    rank_options = RankOptions(backend=options["backend"], num_threads=options["num_threads"], is_pinned=True)
    run_options = RunOptions(num_iterations=options["warm_ups"] + options["num_iterations"])
    turns = [measurement for _ in range(options["num_rounds"]) for measurement in measurements.values()]
    with Ranks(num_ranks=problem.topology.num_devices, options=rank_options) as ranks:
        for measurement in track(turns, f"running {len(measurements)} strategies", console=console):
            measurement.results.append(ranks.run(problem, measurement.strategy, options=run_options))


def write(
    cfg: DictConfig,
    problem: Problem,
    measurements: Mapping[str, Measurement],
    folder: RunFolder,
    *,
    is_complete: bool,
    load: float,
) -> None:
    """Write table, picture, strategies and timelines; validation.json last: a folder that has one is complete."""
    validation = validate(measurements, seed=cfg.seed)
    topology, console = problem.topology, Console()
    title = f"{problem.graph.name} on {topology.num_devices} ranks, {topology.name}"
    names = {comparison.name: number for number, comparison in enumerate(validation.comparisons)}
    for name, number in names.items():
        events = paired_events(*measurements[name].task_graphs)
        content = {"displayTimeUnit": "ms", "otherData": {"strategy": name}, "traceEvents": events}
        folder.write_json(f"timeline_{number:02d}.json", content)
        measurements[name].strategy.save(folder / f"strategy_{number:02d}.json")
    folder.write_png("validation.png", validation_figure(validation, title=title))
    record: dict[str, Any] = {
        "format_version": FORMAT_VERSION,
        "command": sys.argv,
        "configuration": resolved(cfg),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "commit": commit(),
        "model": problem.graph.name,
        "topology": topology.name,
        "num_devices": topology.num_devices,
        "num_cores": len(os.sched_getaffinity(0)),
        "load_average": load,
        "is_complete": is_complete,
        **validation.to_dict(),
    }
    folder.write_json("validation.json", record)
    console.print(validation_table(validation, title=title))
    ending = "" if is_complete else "; not all rounds were run"
    line = f"validation.json, validation.png, {len(names)} timelines and strategies in {folder.label}{ending}"
    console.print(line, highlight=False, soft_wrap=True)


def checked(cfg: DictConfig) -> dict[str, Any]:
    """The configuration, if it can be run.

    Raises:
        OptionError: a value of another type, or no strategy.
    """
    options = resolved(cfg)
    check_options(RankOptions, {"backend": options["backend"]})
    for key, least in LEAST.items():
        if type(options[key]) is not int or options[key] < least:
            raise OptionError(key, f"{options[key]!r} is not a whole number from {least} on")
    if type(options["oversubscribe"]) is not bool:
        raise OptionError("oversubscribe", f"{options['oversubscribe']!r} is not true or false")
    if not (options["sample"] or options["strategy"] or options["run"]):
        raise OptionError("strategy", "give names or files, or run=FOLDER for a search's best, or sample=12")
    return options


if __name__ == "__main__":
    main()
