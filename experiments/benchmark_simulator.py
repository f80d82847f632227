"""How fast the simulator is: ``python experiments/benchmark_simulator.py``; one core, all else should be quiet."""

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
from experiments.construct import check_options, resolved
from experiments.errors import OptionError
from experiments.model_named import model_named
from experiments.run_folder import RunFolder
from experiments.simulator_speed import SimulatorSpeed, measure_speed
from sim.problem import Problem
from sim.space import SoapSpace
from sim.sync import Sync
from sim.topology import load_topology

DEVICES_PER_NODE = 4
FORMAT_VERSION = 1
TABLE_WIDTH = 132


@application("benchmark_simulator")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Measure all streams; print a table and write it as JSON."""
    options, folder = resolved(cfg), RunFolder()
    for key in ("proposals", "rebuilds"):
        if type(options[key]) is not int or options[key] < 1:
            raise OptionError(key, f"{options[key]!r} is not a whole number from 1 on")
    for model in options["models"]:
        model_named(model, option="models")  # refuses before anything is measured
    cases = [(model, count) for model in options["models"] for count in options["num_devices"]]
    speeds: list[SimulatorSpeed] = []
    for model, count in track(cases, "measuring", console=Console(stderr=True)):
        problem = make_problem(model, count, options)
        label = " ".join([model, *(f"{key}={value}" for key, value in options["model_options"].items())])
        keys = ("temperature", "proposals", "rebuilds", "seed")
        speeds += [
            measure_speed(problem, label, start, **{key: options[key] for key in keys}) for start in options["starts"]
        ]
        folder.write_json("benchmark.json", document(speeds, options))  # what is done stays if the rest is stopped
    console = Console()
    Console(width=max(console.width, TABLE_WIDTH)).print(speed_table(speeds), f"files in {folder.label}")


def make_problem(model: str, num_devices: int, options: dict[str, Any]) -> Problem:
    """A model on a cluster that is as large as needed."""
    constructor = model_named(model, option="models")
    check_options(constructor, options["model_options"], prefix="model_options.")
    num_nodes = max(1, -(-num_devices // DEVICES_PER_NODE))
    topology = load_topology(options["topology"], num_devices=num_devices, num_nodes=num_nodes)
    graph = constructor(num_devices=num_devices, **options["model_options"])
    space = SoapSpace(graph, topology, variant=options["space"])
    return Problem(graph, topology, space=space, sync=Sync(scheme=options["sync"]))


def document(speeds: list[SimulatorSpeed], options: dict[str, Any]) -> dict[str, Any]:
    """What benchmark.json holds."""
    versions = {"python": platform.python_version()} | {name: version(name) for name in ("numba", "numpy")}
    derived = ("speedup", "paper_speedup", "r22_speedup")
    return {
        "format_version": FORMAT_VERSION,
        "command": " ".join([Path(sys.executable).name, *sys.argv]),
        "options": options,
        "versions": versions,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "streams": [asdict(speed) | {name: getattr(speed, name) for name in derived} for speed in speeds],
    }


def speed_table(speeds: list[SimulatorSpeed]) -> Table:
    """A table for the terminal."""
    table = Table(title="CPU time of a priced strategy, us", title_justify="left", title_style="bold")
    for column in ("model", "devices", "start"):
        table.add_column(column, justify="left" if column != "devices" else "right")
    for column in ("tasks", "full", "delta", "+ cutoff", "full/delta", "full/cutoff", "paper", "per s", "r22.07 x"):
        table.add_column(column, justify="right")
    table.add_column("touched", justify="right")
    table.add_column("MB", justify="right")
    for speed in speeds:
        paper, r22 = speed.paper_speedup, speed.r22_speedup
        table.add_row(
            speed.model,
            str(speed.num_devices),
            speed.start,
            f"{speed.num_tasks:,.0f}",
            f"{speed.full_us:,.0f}",
            f"{speed.delta_us:,.0f}",
            f"{speed.cutoff_us:,.1f}",
            f"{speed.full_us / speed.delta_us:.1f}",
            f"{speed.speedup:.1f}",
            "" if paper is None else f"{paper:.1f}",
            f"{1e6 / speed.cutoff_us:,.0f}",
            "" if r22 is None else f"{r22:.1f}",
            f"{speed.simulated_tasks:,.0f}",
            f"{speed.state_bytes / 1e6:.1f}",
        )
    return table


if __name__ == "__main__":
    main()
