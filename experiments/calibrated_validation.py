"""calibrated_validation: strategies of one model beside their simulation, on a machine that is measured just before."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import hydra
from rich.console import Console

from experiments import profile_links, profile_operators, validate
from experiments.application import with_topology_files
from experiments.problem import make_problem
from experiments.validation import validate as compare_all
from sim.costs.timing_database import TimingDatabase


def calibrated_validation(
    *,
    overrides: str,
    num_ranks: int,
    link_repeats: int,
    max_seconds: float,
    sample: int,
    num_rounds: int,
    num_iterations: int,
    seed: int,
) -> dict[str, Any]:
    """Measure links and operators, then run and simulate a sample of strategies, with nothing in between.

    What a machine takes for an operator changes within a quarter of an hour, so nothing measured earlier is used.

    Args:
        overrides: the model, as behind validate.py.
        num_ranks: processes.
        link_repeats: ``num_repeats`` of profile_links.py.
        max_seconds: ``profiler.max_seconds`` of profile_operators.py.
        sample: strategies.
        num_rounds: all of them in turn, so often.
        num_iterations: of each in each round.
        seed: of the sample.

    Returns:
        What validate.py writes of the times and errors, with the model's name and the number of cores.

    Raises:
        OptionError: a key that a command does not have, or a value of another type.
        SimError: values that contradict each other.
        RankFailedError: a rank died.
    """
    words, quiet = [*overrides.split(), f"num_devices={num_ranks}"], Console(quiet=True)
    runs = [f"sample={sample}", f"num_rounds={num_rounds}", f"num_iterations={num_iterations}", f"seed={seed}"]
    with TemporaryDirectory(prefix="calibration-") as folder:
        links, times = Path(folder) / "links.yaml", Path(folder) / "timings.sqlite"
        _measure_links(links, [f"num_ranks={num_ranks}", f"num_repeats={link_repeats}", "oversubscribe=true"])
        cfg = hydra.compose("profile_operators", [*words, f"profiler.max_seconds={max_seconds}"])
        space = profile_operators.checked_space(cfg)
        with TimingDatabase(str(times)) as database:
            profile_operators.profile_space(cfg, space, database, dtype="fp32", console=quiet)
        measured = [with_topology_files(f"topology={links}"), f"cost.database={times}", "oversubscribe=true"]
        cfg = hydra.compose("validate", [*words, *runs, *measured])
        options, problem = validate.checked(cfg), make_problem(cfg)
        measurements = validate.chosen(cfg, problem, options)
        validate.measure(problem, measurements, options, console=quiet)
    found = compare_all(measurements, seed=seed).to_dict()
    return {"model": problem.graph.name, "num_cores": len(os.sched_getaffinity(0)), **found}


def _measure_links(path: Path, overrides: Sequence[str]) -> None:
    options = profile_links.checked(hydra.compose("profile_links", list(overrides)))
    profile_links.write_topology(path, profile_links.measure_links(options).topology)
