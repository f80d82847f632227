"""Random problems for property tests: small, but with everything that makes delta simulation hard.

All functions draw from a ``random.Random``: one with a seed, or Hypothesis's, which shrinks.
"""

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import get_args

import numpy as np

from sim import topologies
from sim.costs.analytic import AnalyticCost
from sim.costs.cost_source import CostSource
from sim.costs.table import TableCost
from sim.graph_builder import GraphBuilder, LstmTensors
from sim.operator_graph import WHOLE, Exchange, OperatorGraph, Output, Weight, Window
from sim.operator_writer import IMAGE, SEQUENCE, VECTOR, Source, Tensor, dimensions
from sim.problem import Problem
from sim.space import SoapSpace, Variant, degree_tuples
from sim.strategy import ParallelConfig, Strategy
from sim.sync import SCHEMES, Sync
from sim.topology import DeviceTopology, Reading

OFTEN: tuple[Variant, ...] = ("free", "free", "injective", "block", "aligned")
AXES = {1: ("sample",), 2: VECTOR, 3: SEQUENCE, 4: IMAGE}


def random_graph(random: Random, *, max_operators: int = 6, has_custom: bool = True) -> OperatorGraph:
    """Operators of random kinds, each reading earlier ones, or data.

    Args:
        random: drawn from.
        max_operators: at most so many methods of the builder are called; a few append two operators.
        has_custom: whether operators of no known kind appear.
    """
    writer = _Writer(random)
    for _ in range(random.randint(1, max_operators)):
        writer.append(has_custom=has_custom)
    return writer.builder.build()


class _Writer:
    """Appends random operators to a graph under construction."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.builder = GraphBuilder("random", fused=random.random() < 0.5)
        self.samples = random.choice([2, 4, 6])
        self.tensors: list[Tensor] = []
        self.states: list[LstmTensors] = []
        self.count = 0

    def append(self, *, has_custom: bool) -> None:
        """Append one operator of a random kind."""
        kinds: list[Callable[[str], Tensor]] = [self.conv2d, self.pool2d, self.flat, self.dense, self.dense]
        kinds += [self.concat, self.elementwise, self.norm, self.embedding, self.lstm, self.lstm, self.attention]
        if has_custom:
            kinds += [self.custom] * 5
        self.count += 1
        self.tensors.append(self.random.choice(kinds)(f"operator{self.count}"))

    def source(self, axes: tuple[str, ...]) -> Source:
        """An earlier tensor with these axes, or data."""
        fitting = [tensor for tensor in self.tensors if tensor.axes == axes]
        if fitting and self.random.random() < 0.85:
            return self.random.choice(fitting)
        sizes = {IMAGE: (2, self.random.randint(2, 6), self.random.randint(2, 6)), SEQUENCE: (2, 4), VECTOR: (6,)}
        return (self.samples, *sizes[axes])

    def alike(self, tensor: Tensor, axis: int | None) -> list[Tensor]:
        """Earlier tensors of the same sizes, but for one axis."""
        return [
            other
            for other in self.tensors
            if other.axes == tensor.axes
            and all(a == b for i, (a, b) in enumerate(zip(other.sizes, tensor.sizes, strict=True)) if i != axis)
        ]

    def conv2d(self, name: str) -> Tensor:
        source = self.source(IMAGE)
        kernel, pad, stride = self.slide(source)
        channels, is_normed, relu = self.random.choice([2, 4]), self.random.random() < 0.5, self.random.random() < 0.3
        return self.builder.conv2d(
            name, source, channels, kernel, stride=stride, pad=pad, batch_norm=is_normed, relu=relu
        )

    def pool2d(self, name: str) -> Tensor:
        source = self.source(IMAGE)
        kernel, pad, stride = self.slide(source)
        return self.builder.pool2d(name, source, kernel, stride=stride, pad=pad)

    def slide(self, source: Source) -> tuple[tuple[int, int], tuple[int, int], int]:
        """Kernel, padding and stride that fit an image."""
        height, width = (source.sizes if isinstance(source, Tensor) else source)[2:]
        kernel = self.random.randint(1, min(4, height)), self.random.randint(1, min(3, width))
        return kernel, (self.random.randrange(kernel[0]), self.random.randrange(kernel[1])), self.random.randint(1, 2)

    def flat(self, name: str) -> Tensor:
        return self.builder.flat(name, self.source(IMAGE))

    def dense(self, name: str) -> Tensor:
        source = self.source(self.random.choice([VECTOR, SEQUENCE, IMAGE]))
        sizes = source.sizes if isinstance(source, Tensor) else source
        features = math.prod(sizes[2:] if len(sizes) == 3 else sizes[1:])
        units, is_shared = self.random.choice([2, 4, 6]), self.random.random() < 0.7
        build = self.builder.softmax if self.random.random() < 0.3 else self.builder.linear
        return build(name, source, units, group=f"shared {units} {features + 1}" if is_shared else None)

    def concat(self, name: str) -> Tensor:
        first = self.source(self.random.choice([IMAGE, SEQUENCE, VECTOR]))
        if not isinstance(first, Tensor):
            return self.builder.relu(name, first)
        fitting = self.alike(first, 2 if len(first.sizes) == 3 else 1)
        return self.builder.concat(name, [first, *self.random.choices(fitting, k=self.random.randint(1, 2))])

    def elementwise(self, name: str) -> Tensor:
        first = self.source(self.random.choice([IMAGE, SEQUENCE, VECTOR]))
        if not isinstance(first, Tensor) or self.random.random() < 0.3:
            return self.builder.dropout(name, first)
        return self.builder.add(name, first, self.random.choice(self.alike(first, None)))

    def norm(self, name: str) -> Tensor:
        if self.random.random() < 0.5:
            return self.builder.batch_norm(name, self.source(IMAGE))
        return self.builder.layer_norm(name, self.source(self.random.choice([SEQUENCE, VECTOR])))

    def embedding(self, name: str) -> Tensor:
        steps, channels = self.random.randint(1, 2), self.random.choice([2, 4])
        return self.builder.embedding(name, (self.samples, steps), 5, channels, group=f"words {channels}")

    def lstm(self, name: str) -> Tensor:
        source = self.source(SEQUENCE)
        samples, _, features = source.sizes if isinstance(source, Tensor) else source
        hidden = self.random.choice([2, 4])
        states = [state for state in self.states if state.cell.sizes[::2] == (samples, hidden)]
        state = self.random.choice([*states[-1:], None])
        made = self.builder.lstm(name, source, hidden, state=state, group=f"cell {features} {hidden}")
        self.states.append(made)
        return made.sequence

    def attention(self, name: str) -> Tensor:
        source = self.source(SEQUENCE)
        samples, _, features = source.sizes if isinstance(source, Tensor) else source
        if self.random.random() < 0.5:
            fitting = [t for t in self.tensors if t.axes == SEQUENCE and t.sizes[::2] == (samples, features)]
            return self.builder.luong_attention(name, source, self.random.choices([source, *fitting], k=2))
        return self.builder.attention(name, source, self.random.choice([h for h in (1, 2, 3) if features % h == 0]))

    def custom(self, name: str) -> Tensor:
        """An operator with dimensions, outputs, windows, weights and an exchange of its own."""
        num_dims = self.random.randint(1, 4)
        sizes = [self.random.choice([1, 2, 2, 2, 3, 4, 4, 6]) for _ in range(num_dims)]
        labels = "".join(self.random.choice("SAPP-") for _ in range(num_dims))
        dims = dimensions(AXES[num_dims], tuple(sizes), labels)
        outputs = [Output("first", tuple(sizes), tuple(range(num_dims)))]
        for number in range(self.random.choice([0, 0, 1, 2])):
            outputs.append(self.further_output(f"output{number}", sizes, labels))
        reads: list[tuple[Source, tuple[Window, ...]]] = []
        for _ in range(self.random.randint(0, 3) if self.tensors else 0):
            tensor = self.random.choice(self.tensors)
            # Parts may need nothing of a tensor, but each needs something of the first.
            reads.append((tensor, self.windows(tensor, sizes, may_be_empty=bool(reads))))
        self.builder.append(
            name,
            "custom",
            dims,
            reads,
            outputs=tuple(outputs),
            weight=self.weight(name, sizes, labels),
            exchange=self.exchange(num_dims) if self.random.random() < 0.5 else None,
        )
        tensors = [Tensor(name, i, AXES[len(output.sizes)], output.sizes) for i, output in enumerate(outputs)]
        self.tensors += tensors[1:]
        return tensors[0]

    def further_output(self, name: str, sizes: Sequence[int], labels: str) -> Output:
        """An output whose axes are those that it needs, and some more, in any order."""
        cut = [d for d, label in enumerate(labels) if label != "-" or self.random.random() < 0.5]
        axes = [(sizes[d], d) for d in cut]
        if not axes or (len(axes) < 4 and self.random.random() < 0.5):
            axes.append((self.random.choice([1, 2, 3]), WHOLE))
        self.random.shuffle(axes)
        return Output(name, tuple(size for size, _ in axes), tuple(d for _, d in axes))

    def windows(self, tensor: Tensor, sizes: Sequence[int], *, may_be_empty: bool) -> tuple[Window, ...]:
        free, windows = [*range(len(sizes))], []
        for size in tensor.sizes:
            window = Window(WHOLE)
            if free and self.random.random() < 0.75:
                window = Window(
                    free.pop(self.random.randrange(len(free))),
                    stride=self.random.choice([1, 1, 2, 3]),
                    divisor=self.random.choice([1, 1, 2, 3]),
                    pad=self.random.choice([0, 0, 1, 2, -1]),
                    kernel=self.random.choice([1, 1, 2, 3]),
                )
                if not may_be_empty and any(_is_empty(window, i, size, len(sizes)) for i in range(sizes[window.dim])):
                    free.append(window.dim)
                    window = Window(WHOLE)
            windows.append(window)
        return tuple(windows)

    def weight(self, name: str, sizes: Sequence[int], labels: str) -> Weight | None:
        if self.random.random() < 0.3:
            return None
        dim = self.random.choice([WHOLE, *(d for d, label in enumerate(labels) if label == "P")])
        units, elements = 1 if dim == WHOLE else sizes[dim], self.random.choice([2, 2, 2, 5])
        group = f"shared {units} {elements}" if self.random.random() < 0.8 else name
        return Weight(group, dim, elements)

    def exchange(self, num_dims: int) -> Exchange:
        across = [d for d in range(num_dims) if self.random.random() < 0.6] or [0]
        over = [d for d in range(num_dims) if self.random.random() < 0.5]
        kind = self.random.choice(["all_reduce", "all_gather"])
        factor, rounds = self.random.randint(1, 3), self.random.randint(1, 3)
        return Exchange(kind, tuple(across), tuple(over), factor, rounds)  # type: ignore[arg-type]


def _is_empty(window: Window, index: int, size: int, num_dims: int) -> bool:
    low, high = window.interval(((index, index + 1),) * num_dims, size)
    return low >= high


def random_topology(random: Random, *, max_devices: int = 6) -> DeviceTopology:
    """Devices of two kinds on one to three nodes: joined pair by pair, by a switch per node, or by one bus."""
    num_devices = random.randint(1, max_devices)
    nodes = sorted(random.randrange(random.choice([1, 2, 3])) for _ in range(num_devices))
    devices = [
        {
            "name": f"d{d}",
            "kind": random.choice(["p100", "k80"]),
            "node": node,
            "memory_gb": random.choice([1e-7, 1e-6]),
        }
        for d, node in enumerate(nodes)
    ]
    names = [f"d{d}" for d in range(num_devices)]
    switches: list[dict[str, object]] = []
    joins: list[tuple[str, str]] = []
    form = random.choice(["pairs", "switches", "bus"])
    if form == "pairs":
        joins = [(a, b) for a in names for b in names if a != b]
    elif form == "bus":
        switches = [{"name": "in", "node": None}, {"name": "out", "node": None}]
        joins = [("in", "out"), *((a, "in") for a in names), *(("out", a) for a in names)]
    else:
        switches = [{"name": f"s{node}", "node": node} for node in sorted(set(nodes))]
        switches.append({"name": "network", "node": None})
        ends = [(name, f"s{node}") for name, node in zip(names, nodes, strict=True)]
        ends += [(f"s{node}", "network") for node in sorted(set(nodes))]
        joins = [*ends, *((b, a) for a, b in ends)]
    connections = [
        {
            "src": src,
            "dst": dst,
            "bandwidth_gb_per_s": random.choice([1.0, 4.0, 4.0, 0.3]),
            "latency_us": random.choice([0, 0, 0.001, 0.007]),
        }
        for src, dst in joins
    ]
    return topologies.explicit(
        name="random",
        devices=devices,
        switches=switches,
        connections=connections,
        reading=random.choice(get_args(Reading)),
        transfers_occupy_devices=random.random() < 0.4,
        reduce_ns_per_byte=random.choice([0.0, 0.0, 0.7]),
    )


def random_times(random: Random, graph: OperatorGraph, num_devices: int) -> TableCost:
    """Few different times, so that ties are many, and often none at all."""
    durations = [0, 0, 1, 1, 2, 3, 10, 100]
    times = {
        operator.name: {
            degrees: (random.choice(durations), random.choice(durations))
            for degrees in degree_tuples(operator.sizes, tuple(bool(d.label) for d in operator.dims), num_devices)
        }
        for operator in graph.operators
    }
    launch_ns, ns_per_byte = random.choice([(0, 0), (1.5, 0.25)])
    return TableCost(times=times, update_launch_ns=launch_ns, update_ns_per_byte=ns_per_byte)


def random_problem(
    random: Random,
    *,
    max_operators: int = 6,
    max_devices: int = 6,
    variant: Variant | None = None,
    is_training: bool | None = None,
) -> Problem:
    """A graph, a topology, times, a space and a scheme of synchronisation."""
    has_table = random.random() < 0.8
    graph = random_graph(random, max_operators=max_operators, has_custom=has_table)
    topology = random_topology(random, max_devices=max_devices)
    cost: CostSource = random_times(random, graph, topology.num_devices) if has_table else AnalyticCost()
    chosen = random.choice(OFTEN) if variant is None else variant
    space = SoapSpace(graph, topology, variant=chosen, dims=random.choice(["SOAP", "SOAP", "SAP", "O"]))
    scheme, copies = random.choice(SCHEMES), random.choice([0, 1, 2])
    overlap, stage = random.random() < 0.7, random.choice([1, 2, 3])
    training = random.random() < 0.85 if is_training is None else is_training
    sync = Sync(
        scheme=scheme,  # type: ignore[arg-type]
        overlap=overlap,
        optimizer_copies=copies,
        bucket_mb=random.choice([None, None, 1e-5, 1e-4, 1.0]),  # of 10 bytes, 100 bytes, and everything
        zero_stage=stage,  # type: ignore[arg-type]
    )
    return Problem(graph, topology, cost=cost, space=space, sync=sync, training=training)


def random_generator(random: Random) -> np.random.Generator:
    """A numpy generator that follows from ``random``."""
    return np.random.default_rng(random.randrange(2**20))


def random_move(problem: Problem, random: Random) -> tuple[int, ParallelConfig]:
    """An operator and a legal config for it."""
    operator = random.randrange(len(problem.graph))
    return operator, problem.space.sample(operator, random_generator(random))


def random_strategy(problem: Problem, random: Random) -> Strategy:
    """A legal config for every operator."""
    return problem.space.sample_strategy(random_generator(random))
