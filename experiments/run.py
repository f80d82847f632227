"""One search: ``python experiments/run.py agent=mcmc model=nmt``; ``--help`` lists all groups."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from agents.agent import SearchResult
from agents.budget import Progress
from experiments.application import EXIT_INTERRUPTED, application
from experiments.checkpoint import Checkpoint, write_found
from experiments.construct import construct, resolved
from experiments.errors import OptionError
from experiments.explanation import explain
from experiments.previous_run import PreviousRun, next_seed
from experiments.problem import make_problem
from experiments.progress import ProgressDisplay
from experiments.record import NS_PER_MS, Record, make_record
from experiments.result_table import named_simulations, print_result
from experiments.run_folder import RunFolder, write_whole
from experiments.strategy_picture import strategy_picture
from experiments.tracker import Tracker
from sim.problem import Problem
from sim.task_graph_builder import build_task_graph
from sim.timeline import write_timeline

INTERRUPTED = ("restart", "continue")


@application("config")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Search a strategy with one agent and write what it found."""
    if cfg.interrupted not in INTERRUPTED:
        raise OptionError("interrupted", f"{cfg.interrupted!r} is not one of {', '.join(INTERRUPTED)}")
    problem, budget, folder = make_problem(cfg), construct(cfg, "budget"), RunFolder()
    make_agent = construct(cfg, "agent")
    tracker: Tracker = construct(cfg, "tracker")
    previous = PreviousRun.find(folder.path, resolved(cfg))
    if previous is not None and previous.is_finished:
        Console().print(f"finished before: {folder.label}", highlight=False, markup=False, soft_wrap=True)
        return
    earlier = previous.earlier(problem) if previous is not None and cfg.interrupted == "continue" else None
    attempts = previous.attempts + 1 if previous is not None else 1
    history = previous.summary() if previous is not None and earlier else []
    agent = make_agent(seed=next_seed(cfg.seed, attempts) if earlier else cfg.seed)
    unsearched = make_record(cfg, problem, problem.simulation(), attempts=attempts, resumed_from=history)
    checkpoint = Checkpoint(folder, problem, unsearched, earlier)
    model, job_type = (HydraConfig.get().runtime.choices[group] for group in ("model", "agent"))
    tracker.start(
        group=f"{model}/{problem.topology.name}",
        job_type=job_type,
        folder=folder.path,
        configuration=resolved(cfg),
    )
    with ProgressDisplay(f"{job_type} on {model}") as display:

        def report(progress: Progress) -> None:
            display(progress)
            tracker.log(progress)
            checkpoint(progress)

        result = agent.search(problem, budget, report, earlier)
    best = problem.simulation(result.strategy)
    record = make_record(cfg, problem, best, result, attempts=attempts, resumed_from=history)
    write(folder, problem, result, record)
    print_result(record, named_simulations(problem) | {job_type: best}, folder=folder.label)
    tracker.finish(record.to_dict(), result.strategy, [folder / "strategy.json", folder / "timeline.json"])
    if result.is_interrupted:
        raise SystemExit(EXIT_INTERRUPTED)


def write(folder: RunFolder, problem: Problem, result: SearchResult, record: Record) -> None:
    """Write the files of a search that has ended, its record last: one that is not partial has all files beside it."""
    write_found(folder, result)
    task_graph = build_task_graph(problem, result.strategy)
    assert task_graph.simulate() == result.cost_ns == round(record.best_ms * NS_PER_MS), "full and delta differ"
    write_timeline(task_graph, folder / "timeline.json")
    write_whole(folder / "strategy.svg", strategy_picture(result.strategy))
    folder.write_json("breakdown.json", explain(problem, task_graph).to_dict())
    folder.write_json("record.json", record.to_dict())


if __name__ == "__main__":
    main()
