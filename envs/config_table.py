"""ConfigTable: every legal config of every operator, with what it costs on its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from envs.placements import Placement, Placements
from sim.costs.table import TableCost
from sim.errors import IllegalConfigError
from sim.operator_graph import BYTES_PER_ELEMENT, WHOLE, Operator
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig

Floats: TypeAlias = NDArray[np.float32]

CONFIG_FEATURES = (
    "sample_degree",  # log2, relative to log2 of the number of devices, as the next three
    "attribute_degree",
    "parameter_degree",
    "num_devices",
    "num_nodes",  # share of the topology's nodes that the config spans
    "first_device",  # lowest position, relative to the number of devices
    "extent",  # from lowest to highest position, relative to the number of devices
    "part_time",  # forward and backward of the slowest part; times as in ``scaled``
    "total_time",  # the same, summed over parts
    "exchange_time",  # what the parts tell each other
    "sync_time",  # ring all-reduce of the weights on an idle network, shared between operators of a weight group
)
"""What ``ConfigTable.features`` holds for a config."""


@dataclass(frozen=True, slots=True)
class ConfigRows:
    """What is known of C configs of one operator; times in iterations of data parallelism.

    Attributes:
        features: (C, len(CONFIG_FEATURES)).
        busy: (C, D) time of forward, backward and update on each device.
        memory: (C, D) share of each device's memory.
        local_time: (C,) part, exchange and synchronisation, one after another.
    """

    features: Floats
    busy: Floats
    memory: Floats
    local_time: NDArray[np.float64]


class ConfigTable:
    """The legal configs of all operators, by number.

    Operators of equal shape, whose weights equally many share, have the same rows.

    The numbers of a class's configs are their indices in the space. A strategy from outside may hold others; they get
    numbers behind all of these when they are first met.

    Args:
        problem: graph, topology and costs.
        space: the legal configs; enumerable.

    Attributes:
        operator_class: (N,) class of each operator.
        groups: for each class, its configs in the space, by degrees in the order of their numbers.
        num_configs: (K,) configs of each class in the space.
        features: (K, W, F) those of ``ConfigRows``, zero where there is no such config, as the rest.
        local_time: (K, W).
        parts: (K, W).
        devices: (K, W, D) of the parts; configs of the space only.
        busy, memory: (K, W, D).
    """

    def __init__(self, problem: Problem, space: SoapSpace) -> None:
        self.problem, self.space = problem, space
        topology, graph = problem.topology, problem.graph
        self._kinds = topology.kind_numbers
        self._capacity = np.array([device.memory_bytes for device in topology.devices], dtype=np.float64)
        self._updates = np.array([problem.cost.update_ns(kind) for kind in topology.device_kinds])[self._kinds]
        self._iteration_ns = max(1, problem.data_parallel_ns)
        self._sharers = {m: len(group) for group in graph.weight_groups.values() for m in group}
        self._placements = Placements(topology)

        is_named = isinstance(problem.cost, TableCost)
        keys = [(_shape(node, is_named=is_named), self._sharers.get(i, 1)) for i, node in enumerate(graph.operators)]
        classes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self.operator_class = np.array([classes[key] for key in keys], dtype=np.int64)
        first = np.unique(self.operator_class, return_index=True)[1]
        self._examples: list[int] = first.tolist()
        self.groups: list[list[Placement]] = [
            [self._placements.of_space(*group) for group in space.groups(example)] for example in self._examples
        ]
        self._others: dict[tuple[int, int], ParallelConfig] = {}
        self.num_configs = np.array([space.num_configs(example) for example in self._examples], dtype=np.int64)
        self._fill(len(classes), int(self.num_configs.max()), topology.num_devices)

    @property
    def width(self) -> int:
        """W, the numbers that are given to configs."""
        return self.features.shape[1]

    def number(self, operator: int, config: ParallelConfig) -> int:
        """The number of any config, in the space or not."""
        try:
            return self.space.index(operator, config)
        except IllegalConfigError:
            number_of_class = int(self.operator_class[operator])
        for (owner, number), other in self._others.items():
            if owner == number_of_class and other == config:
                return number
        number = self.width
        for name in ("features", "local_time", "parts", "devices", "busy", "memory"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array[:, :1])], axis=1))
        self._others[number_of_class, number] = config
        placement = self._placements.of(config.degrees, np.array([config.devices], dtype=np.int64))
        self._put(number_of_class, number, [placement])
        return number

    def config(self, operator: int, number: int) -> ParallelConfig:
        """The config with a number that was given to it."""
        number_of_class = int(self.operator_class[operator])
        if number < self.num_configs[number_of_class]:
            return self.space.config(operator, number)
        return self._others[number_of_class, number]

    def scaled(self, times: Floats | float) -> Floats:
        """log(1 + N t): of times in iterations of data parallelism, where 1 / N is an operator's average."""
        return np.log1p(np.float32(len(self.operator_class)) * times, dtype=np.float32)

    def _fill(self, num_classes: int, num_configs: int, num_devices: int) -> None:
        shape = (num_classes, num_configs)
        self.features = np.zeros((*shape, len(CONFIG_FEATURES)), dtype=np.float32)
        self.local_time = np.zeros(shape, dtype=np.float32)
        self.parts = np.zeros(shape, dtype=np.int64)
        self.devices = np.zeros((*shape, num_devices), dtype=np.int32)
        self.busy, self.memory = np.zeros((2, *shape, num_devices), dtype=np.float32)
        for number, groups in enumerate(self.groups):
            devices = self._put(number, 0, groups)
            self.devices[number, : len(devices)] = np.maximum(devices, 0)

    def _put(self, number_of_class: int, first: int, groups: Sequence[Placement]) -> NDArray[np.int64]:
        """Fill the rows from ``first`` on. Returns the configs' devices, (C, D), -1 behind the last part."""
        counts = [len(placement.devices) for placement in groups]
        devices = np.full((sum(counts), len(self._kinds)), -1)
        end = 0
        for count, placement in zip(counts, groups, strict=True):
            devices[end : end + count, : placement.devices.shape[1]] = placement.devices
            end += count
        rows = self._rows(self._examples[number_of_class], groups, np.repeat(np.arange(len(groups)), counts), devices)
        here = number_of_class, slice(first, first + end)
        self.features[here], self.local_time[here] = rows.features, rows.local_time
        self.busy[here], self.memory[here] = rows.busy, rows.memory
        self.parts[here] = (devices >= 0).sum(axis=1)
        return devices

    def _rows(
        self, position: int, groups: Sequence[Placement], numbers: NDArray[np.int64], devices: NDArray[np.int64]
    ) -> ConfigRows:
        """Rows of one operator's configs: ``numbers`` (C,) of their groups, and their ``devices`` (C, D)."""
        operator, num_devices = self.problem.graph.operators[position], len(self._kinds)
        every_degrees = [placement.degrees for placement in groups]
        shard_bytes = np.array([self._shard_bytes(operator, degrees) for degrees in every_degrees])
        shard_bytes = shard_bytes / self._sharers.get(position, 1)
        has_update = self.problem.training and operator.num_weight_elements > 0
        saved_bytes = np.array([self.problem.saved_bytes(operator, degrees) for degrees in every_degrees])
        whole, split = self.problem.sync.copies(training=self.problem.training)
        num_holders = np.array([_num_holders(operator, degrees) for degrees in every_degrees])
        kept_bytes = saved_bytes + (whole + split / num_holders) * shard_bytes
        row, slot = np.nonzero(devices >= 0)
        device, number = devices[row, slot], numbers[row]
        ns_of_part = np.array([self._part_ns(operator, degrees) for degrees in every_degrees])
        part_ns = np.zeros(devices.shape)
        part_ns[row, slot] = ns_of_part[number, self._kinds[device]]
        launch_ns, ns_per_byte = self._updates[device].T
        # Outside the space, a device may have several parts.
        busy, memory = np.zeros((2, *devices.shape))
        update_ns = has_update * (launch_ns + ns_per_byte * shard_bytes[number])
        np.add.at(busy, (row, device), part_ns[row, slot] + update_ns)
        np.add.at(memory, (row, device), kept_bytes[number] / self._capacity[device])

        exchange_ns = np.concatenate([self._exchange_ns(operator, placement) for placement in groups])
        pairs = zip(groups, shard_bytes.tolist(), strict=True)
        sync_ns = np.concatenate([self._sync_ns(operator, placement, num_bytes) for placement, num_bytes in pairs])
        times = np.stack([part_ns.max(axis=1), part_ns.sum(axis=1), exchange_ns, sync_ns], axis=1) / self._iteration_ns
        degrees_by_dim = np.array(every_degrees)
        labels = np.array([dim.label for dim in operator.dims])
        by_label = [degrees_by_dim[:, labels == label].prod(axis=1) for label in "SAP"]
        degrees = np.log2(np.stack([*by_label, degrees_by_dim.prod(axis=1)], axis=1)) / max(1.0, math.log2(num_devices))
        places = np.concatenate([placement.places for placement in groups])
        columns = degrees[numbers], places, self.scaled(times.astype(np.float32))
        return ConfigRows(
            np.concatenate(columns, axis=1).astype(np.float32),
            (busy / self._iteration_ns).astype(np.float32),
            memory.astype(np.float32),
            times[:, 0] + times[:, 2] + times[:, 3],
        )

    def _part_ns(self, operator: Operator, degrees: tuple[int, ...]) -> NDArray[np.float64]:
        """Forward and backward of a part on each device kind."""
        last = 2 if self.problem.training else 1
        kinds = self.problem.topology.device_kinds
        times = [sum(self.problem.cost.part_ns(operator, degrees, kind)[:last]) for kind in kinds]
        return np.array(times, dtype=np.float64)

    def _exchange_ns(self, operator: Operator, placement: Placement) -> NDArray[np.float64]:
        """Exchanges of all groups of parts, forward and backward (the durations of ``sim.collectives``)."""
        exchange, degrees = operator.exchange, placement.degrees
        if exchange is None:
            return np.zeros(len(placement.devices))
        kept = tuple(dim for dim in range(len(degrees)) if dim not in exchange.across)
        size = math.prod(degrees[dim] for dim in exchange.across)
        latency, ns_per_byte = self._placements.ring_loads(placement, kept)
        extents = (operator.sizes[dim] // degrees[dim] for dim in exchange.over)
        message_ns = BYTES_PER_ELEMENT * exchange.factor * math.prod(extents) * ns_per_byte
        steps = size - 1 if exchange.kind == "all_gather" else 2 * (size - 1).bit_length()
        times: NDArray[np.float64] = (1 + self.problem.training) * exchange.rounds * steps * (latency + message_ns)
        return times

    def _sync_ns(self, operator: Operator, placement: Placement, shard_bytes: float) -> NDArray[np.float64]:
        """Ring all-reduces of all shards, whatever the scheme: an estimate of how much there is to synchronise."""
        if not shard_bytes or not self.problem.training:
            return np.zeros(len(placement.devices))
        assert operator.weight is not None
        kept = () if operator.weight.dim == WHOLE else (operator.weight.dim,)
        size = _num_holders(operator, placement.degrees)
        latency, ns_per_byte = self._placements.ring_loads(placement, kept)
        summing_ns = (size - 1) * (shard_bytes / size * self.problem.topology.reduce_ns_per_byte)
        times: NDArray[np.float64] = 2 * (size - 1) * (latency + shard_bytes / size * ns_per_byte) + summing_ns
        return times

    @staticmethod
    def _shard_bytes(operator: Operator, degrees: Sequence[int]) -> float:
        """Bytes of weights that a part holds."""
        return BYTES_PER_ELEMENT * operator.num_weight_elements / _num_shards(operator, degrees)


def _num_shards(operator: Operator, degrees: Sequence[int]) -> int:
    """Parts into which the weights are cut."""
    return 1 if operator.weight is None or operator.weight.dim == WHOLE else degrees[operator.weight.dim]


def _num_holders(operator: Operator, degrees: Sequence[int]) -> int:
    """Parts that hold the same weights."""
    return math.prod(degrees) // _num_shards(operator, degrees)


def _shape(operator: Operator, *, is_named: bool) -> Operator:
    """The operator without what does not change its own costs; a cost table looks names up."""
    weight = operator.weight and replace(operator.weight, group="")
    inputs = tuple(replace(read, producer="", output=0) for read in operator.inputs)
    return replace(operator, name=operator.name if is_named else "", inputs=inputs, weight=weight)
