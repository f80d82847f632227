"""Searches killed (kill -9) at random moments, compared and resumed: ``python tests/kill_searches.py 40 --seed 0``.

After every kill compare.py must read the folder, and ``run.py resume=`` must finish the search with the result of one
that nobody killed: the same strategy, price, counts, configuration and curve.
"""

import argparse
import csv
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.console import Console
from rich.progress import track

from tests.support.killing import SAME, call, kill

SIMULATIONS = {"mcmc": 100_000, "ppo": 3_000, "large_neighbourhood": 60_000, "optcnn": 1}
"""Of each agent: some seconds, but for OptCNN, which prices its only strategy at once."""

MOMENTS = {"": 4.0, ".hydra/hydra.yaml": 1.0, "record.json": 6.0, "curve.csv": 3.0, "timeline.json": 0.3}
"""What is awaited, and how many seconds after it the process is killed at the latest."""

PROBLEM = ("model=nmt", "num_devices=4", "tracker=none")


def overrides(agent: str) -> tuple[str, ...]:
    """Behind run.py."""
    return (f"agent={agent}", f"budget.simulations={SIMULATIONS[agent]}", *PROBLEM)


def result(folder: Path) -> dict[str, Any]:
    """What must not depend on who was killed; seconds do."""
    record = json.loads((folder / "record.json").read_text())
    with (folder / "curve.csv").open(newline="") as file:
        curve = [(row["simulations"], row["best_ms"]) for row in csv.DictReader(file)]
    return {key: record[key] for key in SAME} | {"curve": curve, "strategy": (folder / "strategy.json").read_text()}


def check(root: Path, agent: str, random: Random, whole: dict[str, Any]) -> str:
    """Kill a search once or twice, compare and resume it; returns what state the first kill left.

    Raises:
        AssertionError: a command failed, or the resumed search found something else.
    """
    folder = root / "killed"
    begin = (*overrides(agent), f"hydra.run.dir={folder}")
    again: tuple[str, ...] = begin
    state = ""
    for _ in range(random.choice([1, 1, 2])):
        awaited, longest_s = random.choice(list(MOMENTS.items()))
        is_killed = kill(again, folder=folder, awaited=awaited, delay_s=random.uniform(0, longest_s))
        has_begun = (folder / ".hydra" / "hydra.yaml").is_file()
        compared = call("compare.py", f"runs={root}", f"hydra.run.dir={root}/../compared", folder=root)
        where = f"{agent}, killed after {awaited or 'its start'}"
        # What was killed before Hydra made its folder has left nothing to compare.
        assert compared.returncode == 0 or (not has_begun and "there are no runs" in compared.stderr), compared.stderr
        state = state or (left(folder) if is_killed else "finished before")
        if has_begun and (folder / ".hydra" / "hydra.yaml").stat().st_size:
            again = (f"resume={folder}",)
    resumed = call("run.py", *again, folder=root)
    assert resumed.returncode == 0, f"{where}: {resumed.stderr}"
    assert result(folder) == whole, f"{where}: the resumed search found something else"
    assert not list(folder.glob(".*.tmp")), where
    return state


def left(folder: Path) -> str:
    """How far the search had come."""
    if not (folder / "record.json").is_file():
        return "killed before the search"
    record = json.loads((folder / "record.json").read_text())
    if not record["is_partial"]:
        return "killed after the last file"
    return "killed among the last files" if (folder / "timeline.json").is_file() else "killed in the search"


def main() -> None:
    """Kill as often as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("searches", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    console, random, states = Console(stderr=True), Random(arguments.seed), Counter[str]()
    with tempfile.TemporaryDirectory() as place:
        whole = {}
        for agent in track(SIMULATIONS, "searching undisturbed", console=console):
            folder = Path(place) / agent
            assert call("run.py", *overrides(agent), f"hydra.run.dir={folder}", folder=Path(place)).returncode == 0
            whole[agent] = result(folder)
        for number in track(range(arguments.searches), "killing", console=console):
            agent = list(SIMULATIONS)[number % len(SIMULATIONS)]
            root = Path(place) / str(number) / "runs"
            root.mkdir(parents=True)
            states[check(root, agent, random, whole[agent])] += 1
    sys.stdout.write(json.dumps(dict(states)) + "\n")


if __name__ == "__main__":
    main()
