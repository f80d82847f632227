"""The paper's worked example, figure 4: a three-layer RNN on three GPUs, full and delta simulation by hand.

o1 and o2 on the first GPU, o3 and o4 on the second, o5 and o6 on the third; a transfer of a sub-tensor of one element
takes 1 ns. Full simulation gives 14; with o3 no longer split, delta simulation gives 15 (REFERENCE 2.2). Tasks are
named as in the figure: t3:2 is the second part of o3.
"""

from typing import Final, TypeAlias

from sim import topologies
from sim.costs.table import TableCost
from sim.operator_graph import Dimension, Input, Operator, OperatorGraph, Output, Window
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.task_graph import Key
from sim.topology import DeviceTopology

Times: TypeAlias = dict[Key, tuple[int, int]]
"""Ready and start time of each task."""

GPUS: Final = ("GPU1", "GPU2", "GPU3")
O3: Final = 2
"""Position of the operator whose config changes."""

SPLIT: Final = ParallelConfig((2,), (1, 1))
WHOLE: Final = ParallelConfig((1,), (1,))
"""Its configs before and after the change: |c3| = 2 and |c3| = 1."""

# Task keys: transfers into operator i (from 0) are (2 i, input, source part, destination part), its tasks
# (2 i + 1, 0, part, 0).
FIGURE_4C: Final[Times] = {
    (1, 0, 0, 0): (0, 0),  # t1:1
    (1, 0, 1, 0): (0, 2),  # t1:2
    (3, 0, 0, 0): (0, 4),  # t2:1
    (3, 0, 1, 0): (0, 6),  # t2:2
    (4, 0, 0, 0): (2, 2),  # t1:1 -> t3:1
    (4, 0, 1, 1): (4, 4),  # t1:2 -> t3:2
    (6, 0, 0, 0): (6, 6),  # t2:1 -> t4:1
    (6, 0, 1, 1): (8, 8),  # t2:2 -> t4:2
    (5, 0, 0, 0): (3, 3),  # t3:1
    (5, 0, 1, 0): (5, 5),  # t3:2
    (7, 0, 0, 0): (7, 7),  # t4:1
    (7, 0, 1, 0): (9, 9),  # t4:2
    (8, 0, 0, 0): (4, 4),  # t3:1 -> t5:1
    (8, 0, 1, 0): (6, 6),  # t3:2 -> t5:1
    (10, 0, 0, 0): (8, 8),  # t4:1 -> t6:1
    (10, 0, 1, 0): (10, 10),  # t4:2 -> t6:1
    (9, 0, 0, 0): (7, 7),  # t5:1
    (11, 0, 0, 0): (11, 11),  # t6:1
}
"""What the paper prints before the change; the makespan is 14."""

FIGURE_4D: Final[Times] = {
    (1, 0, 0, 0): (0, 0),  # t1:1
    (1, 0, 1, 0): (0, 2),  # t1:2
    (3, 0, 0, 0): (0, 4),  # t2:1
    (3, 0, 1, 0): (0, 6),  # t2:2
    (4, 0, 0, 0): (2, 2),  # t1:1 -> t3:1
    (4, 0, 1, 0): (4, 4),  # t1:2 -> t3:1
    (6, 0, 0, 0): (6, 6),  # t2:1 -> t4:1
    (6, 0, 1, 1): (8, 8),  # t2:2 -> t4:2
    (5, 0, 0, 0): (5, 5),  # t3:1
    (7, 0, 0, 0): (7, 7),  # t4:1
    (7, 0, 1, 0): (9, 9),  # t4:2
    (8, 0, 0, 0): (7, 7),  # t3:1 -> t5:1
    (10, 0, 0, 0): (8, 9),  # t4:1 -> t6:1 waits for the link
    (10, 0, 1, 0): (10, 10),  # t4:2 -> t6:1
    (9, 0, 0, 0): (9, 9),  # t5:1
    (11, 0, 0, 0): (11, 12),  # t6:1 waits for t5:1
}
"""What the paper prints after it; the makespan is 15."""


def worked_example() -> Problem:
    """Graph, GPUs and execution times of the figure; forward tasks alone, as there."""
    halves = {"o1": 2, "o2": 2, "o3": 1, "o4": 1}
    times: dict[str, dict[tuple[int, ...], tuple[int, int]]] = {
        name: {(2,): (ns, 0), (1,): (2 * ns, 0)} for name, ns in halves.items()
    }
    times |= {name: {(1,): (3, 0)} for name in ("o5", "o6")}
    return Problem(_graph(), _topology(), cost=TableCost(times=times), training=False)


def worked_strategy(problem: Problem, c3: ParallelConfig) -> Strategy:
    """The figure's strategy with the given config of o3: a GPU for each layer, two parts but for the last layer."""
    first, last = ParallelConfig((2,), (0, 0)), ParallelConfig((1,), (2,))
    return Strategy(problem.graph, problem.topology, [first, first, c3, SPLIT, last, last])


def _graph() -> OperatorGraph:
    """Three layers unrolled over two steps; the middle one is recurrent."""

    def operator(name: str, *producers: str) -> Operator:
        reads = tuple(Input(producer, 0, (Window(0),)) for producer in producers)
        return Operator(name, "figure", (Dimension("sample", 2, "S"),), (Output("output", (2,), (0,)),), reads)

    layers = [operator("o1"), operator("o2"), operator("o3", "o1"), operator("o4", "o2", "o3")]
    return OperatorGraph([*layers, operator("o5", "o3"), operator("o6", "o4")], name="figure4")


def _topology() -> DeviceTopology:
    """A link for each pair of GPUs and direction; L12 and L23 of the figure are used."""
    return topologies.explicit(
        name="figure4",
        devices=[{"name": name, "kind": "p100", "node": 0, "memory_gb": 1} for name in GPUS],
        switches=[],
        connections=[
            {"src": src, "dst": dst, "bandwidth_gb_per_s": 4, "latency_us": 0}
            for src in GPUS
            for dst in GPUS
            if src != dst
        ],
    )
