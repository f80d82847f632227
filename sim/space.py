"""SoapSpace: which configs are legal (FlexFlow, section 4; REFERENCE 2.1)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import Literal, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from sim.errors import IllegalConfigError, SimError, UnknownNameError
from sim.operator_graph import Operator, OperatorGraph
from sim.strategy import ParallelConfig, Strategy
from sim.topology import DeviceTopology

Variant: TypeAlias = Literal["free", "injective", "block", "aligned"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

Enumeration: TypeAlias = Literal["block", "aligned", "fixed"]
"""How configs with indices take their devices; fixed: 0, 1, 2, ..."""


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The enumerated configs of one operator shape: row r stands for the configs that differ in the first device.

    Attributes:
        degrees: (R, dims) parts along each dimension.
        orders: for each row, the split dimensions from slowest to fastest along the devices.
        strides: (R,) distance between neighbouring parts' devices.
        num_starts: (R,) first devices to choose from.
        offsets: (R + 1,) index of each row's first config.
    """

    degrees: NDArray[np.int64]
    orders: tuple[tuple[int, ...], ...]
    strides: NDArray[np.int64]
    num_starts: NDArray[np.int64]
    offsets: NDArray[np.int64]


class SoapSpace:
    """The legal configs of every operator of a graph on a topology.

    Degrees divide their dimensions and multiply to at most the number of devices. Devices of the parts:

    - ``free``: any device for any part;
    - ``injective``: any distinct devices;
    - ``block``: devices in arithmetic progression (neighbours, or one on each node), with every nesting order of
      the split dimensions, since what varies fastest stays inside a node;
    - ``aligned``: blocks that start at a multiple of their size, with strides that divide the number of devices.

    Args:
        graph: the operator graph.
        topology: the device topology.
        variant: one of the four above; ``block`` and ``aligned`` are enumerable, the others sampled.
        dims: which of S, O, A and P are open. Without O, parts take devices 0, 1, 2, ...

    Raises:
        UnknownNameError: there is no such variant.
        SimError: ``dims`` has other letters than S, O, A, P, or none.
    """

    def __init__(
        self, graph: OperatorGraph, topology: DeviceTopology, *, variant: Variant = "block", dims: str = "SOAP"
    ) -> None:
        if variant not in VARIANTS:
            raise UnknownNameError("space variant", str(variant), list(VARIANTS))
        if not dims or not set(dims) <= set("SOAP") or len(set(dims)) != len(dims):
            raise SimError(f"space.dims must be some of the letters S, O, A and P, not '{dims}'")
        self.graph, self.topology = graph, topology
        self.variant: Variant = variant
        self.dims = dims

    @property
    def aligned(self) -> "SoapSpace":
        """The aligned configs of the same dimensions, which are part of every variant."""
        return SoapSpace(self.graph, self.topology, variant="aligned", dims=self.dims)

    @property
    def is_enumerable(self) -> bool:
        """Whether configs have indices."""
        return self.variant in ("block", "aligned") or "O" not in self.dims

    def num_configs(self, operator: int) -> int:
        """Legal configs of an operator; enumerable spaces only."""
        return int(self.table(operator).offsets[-1])

    def table(self, operator: int) -> BlockTable:
        """All configs of an operator in compact form; enumerable spaces only."""
        if not self.is_enumerable:
            raise SimError(f"the configs of space '{self.variant}' have no indices; choose block or aligned")
        return _block_table(*self._shape(operator), self.topology.num_devices, self._enumeration)

    def config(self, operator: int, index: int) -> ParallelConfig:
        """The config with a given index, 0 <= index < ``num_configs(operator)``."""
        table = self.table(operator)
        if not 0 <= index < table.offsets[-1]:
            raise IndexError(f"operator {operator} has configs 0 to {table.offsets[-1] - 1}, not {index}")
        row = int(np.searchsorted(table.offsets, index, side="right")) - 1
        rank = index - int(table.offsets[row])
        degrees = tuple(table.degrees[row].tolist())
        stride = int(table.strides[row])
        if self.variant == "aligned":
            window, offset = divmod(rank, stride)
            rank = window * stride * math.prod(degrees) + offset
        return ParallelConfig(degrees, _devices(degrees, table.orders[row], rank, stride))

    def groups(self, operator: int) -> list[tuple[tuple[int, ...], NDArray[np.int64]]]:
        """All configs in the order of their indices: for each degrees, the devices, (configs, parts)."""
        degrees = dict.fromkeys(map(tuple, self.table(operator).degrees.tolist()))
        return [(entry, _placements(entry, self.topology.num_devices, self._enumeration)) for entry in degrees]

    def index(self, operator: int, config: ParallelConfig) -> int:
        """Index of a config.

        Raises:
            IllegalConfigError: it is not in the space.
        """
        table = self.table(operator)
        for row in np.flatnonzero((table.degrees == config.degrees).all(axis=1)):
            stride, start = int(table.strides[row]), min(config.devices)
            if _devices(config.degrees, table.orders[row], start, stride) != config.devices:
                continue
            if self.variant == "aligned":
                window, offset = divmod(start, stride * config.num_tasks)
                if offset >= stride:
                    continue
                start = window * stride + offset
            if start < table.num_starts[row]:
                return int(table.offsets[row]) + start
        raise IllegalConfigError(self.graph.operators[operator].name, config, f"it is not in the space {self}")

    def check(self, operator: int, config: ParallelConfig) -> None:
        """Refuse a config outside the space.

        Raises:
            IllegalConfigError: it is not in the space.
        """
        node = self.graph.operators[operator]
        config.check(node, self.topology.num_devices)
        if self.is_enumerable:
            self.index(operator, config)
        elif config.degrees not in self.degree_tuples(operator):
            raise IllegalConfigError(node.name, config, f"it splits dimensions that are closed in the space {self}")
        elif self.variant == "injective" and len(set(config.devices)) < config.num_tasks:
            raise IllegalConfigError(node.name, config, "two parts share a device")

    def has(self, operator: int, config: ParallelConfig) -> bool:
        """Whether a config is in the space; see ``check``."""
        try:
            self.check(operator, config)
        except IllegalConfigError:
            return False
        return True

    def sample(self, operator: int, rng: np.random.Generator) -> ParallelConfig:
        """A random config: uniform where enumerable, else uniform degrees, then uniform devices."""
        if self.is_enumerable:
            return self.config(operator, int(rng.integers(self.num_configs(operator))))
        tuples = self.degree_tuples(operator)
        degrees = tuples[int(rng.integers(len(tuples)))]
        num_devices, num_tasks = self.topology.num_devices, math.prod(degrees)
        if self.variant == "free":
            devices = rng.integers(num_devices, size=num_tasks)
        else:
            devices = rng.permutation(num_devices)[:num_tasks]
        return ParallelConfig(degrees, tuple(devices.tolist()))

    def sample_strategy(self, rng: np.random.Generator) -> Strategy:
        """A random config for every operator."""
        configs = [self.sample(operator, rng) for operator in range(len(self.graph))]
        return Strategy(self.graph, self.topology, configs)

    def degree_tuples(self, operator: int) -> tuple[tuple[int, ...], ...]:
        """All degrees that an operator may have."""
        return degree_tuples(*self._shape(operator), self.topology.num_devices)

    def __repr__(self) -> str:
        return f"{self.variant}/{self.dims}"

    @property
    def _enumeration(self) -> Enumeration:
        return cast(Enumeration, self.variant) if "O" in self.dims else "fixed"

    def _shape(self, operator: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
        node: Operator = self.graph.operators[operator]
        return node.sizes, tuple(bool(dim.label) and dim.label in self.dims for dim in node.dims)


@lru_cache(maxsize=4096)
def degree_tuples(sizes: tuple[int, ...], is_open: tuple[bool, ...], num_devices: int) -> tuple[tuple[int, ...], ...]:
    """All degrees that divide ``sizes`` and multiply to at most ``num_devices``; 1 where a dimension is not open."""
    choices = [
        [degree for degree in range(1, min(size, num_devices) + 1) if size % degree == 0] if opened else [1]
        for size, opened in zip(sizes, is_open, strict=True)
    ]
    tuples: list[tuple[int, ...]] = [()]
    for degrees in choices:
        tuples = [(*head, degree) for head in tuples for degree in degrees if math.prod(head) * degree <= num_devices]
    return tuple(tuples)


@lru_cache(maxsize=1024)
def _block_table(
    sizes: tuple[int, ...], is_open: tuple[bool, ...], num_devices: int, variant: Enumeration
) -> BlockTable:
    rows = [
        (degrees, *row)
        for degrees in degree_tuples(sizes, is_open, num_devices)
        for row in _rows(degrees, num_devices, variant)
    ]
    degrees_column, orders, stride_column, start_column = zip(*rows, strict=True)
    return BlockTable(
        np.array(degrees_column, dtype=np.int64),
        orders,
        np.array(stride_column, dtype=np.int64),
        np.array(start_column, dtype=np.int64),
        np.concatenate([[0], np.cumsum(start_column)]).astype(np.int64),
    )


@lru_cache(maxsize=4096)
def _rows(
    degrees: tuple[int, ...], num_devices: int, variant: Enumeration
) -> tuple[tuple[tuple[int, ...], int, int], ...]:
    """Orders, strides and numbers of first devices that parts of these degrees may have."""
    num_tasks = math.prod(degrees)
    split = [dim for dim, degree in enumerate(degrees) if degree > 1]
    is_strided = num_tasks > 1 and variant != "fixed"
    strides = range(1, 1 + (num_devices - 1) // (num_tasks - 1)) if is_strided else range(1, 2)
    nestings = [tuple(split)] if variant == "fixed" else list(permutations(split))
    rows: list[tuple[tuple[int, ...], int, int]] = []
    for order, stride in product(nestings, strides):
        num_starts = num_devices - stride * (num_tasks - 1)
        if variant == "fixed":
            num_starts = 1
        elif variant == "aligned":
            num_starts = num_devices // (num_tasks * stride) * stride if num_devices % stride == 0 else 0
        if num_starts > 0:
            rows.append((order, stride, num_starts))
    return tuple(rows)


@lru_cache(maxsize=4096)
def _placements(degrees: tuple[int, ...], num_devices: int, variant: Enumeration) -> NDArray[np.int64]:
    """(C, parts) devices of all configs of these degrees, in the order of their indices; not to be written to."""
    num_tasks, blocks = math.prod(degrees), []
    for order, stride, num_starts in _rows(degrees, num_devices, variant):
        starts = np.arange(num_starts)
        if variant == "aligned":
            starts = starts // stride * (stride * num_tasks) + starts % stride
        blocks.append(starts[:, None] + stride * nested_ranks(degrees, order))
    return np.concatenate(blocks)


@lru_cache(maxsize=65536)
def nested_ranks(degrees: tuple[int, ...], order: tuple[int, ...]) -> NDArray[np.int64]:
    """For each part, row-major, its place along the devices when ``order`` nests the split dimensions."""
    place = np.zeros(degrees, dtype=np.int64)
    for dim in order:
        shape = [1] * len(degrees)
        shape[dim] = degrees[dim]
        place = place * degrees[dim] + np.arange(degrees[dim]).reshape(shape)
    return place.reshape(-1)


def _devices(degrees: tuple[int, ...], order: tuple[int, ...], start: int, stride: int) -> tuple[int, ...]:
    return tuple((start + stride * nested_ranks(degrees, order)).tolist())
