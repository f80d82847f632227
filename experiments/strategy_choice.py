"""choose_strategies: the strategies that a user names, those of finished searches, and a sample over good and bad."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.comparison.found_run import Status, read_run
from experiments.errors import OptionError
from sim.chain import Chain
from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategies import STRATEGY_NAMES, named_strategy
from sim.strategy import Strategy

NUM_RANDOM = 100
NUM_WALKS, NUM_CLIMBS = 4, 2
WALK_STOPS, STOP_PROPOSALS = 40, 12
WALK_TEMPERATURE = 0.002
"""Of data parallelism's cost: walks go down, but not into the first hole."""


def choose_strategies(
    problem: Problem, *, strategies: Sequence[str], runs: Sequence[str], num_sampled: int, seed: int
) -> dict[str, Strategy]:
    """Strategies by the names that people know them by.

    Args:
        problem: what they are for.
        strategies: names and files; whatever ends in .json is a file.
        runs: folders of finished searches.
        num_sampled: strategies to sample besides.
        seed: of the sample and of the strategy called ``random``.

    Raises:
        OptionError: a folder has no finished search.
        SimError: an unknown name, or a file without a strategy for this problem.
    """
    rng = np.random.default_rng(seed)
    chosen = {}
    for name in strategies:
        is_file = name.endswith(".json")
        chosen[name] = (
            Strategy.load(name, problem.graph, problem.topology) if is_file else named_strategy(name, problem, rng)
        )
    for run in runs:
        path = Path(run) / "strategy.json"
        if not path.is_file() or read_run(Path(run)).status not in (Status.FINISHED, Status.INTERRUPTED):
            raise OptionError("run", f"'{run}' is not the folder of a finished search")
        chosen[run] = Strategy.load(path, problem.graph, problem.topology)
    return chosen | (spread_sample(problem, num_sampled, rng) if num_sampled else {})


def spread_sample(problem: Problem, num_sampled: int, rng: np.random.Generator) -> dict[str, Strategy]:
    """Strategies whose simulated times are spread evenly, on a log scale, from the best to the worst that were found.

    The candidates are the named strategies, random ones, and the stops of walks that go down or up from random ones,
    so that there are good, bad and middling ones of many forms.
    """
    # Equal strategies go by the first of their names.
    named = {s.hash: name for name in reversed(STRATEGY_NAMES[:-1]) for s in [named_strategy(name, problem, rng)]}
    found = {strategy.hash: strategy for strategy in (named_strategy(name, problem, rng) for name in named.values())}
    for strategy in (problem.space.sample_strategy(rng) for _ in range(NUM_RANDOM)):
        found[strategy.hash] = strategy
    for number in range(NUM_WALKS + NUM_CLIMBS):
        simulation = problem.simulation(problem.space.sample_strategy(rng))
        chain = Chain(simulation, rng, temperature_ns=WALK_TEMPERATURE * problem.data_parallel_ns)
        for _ in range(WALK_STOPS):
            strategy = simulation.strategy
            found[strategy.hash] = strategy
            if number < NUM_WALKS:
                chain.walk(STOP_PROPOSALS)
            else:
                climb(simulation, rng, STOP_PROPOSALS)
    costs = {key: float(np.log(problem.simulation(strategy).cost_ns)) for key, strategy in found.items()}
    targets = np.linspace(min(costs.values()), max(costs.values()), num_sampled)
    chosen: dict[str, Strategy] = {}
    for number, target in enumerate(targets[: len(found)], start=1):
        nearest = min(costs, key=lambda key: (abs(costs[key] - target), key))
        del costs[nearest]
        chosen[named.get(nearest, f"sample {number}")] = found[nearest]
    return chosen


def climb(simulation: Simulation, rng: np.random.Generator, num_proposals: int) -> None:
    """Change one operator after another wherever that makes the strategy no better."""
    problem = simulation.problem
    for _ in range(num_proposals):
        operator, before_ns = int(rng.integers(len(problem.graph))), simulation.cost_ns
        if simulation.propose(operator, problem.space.sample(operator, rng)).cost_ns >= before_ns:
            simulation.accept()
        else:
            simulation.reject()
