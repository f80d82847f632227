"""How fast the batched environment is: ``python experiments/benchmark_environment.py``; all else should be quiet."""

import os
import platform
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track
from rich.table import Table

from experiments.application import application
from experiments.benchmark_simulator import make_problem
from experiments.construct import construct, resolved
from experiments.environment_speed import PARTS, EnvironmentSpeed, measure_environment, measure_training
from experiments.errors import OptionError
from experiments.model_named import model_named
from experiments.run_folder import RunFolder

FORMAT_VERSION = 1
TABLE_WIDTH = 120


@application("benchmark_environment")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Measure all streams; print a table and write it as JSON."""
    options, folder = resolved(cfg), RunFolder()
    for key in ("num_envs", "steps"):
        if type(options[key]) is not int or options[key] < 1:
            raise OptionError(key, f"{options[key]!r} is not a whole number from 1 on")
    for kind in options["actions"]:
        if kind not in ("random", "keep", "ppo"):
            raise OptionError("actions", f"{kind!r} is none of random, keep, ppo")
    for model in options["models"]:
        model_named(model, option="models")  # refuses before anything is measured
    cases = [
        (model, count, kind, threads)
        for model in options["models"]
        for count in options["num_devices"]
        for kind in options["actions"]
        for threads in options["num_threads"]
    ]
    speeds: list[EnvironmentSpeed] = []
    for case in track(cases, "measuring", console=Console(stderr=True)):
        speeds.append(measured(cfg, options, *case))
        folder.write_json("benchmark.json", document(speeds, options))  # what is done stays if the rest is stopped
    console = Console()
    Console(width=max(console.width, TABLE_WIDTH)).print(speed_table(speeds), f"files in {folder.label}")


def measured(cfg: DictConfig, options: dict[str, Any], model: str, count: int, kind: Any, threads: int) -> Any:
    """One row of the table, on a problem of its own."""
    problem = make_problem(model, count, options)
    if kind == "ppo":
        given = {"num_envs": options["num_envs"], "num_threads": threads}
        agent = construct(cfg, "agent", **given)(seed=options["seed"])
        return measure_training(problem, model, agent, **given, simulations=options["training_simulations"])
    given = {key: options[key] for key in ("num_envs", "steps", "seed")}
    return measure_environment(problem, model, kind, **given, num_threads=threads)


def document(speeds: list[EnvironmentSpeed], options: dict[str, Any]) -> dict[str, Any]:
    """What benchmark.json holds."""
    packages = ("numba", "numpy", "stable-baselines3", "sb3-contrib", "torch")
    return {
        "format_version": FORMAT_VERSION,
        "command": " ".join([Path(sys.executable).name, *sys.argv]),
        "options": options,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "streams": [asdict(speed) | {"steps_per_s": speed.steps_per_s} for speed in speeds],
    }


def speed_table(speeds: list[EnvironmentSpeed]) -> Table:
    """A table for the terminal."""
    table = Table(title="Soap-v0: steps a second, and where the time goes", title_justify="left", title_style="bold")
    for column in ("model", "devices", "actions", "episodes", "threads", "steps/s", *PARTS, "rest"):
        table.add_column(column, justify="left" if column in ("model", "actions") else "right")
    for speed in speeds:
        shares = [*speed.shares.values(), 1 - sum(speed.shares.values())]
        table.add_row(
            speed.model,
            str(speed.num_devices),
            speed.actions,
            str(speed.num_envs),
            str(speed.num_threads),
            f"{speed.steps_per_s:,.0f}",
            *(f"{share:.0%}" if share >= 0.005 else "" for share in shares),
        )
    return table


if __name__ == "__main__":
    main()
