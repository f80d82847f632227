"""TransferTable: what it takes to move a tensor between any two configs of its ends."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from envs.config_table import ConfigTable, Floats
from sim.flows import needed_box, written_box
from sim.kernels.observation import NOTHING
from sim.operator_graph import BYTES_PER_ELEMENT, Edge
from sim.strategy import ParallelConfig


@dataclass(frozen=True, slots=True)
class Candidates:
    """All configs of one end of an edge.

    Attributes:
        numbers: (C,) which of the U distinct degrees each config has.
        parts: (C, D) its part on each device; M, the most parts of any config, where there is none.
        held: for each of the degrees, (its configs, nodes, M + 1) which parts are on devices of a node.
        boxes: (U, M + 1, axes, 2) what each part writes or needs of the edge's tensor; empty where there is none.
    """

    numbers: NDArray[np.int64]
    parts: NDArray[np.int64]
    held: tuple[Floats, ...]
    boxes: NDArray[np.int64]


class TransferTable:
    """Times of transfers, one end of an edge fixed, the other with any of its configs.

    The estimate is additive, as in OptCNN: it knows the exact bytes that each device lacks, whether a device
    of its node or only other nodes have them, and that a node's devices share its way to the others. It knows
    nothing of other transfers at the same time. Rows are computed when they are first asked for, then kept.

    Args:
        table: the configs.

    Attributes:
        edge_kind: (E,) edges of a kind have the same rows.
        rows: (R, C) the rows that are known, in iterations of data parallelism.
    """

    def __init__(self, table: ConfigTable) -> None:
        self._table, self._graph = table, table.problem.graph
        self._iteration_ns = max(1, table.problem.data_parallel_ns)
        self._num_directions = 2 if table.problem.training else 1
        nodes = np.array([device.node for device in table.problem.topology.devices])
        is_near = nodes[:, None] == nodes
        self._nodes = np.unique(nodes, return_inverse=True)[1]
        self._is_in_node = (nodes[:, None] == np.unique(nodes)).astype(np.float32)
        ns_per_byte = 1 / table.problem.topology.route_arrays().bandwidth.reshape(is_near.shape)
        self._inside_ns = _mean(ns_per_byte[is_near & ~np.eye(len(nodes), dtype=bool)])
        self._across_ns = _mean(ns_per_byte[~is_near])
        self._candidates: dict[tuple[int, bool], Candidates] = {}
        self._volumes: dict[tuple[int, bool, tuple[int, ...]], Floats] = {}
        kinds: dict[tuple[object, ...], list[int]] = {}
        for position, edge in enumerate(self._graph.edges):
            kinds.setdefault(self._kind(edge), []).append(position)
        self._first_of_kind = [members[0] for members in kinds.values()]
        self.edge_kind = np.zeros(len(self._graph.edges), dtype=np.int64)
        for kind, members in enumerate(kinds.values()):
            self.edge_kind[members] = kind
        self._num_rows = 0
        self.rows: Floats = np.zeros((16, int(table.num_configs.max())), dtype=np.float32)
        self._slot = np.full((len(kinds), 2, table.width), NOTHING, dtype=np.int64)

    @property
    def slot(self) -> NDArray[np.int64]:
        """(edge kinds, 2, W) row for the number of the producer's, and of the consumer's config; or NOTHING."""
        if (lacking := self._table.width - self._slot.shape[2]) > 0:
            self._slot = np.pad(self._slot, ((0, 0), (0, 0), (0, lacking)), constant_values=NOTHING)
        return self._slot

    def learn(self, kind: int, end: int, number: int) -> None:
        """Compute a row, if it is not known.

        Args:
            kind: of the edge.
            end: whose config is fixed: 0 the producer's, 1 the consumer's.
            number: of that config.
        """
        if self.slot[kind, end, number] != NOTHING:
            return
        edge = self._first_of_kind[kind]
        fixed = (self._graph.edges[edge].src, self._graph.edges[edge].dst)[end]
        row = self.row(edge, self._table.configs[self._table.operator_class[fixed]][number], to_candidates=end == 0)
        if self._num_rows == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
        self.rows[self._num_rows, : len(row)] = row
        self.slot[kind, end, number] = self._num_rows
        self._num_rows += 1

    def row(self, edge: int, fixed: ParallelConfig, *, to_candidates: bool) -> Floats:
        """Time of an edge's transfers, forward and backward, for every config of one end.

        Args:
            edge: position in the graph's edges.
            fixed: config of the other end.
            to_candidates: whether the consumer's config is open and the producer's fixed, or the reverse.

        Returns:
            (C,) in iterations of data parallelism.
        """
        candidates = self._open_end(edge, to_candidates)
        numbers, parts = candidates.numbers, candidates.parts
        volumes = self._by_device(edge, to_candidates, fixed)
        everywhere, rows = np.arange(parts.shape[1]), numbers[:, None]
        # For each device, of what its part receives: everything, what its node has, what it has itself.
        if to_candidates:
            needed = volumes.sum(axis=2)[rows, parts]
            nearby = (volumes @ self._is_in_node)[rows, parts, self._nodes]
        else:
            needed = volumes.sum(axis=1)[numbers]
            by_node = [held @ volumes[number] for number, held in enumerate(candidates.held)]
            nearby = np.concatenate(by_node)[:, self._nodes, everywhere]
        local = volumes[rows, parts, everywhere]
        inside_ns = (nearby - local).max(axis=1) * self._inside_ns
        across_ns = ((needed - nearby) @ self._is_in_node).max(axis=1) * self._across_ns
        # What is lacking is a difference of float32 sums: rounding may leave it a little below 0.
        total: Floats = self._num_directions * np.maximum(inside_ns + across_ns, 0) / self._iteration_ns
        return total

    def _by_device(self, edge: int, to_candidates: bool, fixed: ParallelConfig) -> Floats:
        """(distinct degrees, parts + 1, D) bytes that a candidate's part and the fixed parts on a device share."""
        key = (edge, to_candidates, fixed.degrees)
        if key not in self._volumes:
            open_boxes = self._open_end(edge, to_candidates).boxes
            fixed_boxes = self._boxes(edge, not to_candidates, fixed.degrees)
            low = np.maximum(open_boxes[:, :, None, :, 0], fixed_boxes[:, :, 0])
            high = np.minimum(open_boxes[:, :, None, :, 1], fixed_boxes[:, :, 1])
            self._volumes[key] = BYTES_PER_ELEMENT * np.maximum(high - low, 0).astype(np.float32).prod(axis=3)
        volumes = self._volumes[key]
        placed = np.zeros((*volumes.shape[:2], len(self._nodes)), dtype=np.float32)
        # Parts on one device add up: a loop, because one device may have several parts outside the space.
        for part, device in enumerate(fixed.devices):
            placed[:, :, device] += volumes[:, :, part]
        return placed

    def _boxes(self, edge: int, is_consumer: bool, degrees: tuple[int, ...]) -> NDArray[np.int64]:
        """(parts, axes, 2) what each part of one end writes or needs of the edge's tensor."""
        link = self._graph.edges[edge]
        operator = self._graph.operators[link.dst if is_consumer else link.src]
        config = ParallelConfig(degrees, (0,) * math.prod(degrees))
        boxes = [config.box(operator, part) for part in range(config.num_tasks)]
        if is_consumer:
            return np.array([needed_box(self._graph, link, box) for box in boxes])
        return np.array([written_box(operator, link.output, box) for box in boxes])

    def _open_end(self, edge: int, to_candidates: bool) -> Candidates:
        key = (edge, to_candidates)
        if key not in self._candidates:
            link = self._graph.edges[edge]
            number_of_class = self._table.operator_class[link.dst if to_candidates else link.src]
            known = self._table.configs[number_of_class]
            configs = [known[index] for index in range(self._table.num_configs[number_of_class])]
            degrees = {config.degrees: None for config in configs}
            numbers = {entry: number for number, entry in enumerate(degrees)}
            most = max(map(math.prod, degrees))
            parts = np.full((len(configs), len(self._nodes)), most)
            for index, config in enumerate(configs):
                parts[index, list(config.devices)] = np.arange(config.num_tasks)
            num_axes = len(self._graph.operators[link.src].outputs[link.output].sizes)
            boxes = np.zeros((len(degrees), most + 1, num_axes, 2), dtype=np.int64)
            for entry, number in numbers.items():
                boxes[number, : math.prod(entry)] = self._boxes(edge, to_candidates, entry)
            # Configs of equal degrees follow one another in the space.
            column = np.array([numbers[config.degrees] for config in configs])
            is_held = (parts[:, :, None] == np.arange(most + 1)) & (parts[:, :, None] < most)
            held = np.einsum("dn,cdp->cnp", self._is_in_node, is_held.astype(np.float32))
            blocks = tuple(np.split(held, np.flatnonzero(np.diff(column)) + 1))
            self._candidates[key] = Candidates(column, parts, blocks, boxes)
        return self._candidates[key]

    def _kind(self, edge: Edge) -> tuple[object, ...]:
        """Edges of one kind have the same rows."""
        src, dst = self._table.operator_class[[edge.src, edge.dst]].tolist()
        return src, edge.output, dst, self._graph.operators[edge.dst].inputs[edge.input].windows


def _mean(values: NDArray[np.float64]) -> np.float32:
    return np.float32(values.mean()) if len(values) else np.float32(0)
