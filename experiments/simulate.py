"""The price of one strategy: ``python experiments/simulate.py model=nmt strategy=expert``; or a strategy.json."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from omegaconf import DictConfig

from experiments.application import application
from experiments.problem import make_problem
from experiments.record import make_record
from experiments.result_table import named_simulations, print_result
from experiments.run_folder import RunFolder
from sim.problem import Problem
from sim.strategies import named_strategy
from sim.strategy import Strategy
from sim.task_graph_builder import build_task_graph
from sim.timeline import write_timeline


@application("simulate")
def main(cfg: DictConfig) -> None:
    """Price one strategy and write its timeline and task graph."""
    problem, folder = make_problem(cfg), RunFolder()
    strategy = load_strategy(str(cfg.strategy), problem, seed=cfg.seed)
    simulation = problem.simulation(strategy)
    record = make_record(cfg, problem, simulation)
    task_graph = build_task_graph(problem, strategy)
    assert task_graph.simulate() == simulation.cost_ns, "full and delta simulation differ"
    write_timeline(task_graph, folder / "timeline.json")
    folder.write_json("task_graph.json", task_graph.to_dict())
    folder.write_json("record.json", record.to_dict())  # last: a folder that has one is complete
    name = Path(str(cfg.strategy)).name
    print_result(record, named_simulations(problem) | {name: simulation}, folder=folder.label)


def load_strategy(name_or_path: str, problem: Problem, *, seed: int) -> Strategy:
    """A strategy by its name, or from a file: whatever ends in .json.

    Raises:
        SimError: there is no such name, or the file holds no strategy for this problem.
    """
    if name_or_path.endswith(".json"):
        return Strategy.load(name_or_path, problem.graph, problem.topology)
    return named_strategy(name_or_path, problem, np.random.default_rng(seed))


if __name__ == "__main__":
    main()
