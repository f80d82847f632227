"""Where a change has worn off the accepted timeline is shifted, not simulated, and nothing else is different."""

from random import Random

import numpy as np
import pytest
from random_problems import random_problem
from snapshot import recomputed, simulated

from sim.chain import Chain
from sim.graph_builder import GraphBuilder
from sim.kernels.layout import FIRST_PLACE, NUM_SHIFTED, NUM_STRETCHES, NUM_TASKS, SHIFT
from sim.models.inception_v3 import inception_v3
from sim.models.nmt import nmt
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategies import named_strategy
from sim.strategy import ParallelConfig, Strategy
from sim.sync import Sync
from sim.topology import load_topology

P100 = {n: load_topology("p100_cluster", num_devices=n) for n in (4, 8)}
SMALL_NMT = nmt(num_devices=8, batch_per_device=2, steps=8, steps_per_op=1, hidden=16, vocabulary=32)
SMALL_INCEPTION = inception_v3(num_devices=4, batch_per_device=1)


def stretches(simulation: Simulation) -> list[tuple[int, int, int]]:
    """First place, number of tasks and shift in ns of each stretch of the last proposal."""
    count = simulation.state.num[NUM_STRETCHES]
    return [tuple(row) for row in simulation.state.stretch[:count, [FIRST_PLACE, NUM_SHIFTED, SHIFT]].tolist()]


def layers(count: int) -> OperatorGraph:
    """One layer behind the other."""
    builder = GraphBuilder("layers")
    tensor = builder.linear("linear0", (64, 64), 64)
    for number in range(1, count):
        tensor = builder.linear(f"linear{number}", tensor, 64)
    return builder.build()


@pytest.mark.parametrize("scheme", ["ring", "parameter_server"])
@pytest.mark.parametrize("start", ["random", "data_parallel"])
@pytest.mark.parametrize(("graph", "num_devices"), [(SMALL_NMT, 8), (SMALL_INCEPTION, 4)], ids=["nmt", "inception_v3"])
def test_a_walk_through_stretches_ends_in_the_timeline_of_the_oracle(
    graph: OperatorGraph, num_devices: int, start: str, scheme: str
) -> None:
    problem = Problem(graph, P100[num_devices], sync=Sync(scheme=scheme))  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    simulation = problem.simulation(named_strategy(start, problem, rng))
    chain = Chain(simulation, rng, temperature_ns=0.01 * problem.data_parallel_ns)
    shifts = []
    for _ in range(60):
        chain.walk(1)
        shifts += [shift for _, length, shift in stretches(chain.simulation) if length >= 8]

    assert simulated(chain.simulation) == recomputed(problem, chain.simulation.strategy)
    assert len(shifts) > 10
    assert len(set(shifts)) > 5


def test_every_random_problem_has_the_timeline_of_full_simulation_after_stretches() -> None:
    num_stretches = 0
    for seed in range(12):
        problem = random_problem(Random(seed), max_operators=25)
        rng = np.random.default_rng(seed)
        simulation = problem.simulation(problem.space.sample_strategy(rng))
        chain = Chain(simulation, rng, temperature_ns=simulation.cost_ns, has_cutoff=False)
        full = simulation.fork()
        for _ in range(100):
            chain.walk(1)
            num_stretches += len(stretches(chain.simulation))
            full.restart(chain.simulation.strategy)

            assert simulated(chain.simulation) == simulated(full)

    assert num_stretches > 100


SPLIT = ParallelConfig((2, 1), (0, 1))


def on_one_device() -> Simulation:
    """Forty layers behind each other, all on one device."""
    problem = Problem(layers(40), P100[4])
    return problem.simulation(Strategy(problem.graph, problem.topology, [ParallelConfig((1, 1), (0,))] * 40))


def test_what_follows_a_change_on_one_device_is_shifted_to_the_end() -> None:
    simulation = on_one_device()
    simulation.propose(20, SPLIT)
    *_, (place, length, shift) = stretches(simulation)
    old_ns, num_tasks = simulation.cost_ns, int(simulation.state.num[NUM_TASKS])
    simulation.accept()

    assert place + length == num_tasks
    assert simulation.cost_ns == old_ns + shift
    assert simulation.num_simulated_tasks < 40
    assert simulated(simulation) == recomputed(simulation.problem, simulation.strategy)


def test_the_cutoff_of_what_is_shifted_is_exact() -> None:
    simulation = on_one_device()
    cost_ns = simulation.propose(20, SPLIT).cost_ns

    assert not simulation.propose(20, SPLIT, cost_ns).is_cutoff
    assert len(stretches(simulation)) > 0
    assert simulation.propose(20, SPLIT, cost_ns - 1) == (cost_ns, 0, True)
