"""Tables: a problem in the kernels' arrays, and the rows of numbers that depend on an operator's degrees."""

import math
from collections.abc import Sequence
from threading import Lock

import numpy as np

from sim.errors import IllegalGraphError, SimError
from sim.gradient_paths import precedes_synchronisation
from sim.kernels.layout import (
    ALL_GATHER,
    ALL_REDUCE,
    AXIS,
    AXIS_COLUMNS,
    DEGREE,
    EDGE_COLUMNS,
    GROUP,
    HALO,
    MEMBER,
    OP_COLUMNS,
    SIZE,
    TIMES,
    X_ACROSS,
    X_KIND,
    X_ROUNDS,
    Ints,
    Lists,
    Tables,
)
from sim.operator_graph import BYTES_PER_ELEMENT, MAX_AXES, WHOLE, Edge, Operator
from sim.problem import Problem
from sim.strategy import ParallelConfig
from sim.sync import SCHEMES

MAX_PHASES, MAX_DEVICES = 2**20, 2**13
"""What fits into a task key of 63 bits (``sim.kernels.blocks.pack``): parts and shards have 15 bits."""

MAX_SHARDS = 2**15
"""In a bucket."""


_MAKING = Lock()


def make_tables(problem: Problem) -> Tables:
    """The arrays that stay as they are while a problem is simulated."""
    graph, topology = problem.graph, problem.topology
    groups = list(graph.weight_groups.values())
    if 4 * (len(graph) + len(groups)) >= MAX_PHASES or topology.num_devices > MAX_DEVICES:
        raise IllegalGraphError(graph.name, "it has too many operators, or its topology too many devices")
    _check_buckets(problem, groups)
    weights = [groups[group] for bucket in problem.buckets for group in bucket]
    members = [[member for group in bucket for member in groups[group]] for bucket in problem.buckets]
    ends = _running_sum([len(bucket) for bucket in problem.buckets])
    out_edges = [[number for number, edge in enumerate(graph.edges) if edge.src == i] for i in range(len(graph))]
    num_in = [len(operator.inputs) for operator in graph.operators]
    kinds, num_devices = topology.device_kinds, topology.num_devices
    routes, (occupied_ptr, occupied) = topology.route_arrays(), topology.occupied_arrays()
    return Tables(
        op=_operator_table(problem, members),
        in_ptr=_running_sum(num_in),
        out_ptr=_running_sum([len(edges) for edges in out_edges]),
        out_edge=_ints([number for edges in out_edges for number in edges]),
        edge=_ints([_edge_row(problem, edge) for edge in graph.edges]).reshape(-1, EDGE_COLUMNS),
        group=np.stack([ends[:-1], ends[1:]], axis=1),
        member_ptr=_running_sum([len(bucket) for bucket in members]),
        member=_ints([member for bucket in members for member in bucket]),
        weight=_ints([_weight_row(graph.operators[sharers[0]]) for sharers in weights]).reshape(-1, 2),
        sharer_ptr=_running_sum([len(sharers) for sharers in weights]),
        device=_ints([(kinds.index(d.kind), d.node, d.memory_bytes) for d in topology.devices]),
        update=np.array([problem.cost.update_ns(kind) for kind in kinds], dtype=np.float64),
        bandwidth=np.array([c.bandwidth_gb_per_s for c in topology.connections], dtype=np.float64),
        route_ptr=occupied_ptr + num_devices,
        route=np.concatenate([np.arange(num_devices), occupied]).astype(np.int32),
        route_ns=routes.latency_ns,
        route_bandwidth=routes.bandwidth,
        reduce_ns_per_byte=float(topology.reduce_ns_per_byte),
        flags=_ints(
            [
                problem.training,
                SCHEMES.index(problem.sync.scheme),
                problem.sync.overlap,
                *problem.sync.copies(training=problem.training),
                problem.sync.num_gathers,
                problem.sync.bucket_mb is not None,
            ]
        ),
        ahead=_ahead_table(problem),
    )


def _check_buckets(problem: Problem, groups: Sequence[tuple[int, ...]]) -> None:
    """Refuse buckets that might have too many shards: a group is cut at most where each operator's parts end."""
    num_devices, operators = problem.topology.num_devices, problem.graph.operators
    for bucket in problem.buckets:
        most = sum(min(operators[groups[g][0]].num_weight_units, len(groups[g]) * num_devices) for g in bucket)
        if len(bucket) > 1 and most > MAX_SHARDS:
            shown = f"sync.bucket_mb={problem.sync.bucket_mb} on {num_devices} devices"
            raise SimError(f"{shown}: a bucket may have {most} shards, more than {MAX_SHARDS}; make it smaller")


def _ints(values: Sequence[object]) -> Ints:
    return np.array(values, dtype=np.int64)


def _running_sum(counts: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _operator_table(problem: Problem, buckets: Sequence[Sequence[int]]) -> Ints:
    table = np.zeros((len(problem.graph), OP_COLUMNS), dtype=np.int64)
    table[:, SIZE : SIZE + MAX_AXES] = 1
    table[:, [GROUP, MEMBER]] = -1
    for i, operator in enumerate(problem.graph.operators):
        table[i, SIZE : SIZE + len(operator.dims)] = operator.sizes
        if operator.exchange is not None:
            for dim in operator.exchange.across:
                table[i, X_ACROSS + dim] = 1
            table[i, X_KIND] = {"all_reduce": ALL_REDUCE, "all_gather": ALL_GATHER}[operator.exchange.kind]
            table[i, X_ROUNDS] = operator.exchange.rounds
    for bucket, members in enumerate(buckets):
        for rank, member in enumerate(members):
            table[member, GROUP], table[member, MEMBER] = bucket, rank
    return table


def _ahead_table(problem: Problem) -> Lists:
    graph, num_buckets = problem.graph, len(problem.buckets)
    table = np.zeros((num_buckets + 2, len(graph) + len(graph.edges) + num_buckets), dtype=np.int32)
    if problem.training and problem.sync.overlap:
        precedes = precedes_synchronisation(graph)
        for number, bucket in enumerate(problem.buckets):
            table[number, : len(graph)] = precedes[list(bucket)].any(axis=0)
    table[num_buckets, : len(graph)] = 1
    table[num_buckets + 1] = 1
    return table


def _edge_row(problem: Problem, edge: Edge) -> list[int]:
    output = problem.graph.operators[edge.src].outputs[edge.output]
    windows = problem.graph.operators[edge.dst].inputs[edge.input].windows
    row = [0] * EDGE_COLUMNS
    row[:AXIS] = edge.src, edge.dst, edge.input, 0
    for axis in range(MAX_AXES):
        at = AXIS + axis * AXIS_COLUMNS
        if axis >= len(windows):
            row[at : at + AXIS_COLUMNS] = 1, WHOLE, WHOLE, 1, 1, 0, 1
            continue
        window = windows[axis]
        row[at : at + AXIS_COLUMNS] = (
            output.sizes[axis],
            output.dims[axis],
            window.dim,
            window.stride,
            window.divisor,
            window.pad,
            window.kernel,
        )
        if window.kernel > window.stride or window.divisor > 1:
            row[HALO] = 1
    return row


def _weight_row(operator: Operator) -> tuple[int, int]:
    units = operator.num_weight_units
    return units, BYTES_PER_ELEMENT * operator.num_weight_elements // units


class Rows:
    """Numbers that depend on an operator and its degrees, one row for each pair that was asked for.

    Attributes:
        array: (rows, TIMES + 2 kinds) int64: see ``sim.kernels.layout``.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.array: Ints = np.zeros((256, TIMES + 2 * len(problem.topology.device_kinds)), dtype=np.int64)
        self._row: dict[tuple[int, tuple[int, ...]], int] = {}

    def row(self, operator: int, degrees: tuple[int, ...]) -> int:
        """The row of an operator with some degrees, made when it is first needed."""
        key = (operator, degrees)
        row = self._row.get(key)
        return row if row is not None else self._made(key)

    def _made(self, key: tuple[int, tuple[int, ...]]) -> int:
        with _MAKING:  # searches on several threads share the rows
            if key not in self._row:
                row = len(self._row)
                if row == len(self.array):
                    self.array = np.concatenate([self.array, np.zeros_like(self.array)])
                self.array[row] = self._numbers(self.problem.graph.operators[key[0]], key[1])
                self._row[key] = row
            return self._row[key]

    def config(self, operator: int, row: int, devices: Sequence[int] | Lists) -> ParallelConfig:
        """The config of a row on some devices, of which the first for its parts count."""
        degrees = tuple(self.array[row, DEGREE : DEGREE + len(self.problem.graph.operators[operator].dims)].tolist())
        return ParallelConfig(degrees, tuple(np.asarray(devices[: math.prod(degrees)]).tolist()))

    def _numbers(self, operator: Operator, degrees: tuple[int, ...]) -> list[int]:
        problem = self.problem
        message = 0
        if operator.exchange is not None:
            over = (operator.sizes[dim] // degrees[dim] for dim in operator.exchange.over)
            message = BYTES_PER_ELEMENT * operator.exchange.factor * math.prod(over)
        cuts, inner = 1, math.prod(degrees)
        if operator.weight is not None and operator.weight.dim != WHOLE:
            cuts, inner = degrees[operator.weight.dim], math.prod(degrees[operator.weight.dim + 1 :])
        times = [problem.cost.part_ns(operator, degrees, kind) for kind in problem.topology.device_kinds]
        padded = [*degrees, *[1] * (MAX_AXES - len(degrees))]
        forward, backward = [time[0] for time in times], [time[1] for time in times]
        length = operator.num_weight_units // cuts
        return [*padded, problem.saved_bytes(operator, degrees), message, cuts, inner, length, *forward, *backward]
