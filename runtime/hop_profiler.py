"""profile_hops: what the executor adds between two tasks whose devices differ, message included."""

from collections.abc import Mapping, Sequence
from statistics import median

from runtime.launch import Ranks
from runtime.options import RankOptions, RunOptions
from sim.costs.table import TableCost
from sim.graph_builder import GraphBuilder
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.topology import load_topology

SIZES = (8, 8)
"""Of the tensors in a chain of operators that compute next to nothing."""

SHORT, LONG = 4, 36
"""Operators of two chains; what the longer one takes beyond the shorter one belongs to its tasks and hops alone."""


def profile_hops(
    *, num_ranks: int, pairs: Sequence[tuple[int, int]], num_repeats: int, options: RankOptions
) -> dict[tuple[int, int], float]:
    """Time from the end of a task to the start of the next one on another rank, for a message of 256 bytes, ns.

    A chain of tiny ReLUs runs forward and backward, once with every operator on the other rank of a pair and once
    with all on one: the difference is packing, sending, waking up and unpacking.

    Args:
        num_ranks: processes.
        pairs: ranks between which the chain goes back and forth.
        num_repeats: iterations of each chain.
        options: of the ranks.

    Returns:
        For each pair; at least 0.
    """
    hops = {}
    with Ranks(num_ranks=num_ranks, options=options) as ranks:
        for first, second in pairs:
            apart, together = (
                _length_ns(ranks, LONG, devices, num_repeats) - _length_ns(ranks, SHORT, devices, num_repeats)
                for devices in ((first, second), (first, first))
            )
            # Each operator has one hop forward and one backward.
            hops[first, second] = max(0.0, (apart - together) / (2 * (LONG - SHORT)))
    return hops


def _length_ns(ranks: Ranks, length: int, devices: tuple[int, int], num_repeats: int) -> float:
    """Median time of an iteration of a chain whose operators take turns on two devices, ns."""
    builder = GraphBuilder("chain")
    x = builder.linear("linear", SIZES, SIZES[1])
    for number in range(length):
        x = builder.relu(f"relu{number}", x)
    graph = builder.build()
    times: Mapping[str, Mapping[tuple[int, ...], tuple[int, int]]]
    times = {operator.name: {(1, 1): (1, 1)} for operator in graph.operators}
    topology = load_topology("cpu_host", num_devices=ranks.num_ranks, num_cores=ranks.num_ranks)
    problem = Problem(graph, topology, cost=TableCost(times=times))
    configs = [ParallelConfig((1, 1), (devices[number % 2],)) for number in range(len(graph))]
    run = RunOptions(num_iterations=2 + num_repeats)
    result = ranks.run(problem, Strategy(graph, topology, configs), options=run)
    return median(result.wall_ms[2:]) * 1e6
