"""One search: ``python experiments/run.py agent=mcmc model=nmt``; ``--help`` lists all groups."""

import sys
from dataclasses import astuple
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from agents.budget import Progress
from experiments.application import EXIT_INTERRUPTED, application
from experiments.construct import construct, resolved
from experiments.explanation import explain
from experiments.problem import make_problem
from experiments.progress import ProgressDisplay
from experiments.record import make_record
from experiments.result_table import named_simulations, print_result
from experiments.run_folder import RunFolder, write_whole
from experiments.strategy_picture import strategy_picture
from sim.task_graph_builder import build_task_graph
from sim.timeline import write_timeline


@application("config")
def main(cfg: DictConfig) -> None:
    """Search a strategy with one agent and write what it found."""
    problem, budget = make_problem(cfg), construct(cfg, "budget")
    agent = construct(cfg, "agent")(seed=cfg.seed)
    folder, tracker = RunFolder(), construct(cfg, "tracker")
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

        result = agent.search(problem, budget, report)
    best = problem.simulation(result.strategy)
    record = make_record(cfg, problem, best, result)
    # The record comes last: a folder that has one is complete.
    result.strategy.save(folder / "strategy.json")
    folder.write_csv("curve.csv", ("simulations", "seconds", "best_ms"), map(astuple, result.curve))
    task_graph = build_task_graph(problem, result.strategy)
    assert task_graph.simulate() == result.cost_ns == best.cost_ns, "full and delta simulation differ"
    write_timeline(task_graph, folder / "timeline.json")
    write_whole(folder / "strategy.svg", strategy_picture(result.strategy))
    folder.write_json("breakdown.json", explain(problem, task_graph).to_dict())
    folder.write_json("record.json", record.to_dict())
    print_result(record, named_simulations(problem) | {job_type: best}, folder=folder.label)
    tracker.finish(record.to_dict(), [folder / "strategy.json", folder / "timeline.json"])
    if result.is_interrupted:
        raise SystemExit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
