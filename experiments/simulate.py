"""The price of one strategy, taken apart: ``python experiments/simulate.py model=nmt strategy=expert``.

``other=`` names a second strategy to compare it with; both are names or strategy.json files.
"""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from omegaconf import DictConfig
from rich.console import Console

from experiments.application import application
from experiments.errors import OptionError
from experiments.explanation import explain, explanation_tables
from experiments.problem import make_problem
from experiments.record import make_record
from experiments.result_table import named_simulations, print_result
from experiments.run_folder import RunFolder, write_whole
from experiments.scene import svg_text
from experiments.strategy_diff import diff_scene, diff_strategies, diff_tables
from experiments.strategy_picture import strategy_picture
from sim.problem import Problem
from sim.strategies import named_strategy
from sim.strategy import Strategy
from sim.task_graph_builder import build_task_graph
from sim.timeline import write_timeline


@application("simulate")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Price one strategy, say what it spends its time on, and in what another one differs."""
    if type(cfg.num_explained) is not int or cfg.num_explained < 0:
        raise OptionError("num_explained", f"{cfg.num_explained!r} is not a whole number from 0 on")
    problem, folder, console = make_problem(cfg), RunFolder(), Console()
    strategy = load_strategy(str(cfg.strategy), problem, seed=cfg.seed)
    other = None if cfg.other is None else load_strategy(str(cfg.other), problem, seed=cfg.seed)
    simulation = problem.simulation(strategy)
    record = make_record(cfg, problem, simulation)
    task_graph = build_task_graph(problem, strategy)
    assert task_graph.simulate() == simulation.cost_ns, "full and delta simulation differ"
    explanation = explain(problem, task_graph)
    write_timeline(task_graph, folder / "timeline.json")
    write_whole(folder / "strategy.svg", strategy_picture(strategy))
    folder.write_json("task_graph.json", task_graph.to_dict())
    folder.write_json("breakdown.json", explanation.to_dict())
    simulations = named_simulations(problem) | {label(str(cfg.strategy)): simulation}
    tables = explanation_tables(explanation)
    if other is not None:
        simulations |= {label(str(cfg.other)): problem.simulation(other)}
        with console.status("pricing the differences"):
            names = label(str(cfg.strategy)), label(str(cfg.other))
            diff = diff_strategies(problem, (strategy, other), names=names, num_explained=cfg.num_explained)
        folder.write_json("diff.json", diff.to_dict())
        write_whole(folder / "diff.svg", svg_text(diff_scene(diff)))
        tables = diff_tables(diff)
    folder.write_json("record.json", record.to_dict())  # last: a folder that has one is complete
    print_result(record, simulations, folder=folder.label)
    console.print(tables, soft_wrap=True)


def label(name_or_path: str) -> str:
    """A name, or the last two parts of a path: most files are called strategy.json."""
    return "/".join(Path(name_or_path).parts[-2:])


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
