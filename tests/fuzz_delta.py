"""Long fuzzing of the delta simulation: ``python -m tests.fuzz_delta 1000000 --seed 0``.

Random problems (graphs, topologies, times with zeros and ties, synchronisation, spaces) are walked by chains that
accept nearly everything or about half, some of them with cutoff; after every proposal the whole timeline must equal
that of a full simulation.
"""

import argparse
from random import Random

import numpy as np
from rich.console import Console
from rich.progress import track

from sim.chain import Chain
from sim.kernels.layout import NUM_STRETCHES
from tests.support.random_problems import random_problem

PROPOSALS_PER_PROBLEM = 250
HOT, COLD = 10.0, 0.1
"""Temperatures in units of the start's cost: nearly all proposals are accepted, or half of them are not."""


def check_problem(seed: int, proposals: int) -> int:
    """Walk one random problem; returns how many stretches of the timeline were shifted instead of simulated.

    Raises:
        AssertionError: delta and full simulation differ.
    """
    random = Random(seed)
    problem = random_problem(random, max_operators=random.choice([6, 20]))
    rng = np.random.default_rng(seed)
    start = problem.simulation(problem.space.sample_strategy(rng))
    temperature = random.choice([HOT, COLD]) * start.cost_ns
    chain = Chain(start, rng, temperature_ns=temperature, has_cutoff=random.random() < 0.5)
    full, num_stretches = start.fork(), 0
    for number in range(proposals):
        chain.walk(1)
        full.restart(chain.simulation.strategy)
        delta = chain.simulation
        num_stretches += int(delta.state.num[NUM_STRETCHES])
        values = [
            (*s.timeline_arrays(), s.memory_bytes, s.busy_ns, [s.cost_ns, s.communication_bytes]) for s in (delta, full)
        ]
        same = all(np.array_equal(mine, theirs) for mine, theirs in zip(*values, strict=True))
        assert same, f"seed {seed}, proposal {number}: delta and full simulation differ"
    return num_stretches


def main() -> None:
    """Fuzz as many proposals as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proposals", type=int)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    num_problems = -(-arguments.proposals // PROPOSALS_PER_PROBLEM)
    console = Console(stderr=True)
    num_stretches = sum(
        check_problem(arguments.seed * num_problems + number, PROPOSALS_PER_PROBLEM)
        for number in track(range(num_problems), "fuzzing", console=console)
    )
    proposals = f"{num_problems * PROPOSALS_PER_PROBLEM:,} proposals of {num_problems:,} problems"
    console.print(f"{proposals}, {num_stretches:,} stretches shifted: all equal")


if __name__ == "__main__":
    main()
