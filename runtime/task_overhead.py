"""time_tasks: what the executor itself does for a task, beside the part's computation."""

from collections.abc import Mapping
from dataclasses import replace
from statistics import median, variance

from runtime.initial_state import RandomData
from runtime.lone_transport import LoneTransport
from runtime.options import RunOptions
from runtime.profiler import Profiler
from runtime.program import build_program
from runtime.rank import Rank
from runtime.stopwatch import CpuStopwatch
from sim.costs.table import TableCost
from sim.costs.timing import Timing
from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.topology import load_topology

SIZES = (8, 8)
"""Of the tensors in a chain of operators that compute next to nothing."""

SHORT, LONG = 16, 80
"""Operators of two chains; what the longer one takes beyond the shorter one belongs to its tasks alone."""


def time_tasks(profiler: Profiler, *, num_repeats: int) -> Timing:
    """The time that a forward and a backward task take in the executor beyond the profiler's, in equal shares.

    Two chains of tiny ReLUs run through the executor on one rank, with its log of events.

    Args:
        profiler: of the platform; its own time of such a part is taken off.
        num_repeats: iterations of each chain.
    """
    short, long = (_iterations(profiler, _chain(length), num_repeats) for length in (SHORT, LONG))
    own = _warm(profiler).time_parts(_chain(SHORT), {1: (1, 1)})[0][1]
    num_tasks = 2 * (LONG - SHORT)
    share = max(0.0, (median(long) - median(short) - (LONG - SHORT) * (own.forward_ns + own.backward_ns)) / num_tasks)
    spread = (variance(long) + variance(short)) / num_tasks**2
    return Timing(share, spread, share, spread, num_repeats)


def _warm(profiler: Profiler) -> Profiler:
    """The same without clearing the caches, in which a chain of tiny parts stays."""
    platform = profiler.platform
    return Profiler(
        device=profiler.device.type,
        device_kind=platform.device_kind,
        num_threads=platform.num_threads,
        dtype=platform.dtype,
        options=replace(profiler.options, flush_mb=0),
    )


def _chain(length: int) -> OperatorGraph:
    builder = GraphBuilder("chain")
    x = builder.linear("linear", SIZES, SIZES[1])
    for number in range(length):
        x = builder.relu(f"relu{number}", x)
    return builder.build()


def _iterations(profiler: Profiler, graph: OperatorGraph, num_repeats: int) -> list[float]:
    """Times of iterations of a graph on one rank, ns."""
    times: dict[str, Mapping[tuple[int, ...], tuple[int, int]]]
    times = {operator.name: {(1, 1): (1, 1)} for operator in graph.operators}
    problem = Problem(graph, load_topology("cpu_host", num_devices=1), cost=TableCost(times=times))
    program, _ = build_program(problem, problem.data_parallel)
    rank = Rank(program, transport=LoneTransport(), data=RandomData(), options=RunOptions(), device=profiler.device)
    stopwatch = CpuStopwatch(has_one_thread=profiler.platform.num_threads == 1)

    return [stopwatch(rank.run)[0] for _ in range(2 + num_repeats)][2:]
