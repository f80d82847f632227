"""DegreeBounds: the least that each degree tuple of an operator costs, wherever its parts are placed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.collectives import rounded
from sim.errors import UnknownNameError
from sim.operator_graph import BYTES_PER_ELEMENT, Operator
from sim.problem import Problem
from sim.space import degree_tuples
from sim.strategy import ParallelConfig

Ints = NDArray[np.int64]

WORK = 3
"""Place of ``DegreeBounds.work`` among its fields."""


@dataclass(frozen=True, slots=True)
class DegreeBounds:
    """Lower bounds for the configs that are open to an operator, a row for each degree tuple; all ns.

    Attributes:
        forward: (R,) of the task and the exchange of one part.
        backward: (R,) the same, backward; 0 without training.
        both: (R,) forward and backward of one part, exchanges included; on one device kind, unlike their minima.
        work: (R,) of all parts' forward and backward tasks on compute devices.
        updates: (R,) of all update tasks on compute devices; 0 if serial.
        ending: (R,) from the end of a part's backward task to the update of what it holds; 0 if serial.
        serial: (R,) what the operator adds behind the last backward task; 0 if overlapped.
    """

    forward: Ints
    backward: Ints
    both: Ints
    work: Ints
    updates: Ints
    ending: Ints
    serial: Ints


class Network:
    """The best that a topology can do for messages between distinct devices."""

    def __init__(self, problem: Problem) -> None:
        topology = problem.topology
        num_devices = topology.num_devices
        nodes = topology.node_numbers
        self.node_devices = int(np.bincount(nodes).max())
        routes = topology.route_arrays()
        is_pair = ~np.eye(num_devices, dtype=bool).ravel()
        is_crossing = (nodes[:, None] != nodes).ravel()
        self._best = [
            (int(routes.latency_ns[kept].min(initial=2**62)), float(routes.bandwidth[kept].max(initial=0.0)))
            for kept in (is_pair, is_crossing)
        ]

    def best(self, num_participants: int) -> tuple[int, float]:
        """Least latency in ns and greatest bandwidth in GB/s of a ring.

        Its slowest hop takes at least the latency of any of its hops and is no wider than any; if the participants
        do not fit into a node, one hop crosses nodes.
        """
        return self._best[num_participants > self.node_devices]


class DegreeBoundsMaker:
    """Prices degree tuples and configs for bounds.

    Args:
        problem: graph, topology, costs, space and synchronisation.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.network = Network(problem)
        self.num_members: dict[str, int] = {}
        self.is_first: set[int] = set()
        for group, members in problem.graph.weight_groups.items():
            self.num_members[group] = len(members)
            self.is_first.add(members[0])
        space = problem.space
        self.is_distinct = space.variant != "free" or "O" not in space.dims
        self.updates = {kind: problem.cost.update_ns(kind) for kind in problem.topology.device_kinds}

    def open(self, position: int) -> DegreeBounds:
        """All degree tuples of the space that the cost source knows; work on the fastest kind of device.

        Raises:
            UnknownNameError: the cost source knows none of them.
        """
        operator = self.problem.graph.operators[position]
        is_open = tuple(bool(dim.label) and dim.label in self.problem.space.dims for dim in operator.dims)
        rows, error = [], None
        for degrees in degree_tuples(operator.sizes, is_open, self.problem.topology.num_devices):
            try:
                rows.append(self._row(position, degrees, self.problem.topology.device_kinds, self.is_distinct))
            except UnknownNameError as unknown:  # a table may hold only the degrees of a worked example
                error = unknown
        if not rows and error is not None:
            raise error
        return DegreeBounds(*np.array(rows, dtype=np.int64).T)

    def decided(self, position: int, config: ParallelConfig) -> DegreeBounds:
        """One config, with the true time of every part."""
        devices = [self.problem.topology.devices[device].kind for device in config.devices]
        is_distinct = len(set(config.devices)) == config.num_tasks
        kinds = tuple(dict.fromkeys(devices))
        row = list(self._row(position, config.degrees, kinds, is_distinct))
        times = {kind: self._part_ns(position, config.degrees, kind) for kind in kinds}
        row[WORK] += sum(sum(times[kind]) for kind in devices)
        row[WORK] -= config.num_tasks * min(sum(time) for time in times.values())
        return DegreeBounds(*np.array([row], dtype=np.int64).T)

    def _part_ns(self, position: int, degrees: tuple[int, ...], kind: str) -> tuple[int, int]:
        forward, backward = self.problem.cost.part_ns(self.problem.graph.operators[position], degrees, kind)
        return forward, backward if self.problem.training else 0

    def _row(self, position: int, degrees: tuple[int, ...], kinds: Sequence[str], is_distinct: bool) -> tuple[int, ...]:
        operator, num_parts = self.problem.graph.operators[position], math.prod(degrees)
        times = [self._part_ns(position, degrees, kind) for kind in kinds]
        exchange = self._exchange_ns(operator, degrees) if is_distinct else 0
        least = min(map(sum, times))
        forward = min(time[0] for time in times) + exchange
        backward = min(time[1] for time in times) + exchange * self.problem.training
        both = least + exchange * (1 + self.problem.training)
        synchronisation = 0, 0, 0
        if operator.weight is not None and self.problem.training:
            synchronisation = self._sync_row(position, operator, degrees, kinds, is_distinct)
        return forward, backward, both, num_parts * least, *synchronisation

    def _exchange_ns(self, operator: Operator, degrees: tuple[int, ...]) -> int:
        """An exchange between parts on distinct devices, on the best ring that there can be."""
        exchange = operator.exchange
        size = math.prod(degrees[dim] for dim in exchange.across) if exchange is not None else 1
        if exchange is None or size == 1:
            return 0
        message = BYTES_PER_ELEMENT * exchange.factor
        message *= math.prod(operator.sizes[dim] // degrees[dim] for dim in exchange.over)
        latency, bandwidth = self.network.best(size)
        if exchange.kind == "all_reduce":
            return rounded(2 * (size - 1).bit_length() * exchange.rounds * (latency + message / bandwidth))
        return rounded((size - 1) * exchange.rounds * (latency + message * size / (size * bandwidth)))

    def _sync_row(
        self, position: int, operator: Operator, degrees: tuple[int, ...], kinds: Sequence[str], is_distinct: bool
    ) -> tuple[int, int, int]:
        """Least time of updates on devices, of the end of a chain, and behind the last backward task.

        Operators that share weights cut them finer than one of them does, and have more holders together, so the
        first one stands for its group. A scheme that is not one of the two below adds nothing. In a bucket, others
        may pay for latencies and launches, but what a group adds to a duration is no less than its whole ns.
        """
        sync, is_shared = self.problem.sync, self.problem.sync.bucket_mb is not None
        assert operator.weight is not None
        if sync.scheme not in ("ring", "parameter_server"):
            return 0, 0, 0
        is_ring, is_alone = sync.scheme == "ring", self.num_members[operator.weight.group] == 1
        all_bytes = BYTES_PER_ELEMENT * operator.num_weight_elements
        num_shards = degrees[operator.weight.dim] if operator.weight.dim >= 0 else 1
        num_bytes, num_holders = all_bytes // num_shards, math.prod(degrees) // num_shards if is_distinct else 1
        pieces = num_shards if is_alone else operator.num_weight_units
        # A server may update as little as one unit of weights that others cut too.
        updated = num_bytes if is_alone or is_ring else all_bytes // operator.num_weight_units
        update = self._update_ns(updated, kinds if is_ring and is_alone else tuple(self.updates))
        if not sync.overlap:
            serial = self._messages_ns(num_shards, num_holders, num_bytes, is_ring, is_shared=is_shared)
            if not is_alone:  # each message about one of the finer shards is rounded
                serial -= pieces * (1 if is_ring else 2 * (num_holders - 1))
            return 0, 0, (max(0, serial) + (0 if is_shared else update)) * (position in self.is_first)
        ending = update + (self._messages_ns(1, num_holders, num_bytes, is_ring, is_chain=True) if is_alone else 0)
        if position not in self.is_first:
            return 0, ending, 0
        if is_distinct and (is_ring or is_alone):
            if is_shared:
                update = self._update_ns(updated, tuple(self.updates), is_shared=True)
            return num_shards * (num_holders if is_ring else 1) * update, ending, 0
        pieces = pieces if not is_ring else len(self.problem.topology.devices)
        return self._all_updates_ns(all_bytes, pieces, is_shared=is_shared), ending, 0

    def _messages_ns(
        self,
        num_shards: int,
        num_holders: int,
        num_bytes: int,
        is_ring: bool,
        *,
        is_chain: bool = False,
        is_shared: bool = False,
    ) -> int:
        """Time of the messages about some shards, one after another; those of one chain if ``is_chain``."""
        if num_holders == 1:
            return 0
        latency, bandwidth = self.network.best(num_holders if is_ring else 2)
        if is_shared:
            latency = 0
        if is_ring:
            step = latency + num_bytes / (num_holders * bandwidth)
            time = 2 * (num_holders - 1) * step
            return num_shards * (int(time) if is_shared else rounded(time))
        # The chain may end at the server, which pushes nothing.
        num_messages = 1 if is_chain else 2 * (num_holders - 1) * num_shards
        time = latency + num_bytes / bandwidth
        return num_messages * (int(time) if is_shared else rounded(time))

    def _update_ns(self, num_bytes: int, kinds: Sequence[str], *, is_shared: bool = False) -> int:
        if is_shared:
            return min(int(num_bytes * self.updates[kind][1]) for kind in kinds)
        return min(rounded(launch + num_bytes * per_byte) for launch, per_byte in (self.updates[k] for k in kinds))

    def _all_updates_ns(self, num_bytes: int, max_pieces: int, *, is_shared: bool) -> int:
        """Least time of at most so many updates of some bytes in total, each rounded."""
        launch = min(launch for launch, _ in self.updates.values()) - 0.5
        per_byte = min(per_byte for _, per_byte in self.updates.values())
        if is_shared:
            return max(0, int(num_bytes * per_byte) - max_pieces)
        return max(0, math.ceil(num_bytes * per_byte + min(launch, launch * max_pieces) - 1e-3))
