"""TransferTable: what it takes to move a tensor between any two configs of its ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from envs.config_table import ConfigTable, Floats
from envs.placements import Placement
from sim.kernels.observation import NOTHING
from sim.operator_graph import BYTES_PER_ELEMENT, WHOLE, Edge
from sim.strategy import ParallelConfig

Boxes: TypeAlias = tuple[dict[tuple[int, ...], int], NDArray[np.int64]]
"""Number of each degrees, and what the parts write or need of a tensor, as in ``TransferTable._boxes``."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """All configs of a class of operators.

    Attributes:
        numbers: (C,) which of the U distinct degrees each config has; configs of equal degrees follow one another.
        parts: (C, D) its part on each device; M, the most parts of any config, where there is none.
        held: for each of the degrees, (its configs, nodes, M + 1) which parts are on devices of a node.
    """

    numbers: NDArray[np.int64]
    parts: NDArray[np.int64]
    held: tuple[Floats, ...]


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
        topology = table.problem.topology
        self._nodes = nodes = topology.node_numbers
        is_near = nodes[:, None] == nodes
        self._is_in_node = (nodes[:, None] == np.arange(nodes.max() + 1)).astype(np.float32)
        ns_per_byte = 1 / topology.route_arrays().bandwidth.reshape(is_near.shape)
        self._inside_ns = _mean(ns_per_byte[is_near & ~np.eye(len(nodes), dtype=bool)])
        self._across_ns = _mean(ns_per_byte[~is_near])
        self._candidates: dict[int, Candidates] = {}
        self._known_boxes: dict[tuple[object, ...], Boxes] = {}
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
        row = self.row(edge, self._table.config(fixed, number), to_candidates=end == 0)
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
            self._volumes[key] = self._shared_bytes(edge, to_candidates, fixed.degrees)
        volumes = self._volumes[key]
        placed = np.zeros((*volumes.shape[:2], len(self._nodes)), dtype=np.float32)
        if len(set(fixed.devices)) == len(fixed.devices):
            placed[:, :, list(fixed.devices)] = volumes
            return placed
        # Outside the space, a device may have several parts: they add up.
        for part, device in enumerate(fixed.devices):
            placed[:, :, device] += volumes[:, :, part]
        return placed

    def _shared_bytes(self, edge: int, to_candidates: bool, fixed_degrees: tuple[int, ...]) -> Floats:
        """(distinct degrees, parts + 1, fixed parts) bytes that the two ends' parts share."""
        boxes = self._all_boxes(edge, to_candidates)[1]
        numbers, known = self._all_boxes(edge, not to_candidates)
        if fixed_degrees in numbers:
            fixed = known[numbers[fixed_degrees]]
        else:
            fixed = self._boxes(edge, not to_candidates, np.array([fixed_degrees]))[0]
        fixed = fixed[: math.prod(fixed_degrees)]
        volumes = np.ones((), dtype=np.float32)
        for axis in range(boxes.shape[2]):
            low = np.maximum(boxes[:, :, None, axis, 0], fixed[:, axis, 0])
            high = np.minimum(boxes[:, :, None, axis, 1], fixed[:, axis, 1])
            volumes = volumes * np.maximum(high - low, 0).astype(np.float32)
        return BYTES_PER_ELEMENT * volumes

    def _all_boxes(self, edge: int, is_consumer: bool) -> Boxes:
        """Those of all degrees of one end, made once for all edges that cut the tensor alike."""
        link = self._graph.edges[edge]
        sizes = self._graph.operators[link.src].outputs[link.output].sizes
        number_of_class = int(self._table.operator_class[link.dst if is_consumer else link.src])
        ways = self._graph.operators[link.dst].inputs[link.input].windows if is_consumer else link.output
        key = (number_of_class, is_consumer, ways, sizes)
        if key not in self._known_boxes:
            degrees = [placement.degrees for placement in self._table.groups[number_of_class]]
            numbers = {entry: number for number, entry in enumerate(degrees)}
            self._known_boxes[key] = numbers, self._boxes(edge, is_consumer, np.array(degrees))
        return self._known_boxes[key]

    def _boxes(self, edge: int, is_consumer: bool, degrees: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each part of one end writes or needs of the edge's tensor.

        Args:
            edge: position in the graph's edges.
            is_consumer: whether the end is the consumer.
            degrees: (U, dims).

        Returns:
            (U, M + 1, axes, 2) where M is the most parts; empty where a config has fewer.
        """
        link = self._graph.edges[edge]
        operator = self._graph.operators[link.dst if is_consumer else link.src]
        output = self._graph.operators[link.src].outputs[link.output]
        windows = self._graph.operators[link.dst].inputs[link.input].windows
        num_parts = degrees.prod(axis=1)
        parts = np.arange(num_parts.max() + 1)
        is_part = parts < num_parts[:, None]
        boxes = np.zeros((*is_part.shape, len(output.sizes), 2), dtype=np.int64)
        dims = [window.dim for window in windows] if is_consumer else output.dims
        for axis, (dim, size) in enumerate(zip(dims, output.sizes, strict=True)):
            if dim == WHOLE:
                boxes[..., axis, :] = is_part[..., None] * np.array([0, size])
                continue
            # An axis knows one dimension alone, so a few intervals make up all boxes.
            most = int(degrees[:, dim].max())
            intervals = np.zeros((most + 1, most, 2), dtype=np.int64)
            for degree in set(degrees[:, dim].tolist()):
                length = operator.sizes[dim] // degree
                for index in range(degree):
                    box = ((index * length, (index + 1) * length),) * len(operator.dims)
                    intervals[degree, index] = windows[axis].interval(box, size) if is_consumer else box[dim]
            following = degrees[:, dim + 1 :].prod(axis=1)[:, None]
            indices = parts // following % degrees[:, dim, None]
            boxes[..., axis, :] = is_part[..., None] * intervals[degrees[:, dim, None], indices]
        return boxes

    def _open_end(self, edge: int, to_candidates: bool) -> Candidates:
        link = self._graph.edges[edge]
        number_of_class = int(self._table.operator_class[link.dst if to_candidates else link.src])
        if number_of_class not in self._candidates:
            self._candidates[number_of_class] = self._listed(self._table.groups[number_of_class])
        return self._candidates[number_of_class]

    def _listed(self, groups: Sequence[Placement]) -> Candidates:
        counts = [len(placement.devices) for placement in groups]
        most = max(placement.devices.shape[1] for placement in groups)
        parts = np.full((sum(counts), len(self._nodes)), most)
        held: list[Floats] = []
        first = 0
        for count, placement in zip(counts, groups, strict=True):
            devices, everywhere = placement.devices, np.arange(placement.devices.shape[1])
            parts[first + np.arange(count)[:, None], devices] = everywhere
            has = np.zeros((count, self._is_in_node.shape[1], most + 1), dtype=np.float32)
            has[np.arange(count)[:, None], self._nodes[devices], everywhere] = 1
            held.append(has)
            first += count
        return Candidates(np.repeat(np.arange(len(groups)), counts), parts, tuple(held))

    def _kind(self, edge: Edge) -> tuple[object, ...]:
        """Edges of one kind have the same rows."""
        src, dst = self._table.operator_class[[edge.src, edge.dst]].tolist()
        return src, edge.output, dst, self._graph.operators[edge.dst].inputs[edge.input].windows


def _mean(values: NDArray[np.float64]) -> np.float32:
    return np.float32(values.mean()) if len(values) else np.float32(0)
