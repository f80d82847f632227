"""ConfigTable: every legal config of every operator, with what it costs on its own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sim.collectives import ring_through
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
class ConfigRow:
    """What is known of one config of one operator; times in iterations of data parallelism.

    Attributes:
        features: (len(CONFIG_FEATURES),).
        busy: (D,) time of forward, backward and update on each device.
        memory: (D,) share of each device's memory.
        local_time: part, exchange and synchronisation, one after another.
    """

    features: Floats
    busy: Floats
    memory: Floats
    local_time: float


class ConfigTable:
    """The legal configs of all operators, by number. Operators of equal shape share their rows.

    The numbers of a class's configs are their indices in the space. A strategy from outside may hold others; they get
    numbers behind all of these when they are first met.

    Args:
        problem: graph, topology and costs.
        space: the legal configs; enumerable.

    Attributes:
        operator_class: (N,) class of each operator.
        configs: for each class, its configs by number.
        num_configs: (K,) configs of each class in the space.
        features: (K, W, F) those of ``ConfigRow``, zero where there is no such config, as the rest.
        local_time: (K, W).
        parts: (K, W).
        devices: (K, W, D) of the parts; configs of the space only.
        busy, memory: (K, W, D).
    """

    def __init__(self, problem: Problem, space: SoapSpace) -> None:
        self.problem, self.space = problem, space
        topology, graph = problem.topology, problem.graph
        self._nodes = np.unique([device.node for device in topology.devices], return_inverse=True)[1]
        self._kinds = np.array([topology.device_kinds.index(device.kind) for device in topology.devices])
        self._capacity = np.array([device.memory_bytes for device in topology.devices], dtype=np.float64)
        self._updates = np.array([problem.cost.update_ns(kind) for kind in topology.device_kinds])[self._kinds]
        self._iteration_ns = max(1, problem.data_parallel_ns)
        self._sharers = {m: len(group) for group in graph.weight_groups.values() for m in group}
        self._part_times: dict[tuple[int, tuple[int, ...]], NDArray[np.float64]] = {}
        self._rings: dict[tuple[tuple[int, ...], ...], tuple[float, float]] = {}

        keys = [_shape(operator, is_named=isinstance(problem.cost, TableCost)) for operator in graph.operators]
        classes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        self.operator_class = np.array([classes[key] for key in keys], dtype=np.int64)
        self._examples = [keys.index(key) for key in classes]
        self.configs: list[dict[int, ParallelConfig]] = [
            {index: space.config(example, index) for index in range(space.num_configs(example))}
            for example in self._examples
        ]
        self.num_configs = np.array([len(configs) for configs in self.configs], dtype=np.int64)
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
        known = self.configs[number_of_class]
        for number in range(int(self.num_configs.max()), self.width):
            if known.get(number) == config:
                return number
        number = self.width
        for name in ("features", "local_time", "parts", "devices", "busy", "memory"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros_like(array[:, :1])], axis=1))
        self._put(number_of_class, number, config)
        return number

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
        for number, configs in enumerate(self.configs):
            for index, config in configs.items():
                self._put(number, index, config)
                self.devices[number, index, : config.num_tasks] = config.devices

    def _put(self, number_of_class: int, number: int, config: ParallelConfig) -> None:
        row = self._row(self._examples[number_of_class], config)
        self.configs[number_of_class][number] = config
        self.features[number_of_class, number] = row.features
        self.local_time[number_of_class, number] = row.local_time
        self.parts[number_of_class, number] = config.num_tasks
        self.busy[number_of_class, number], self.memory[number_of_class, number] = row.busy, row.memory

    def _row(self, position: int, config: ParallelConfig) -> ConfigRow:
        operator = self.problem.graph.operators[position]
        devices = np.array(config.devices)
        part_ns = self._part_ns(position, config.degrees)[self._kinds[devices]]
        shard_bytes = self._shard_bytes(operator, config.degrees) / self._sharers.get(position, 1)
        exchange_ns, sync_ns = self._exchange_ns(operator, config), self._sync_ns(operator, config, shard_bytes)
        num_devices = len(self._nodes)
        busy, memory = np.zeros(num_devices), np.zeros(num_devices)
        launch_ns, ns_per_byte = self._updates[devices].T
        has_update = bool(shard_bytes) and self.problem.training
        np.add.at(busy, devices, part_ns + has_update * (launch_ns + ns_per_byte * shard_bytes))
        copies = 2 + self.problem.sync.optimizer_copies
        saved_bytes = self.problem.saved_bytes(operator, config.degrees)
        np.add.at(memory, devices, (saved_bytes + copies * shard_bytes) / self._capacity[devices])

        times = np.array([part_ns.max(), part_ns.sum(), exchange_ns, sync_ns]) / self._iteration_ns
        degrees = [
            math.prod(k for k, dim in zip(config.degrees, operator.dims, strict=True) if dim.label == label)
            for label in "SAP"
        ]
        log_degrees = np.log2([*degrees, config.num_tasks]) / max(1.0, math.log2(num_devices))
        places = [
            len(set(self._nodes[devices].tolist())) / (self._nodes.max() + 1),
            devices.min() / num_devices,
            (devices.max() - devices.min() + 1) / num_devices,
        ]
        return ConfigRow(
            np.concatenate([log_degrees, places, self.scaled(times.astype(np.float32))]).astype(np.float32),
            (busy / self._iteration_ns).astype(np.float32),
            memory.astype(np.float32),
            float(times[0] + times[2] + times[3]),
        )

    def _part_ns(self, position: int, degrees: tuple[int, ...]) -> NDArray[np.float64]:
        """Forward and backward of a part on each device kind."""
        key = (position, degrees)
        if key not in self._part_times:
            operator, last = self.problem.graph.operators[position], 2 if self.problem.training else 1
            times = [
                sum(self.problem.cost.part_ns(operator, degrees, kind)[:last])
                for kind in self.problem.topology.device_kinds
            ]
            self._part_times[key] = np.array(times, dtype=np.float64)
        return self._part_times[key]

    def _exchange_ns(self, operator: Operator, config: ParallelConfig) -> float:
        """Exchanges of all groups of parts, forward and backward (the durations of ``sim.collectives``)."""
        exchange = operator.exchange
        if exchange is None:
            return 0.0
        kept = [dim for dim in range(len(config.degrees)) if dim not in exchange.across]
        groups = _groups(config, kept)
        size = len(groups[0])
        latency, ns_per_byte = self._ring_load(groups)
        extents = (operator.sizes[dim] // config.degrees[dim] for dim in exchange.over)
        message_ns = BYTES_PER_ELEMENT * exchange.factor * math.prod(extents) * ns_per_byte
        steps = size - 1 if exchange.kind == "all_gather" else 2 * (size - 1).bit_length()
        return (1 + self.problem.training) * exchange.rounds * steps * (latency + message_ns)

    def _sync_ns(self, operator: Operator, config: ParallelConfig, shard_bytes: float) -> float:
        """Ring all-reduces of all shards, whatever the scheme: an estimate of how much there is to synchronise."""
        if not shard_bytes or not self.problem.training:
            return 0.0
        assert operator.weight is not None
        groups = _groups(config, [] if operator.weight.dim == WHOLE else [operator.weight.dim])
        size = len(groups[0])
        latency, ns_per_byte = self._ring_load(groups)
        summing = (size - 1) * (shard_bytes / size * self.problem.topology.reduce_ns_per_byte)
        return 2 * (size - 1) * (latency + shard_bytes / size * ns_per_byte) + summing

    def _ring_load(self, groups: tuple[tuple[int, ...], ...]) -> tuple[float, float]:
        """Latency and ns per byte of one hop of rings through the groups, on the connection that most of them share."""
        if groups not in self._rings:
            latency: dict[int, float] = {}
            ns_per_byte: dict[int, float] = {}
            for group in groups:
                ring = ring_through(self.problem.topology, group)
                for connection in ring.connections:
                    latency[connection] = latency.get(connection, 0.0) + ring.latency_ns
                    ns_per_byte[connection] = ns_per_byte.get(connection, 0.0) + 1 / ring.bandwidth_gb_per_s
            self._rings[groups] = (max(latency.values(), default=0.0), max(ns_per_byte.values(), default=0.0))
        return self._rings[groups]

    @staticmethod
    def _shard_bytes(operator: Operator, degrees: Sequence[int]) -> float:
        """Bytes of weights that a part holds."""
        if operator.weight is None:
            return 0.0
        cut = 1 if operator.weight.dim == WHOLE else degrees[operator.weight.dim]
        return BYTES_PER_ELEMENT * operator.num_weight_elements / cut


def _shape(operator: Operator, *, is_named: bool) -> Operator:
    """The operator without what does not change its own costs; a cost table looks names up."""
    weight = operator.weight and replace(operator.weight, group="")
    inputs = tuple(replace(read, producer="", output=0) for read in operator.inputs)
    return replace(operator, name=operator.name if is_named else "", inputs=inputs, weight=weight)


def _groups(config: ParallelConfig, kept: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Devices of the parts that agree along the ``kept`` dimensions."""
    others = [dim for dim in range(len(config.degrees)) if dim not in kept]
    devices = np.array(config.devices).reshape(config.degrees).transpose(*kept, *others)
    num_groups = math.prod(config.degrees[dim] for dim in kept)
    return tuple(map(tuple, devices.reshape(num_groups, -1).tolist()))
