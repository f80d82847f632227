"""What the steps of a proposal cost: ``python -m tests.profile_kernels nmt 16``; one core, all else should be quiet.

Every step is repeated in compiled code on the state that a Metropolis chain has reached from data parallelism, over all
operators (edges, weight groups) in turn.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from rich.console import Console
from rich.table import Table

from experiments.benchmark_simulator import make_problem
from sim.chain import Chain
from sim.kernels.blocks import release_block
from sim.kernels.delta import withdraw
from sim.kernels.edges import build_edge
from sim.kernels.groups import build_group
from sim.kernels.headroom import find_gain, work_bound
from sim.kernels.kernel import OPTIONS
from sim.kernels.layout import NUM_NEAR, NUM_SAVED, NUM_TASKS, PARTS, POPPED, ROW, SEG, TAIL
from sim.kernels.operators import build_operator
from sim.kernels.timeline import simulate
from sim.kernels.waiting import count_changed

PROPOSALS, REPEATS, TIMELINES = 10_000, 20_000, 1_000
EVER = 2**62


def compiled(function: Callable[..., Any]) -> Any:
    """As the kernels are, but never from a cache that would not notice their edits."""
    return njit(**OPTIONS | {"cache": False})(function)


@compiled
def bound_work(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for number in range(count):
        i = number % tb.op.shape[0]
        for k in range(st.block[i, PARTS]):
            st.devices[k] = st.arena[st.block[i, SEG] + k]
        find_gain(tb, rows, st, i, st.block[i, ROW], st.block[i, PARTS])
        st.num[POPPED] = work_bound(tb, st, i, st.block[i, PARTS])


@compiled
def withdraw_blocks(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for number in range(count):
        withdraw(tb, rows, st, number % tb.op.shape[0])
    st.num[NUM_SAVED] = 0


@compiled
def count_waiting(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for number in range(count):
        withdraw(tb, rows, st, number % tb.op.shape[0])
        count_changed(tb, st, 0)
    st.num[NUM_SAVED], st.num[NUM_NEAR] = 0, 0


@compiled
def give_back(st, b, base, tasks, seg, task_class, seg_class, tail):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    release_block(st, st.block[b])
    own = st.block[b]
    own[0], own[1], own[2], own[3], own[4], own[TAIL] = base, tasks, seg, task_class, seg_class, tail


@compiled
def build_operators(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for number in range(count):
        i = number % tb.op.shape[0]
        own = st.block[i]
        base, tasks, seg, task_class, seg_class, tail = own[0], own[1], own[2], own[3], own[4], own[TAIL]
        for k in range(own[PARTS]):
            st.devices[k] = st.arena[seg + k]
        build_operator(tb, rows, st, i, own[ROW], own[PARTS])
        give_back(st, i, base, tasks, seg, task_class, seg_class, tail)


@compiled
def build_edges(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for number in range(count):
        e = number % tb.edge.shape[0]
        own = st.block[tb.op.shape[0] + e]
        base, tasks, seg, task_class, seg_class, tail = own[0], own[1], own[2], own[3], own[4], own[TAIL]
        build_edge(tb, rows, st, e)
        give_back(st, tb.op.shape[0] + e, base, tasks, seg, task_class, seg_class, tail)


@compiled
def build_groups(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    first = tb.op.shape[0] + tb.edge.shape[0]
    for number in range(count):
        g = number % tb.group.shape[0]
        own = st.block[first + g]
        base, tasks, seg, task_class, seg_class, tail = own[0], own[1], own[2], own[3], own[4], own[TAIL]
        build_group(tb, rows, st, g)
        give_back(st, first + g, base, tasks, seg, task_class, seg_class, tail)


@compiled
def replay_all(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for _ in range(count):
        simulate(tb, st, -1, 0, 0, -1, EVER, False)


@compiled
def walk_prefix(tb, rows, st, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    for number in range(count):
        simulate(tb, st, number % tb.op.shape[0], st.num[NUM_TASKS], EVER, 0, EVER, False)


def main() -> None:
    """Measure every step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("num_devices", type=int)
    arguments = parser.parse_args()
    options = {"model_options": {}, "topology": "p100_cluster", "space": "block", "sync": "ring"}
    problem = make_problem(arguments.model, arguments.num_devices, options)
    temperature = 0.001 * problem.data_parallel_ns
    chain = Chain(problem.simulation(), np.random.default_rng(0), temperature_ns=temperature)
    chain.walk(PROPOSALS)
    simulation, num_operators = chain.simulation, len(problem.graph)
    tasks, edges = simulation.num_tasks, 2 * len(problem.graph.edges) / num_operators

    def measured_us(step: Any, count: int) -> float:
        simulation.run_kernel(lambda *state: step(*state, 10) or 0)
        began = time.process_time()
        simulation.run_kernel(lambda *state: step(*state, count) or 0)
        return (time.process_time() - began) / count * 1e6

    withdrawn = measured_us(withdraw_blocks, REPEATS)
    rows = [
        ("work bound, before anything is built", measured_us(bound_work, REPEATS), "each proposal"),
        ("withdraw the replaced blocks", withdrawn, "each that passes it, as all below"),
        ("build the operator", measured_us(build_operators, REPEATS), ""),
        ("build its weight group", measured_us(build_groups, REPEATS), ""),
        ("build an edge", measured_us(build_edges, REPEATS), f"{edges:.1f} edges"),
        ("count predecessors that changed", measured_us(count_waiting, REPEATS) - withdrawn, ""),
        ("walk a task of the prefix", measured_us(walk_prefix, TIMELINES) / tasks, f"of {tasks:,} tasks"),
        ("simulate a task of the suffix", measured_us(replay_all, TIMELINES) / tasks, f"of {tasks:,} tasks"),
    ]
    table = Table(title=f"{arguments.model}, {arguments.num_devices} devices", title_justify="left")
    table.add_column("step")
    table.add_column("us", justify="right")
    table.add_column("how often")
    for name, cost_us, often in rows:
        table.add_row(name, f"{cost_us:.3f}", often)
    Console().print(table)


if __name__ == "__main__":
    main()
