"""profile_hops: what the executor adds between two tasks whose devices differ, message included."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from runtime.launch import Ranks
from runtime.options import RankOptions, RunOptions
from sim.costs.table import TableCost
from sim.graph_builder import GraphBuilder
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.topology import load_topology

NUM_COLUMNS = 64
"""Of the tensors in a chain of operators that compute next to nothing."""

BYTES_PER_ELEMENT = 4

SHORT, LONG = 4, 20
"""Operators of two chains; what the longer one takes beyond the shorter one belongs to its tasks and hops alone."""


@dataclass(frozen=True, slots=True)
class HopTimes:
    """Times from the end of a task to the start of the next one, beyond what they are with all on one rank, ns.

    Attributes:
        num_bytes: of each message.
        whole_ns: a tensor is needed on the other rank.
        split_ns: each of two ranks has half of the rows and needs half of the columns: two messages at once, and
            tensors put together.
    """

    num_bytes: int
    whole_ns: float
    split_ns: float


def profile_hops(
    *, num_ranks: int, pairs: Sequence[tuple[int, int]], sizes: Sequence[int], num_repeats: int, options: RankOptions
) -> dict[tuple[int, int], tuple[HopTimes, ...]]:
    """Time hops: packing, sending, waking up, unpacking, putting together.

    A chain of ReLUs runs forward and backward, once with hops between all operators and once without any.

    Args:
        num_ranks: processes.
        pairs: of ranks.
        sizes: of messages, bytes.
        num_repeats: iterations of each chain.
        options: of the ranks.

    Returns:
        For each pair and size; at least 0.
    """
    with Ranks(num_ranks=num_ranks, options=options) as ranks:
        return {pair: tuple(_hop(ranks, pair, size, num_repeats) for size in sizes) for pair in pairs}


def _hop(ranks: Ranks, pair: tuple[int, int], num_bytes: int, num_repeats: int) -> HopTimes:
    first, second = pair
    there, here = ParallelConfig((1, 1), (second,)), ParallelConfig((1, 1), (first,))
    rows, columns = ParallelConfig((2, 1), pair), ParallelConfig((1, 2), pair)

    def added_ns(num_rows: int, changing: Sequence[ParallelConfig], staying: ParallelConfig) -> float:
        apart, together = (
            _length_ns(ranks, LONG, num_rows, configs, num_repeats)
            - _length_ns(ranks, SHORT, num_rows, configs, num_repeats)
            for configs in (changing, (staying, staying))
        )
        # Each operator has one hop forward and one backward.
        return max(0.0, (apart - together) / (2 * (LONG - SHORT)))

    num_rows = max(2, num_bytes // (BYTES_PER_ELEMENT * NUM_COLUMNS))
    # A rank that has half of the rows sends half of these.
    split_ns = added_ns(4 * num_rows, (rows, columns), rows)
    return HopTimes(num_rows * NUM_COLUMNS * BYTES_PER_ELEMENT, added_ns(num_rows, (here, there), here), split_ns)


def _length_ns(ranks: Ranks, length: int, num_rows: int, configs: Sequence[ParallelConfig], num_repeats: int) -> float:
    """Median time of an iteration of a chain whose operators take two configs in turn, ns."""
    builder = GraphBuilder("chain")
    x = builder.linear("linear", (num_rows, 2), NUM_COLUMNS)
    for number in range(length):
        x = builder.relu(f"relu{number}", x)
    graph = builder.build()
    times: Mapping[str, Mapping[tuple[int, ...], tuple[int, int]]]
    times = {operator.name: {(1, 1): (1, 1), (2, 1): (1, 1), (1, 2): (1, 1)} for operator in graph.operators}
    topology = load_topology("cpu_host", num_devices=ranks.num_ranks, num_cores=ranks.num_ranks)
    problem = Problem(graph, topology, cost=TableCost(times=times))
    strategy = Strategy(graph, topology, [configs[number % 2] for number in range(len(graph))])
    result = ranks.run(problem, strategy, options=RunOptions(num_iterations=2 + num_repeats))
    return median(result.wall_ms[2:]) * 1e6
