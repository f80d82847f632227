"""What logging to wandb offline takes of a search: ``python tests/measure_tracking.py [simulations]``."""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agents.budget import Budget, Progress
from agents.mcmc import Mcmc
from experiments.tracker import WandbTracker
from sim.models.nmt import nmt
from sim.problem import Problem
from sim.topology import load_topology

SIMULATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000


def main() -> None:
    """Search NMT on 16 P100s, and add up the time inside the tracker and the time of wandb's own process."""
    problem = Problem(nmt(num_devices=16), load_topology("p100_cluster", num_devices=16))
    agent = Mcmc(
        starts=["data_parallel", "random"], temperature=0.001, patience=0.5, reset_every=None, propagation=0.0, seed=0
    )
    agent.search(problem, Budget(simulations=100))  # compiles
    tracker = WandbTracker(project="measure", mode="offline", init_timeout_s=15.0, finish_timeout_s=60.0)
    spent: list[tuple[float, float]] = []

    def report(progress: Progress) -> None:
        began, began_cpu = time.perf_counter(), time.process_time()
        tracker.log(progress)
        spent.append((time.perf_counter() - began, time.process_time() - began_cpu))

    with tempfile.TemporaryDirectory() as folder:
        tracker.start(group="nmt/p100_cluster", job_type="mcmc", folder=Path(folder), configuration={"seed": 0})
        began_cpu = time.process_time()
        result = agent.search(problem, Budget(simulations=SIMULATIONS), report)
        cpu_seconds = time.process_time() - began_cpu
        record = {
            "simulations": result.simulations,
            "search_seconds": result.seconds,
            "best_ms": result.cost_ns / 1e6,
            "speedup": problem.data_parallel_ns / result.cost_ns,
        }
        tracker.finish(record, result.strategy, [])
        import wandb

        wandb.teardown()  # waits for wandb's process, so that its time is counted
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {
        "simulations": result.simulations,
        "search_seconds": round(result.seconds, 2),
        "points": len(spent),
        "cpu_seconds": round(cpu_seconds, 2),
        "share_of_seconds": round(sum(wall for wall, _ in spent) / result.seconds, 4),
        "share_of_cpu_seconds": round(sum(cpu for _, cpu in spent) / cpu_seconds, 4),
        "share_of_wandb_process": round((children.ru_utime + children.ru_stime) / cpu_seconds, 4),
    }
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
