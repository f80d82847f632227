"""AdditiveBounds: lower bounds that are sums over operators and pairs of operators, for explicit configs.

A device does one thing at a time, so an iteration takes at least the time of all that it computes. Tasks that wait
for each other follow each other, so it takes at least the time of any path. Both are sums over operators and over
pairs of operators that share an edge or weights, and so is every weighted mean of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from sim.chains import every_element_is_read, every_reader_is_fed
from sim.collectives import ring_all_reduce_ns, ring_through, rounded
from sim.degree_bounds import DegreeBounds, DegreeBoundsMaker, Ints
from sim.flows import intersection, needed_box, volume, weight_interval, written_box
from sim.operator_graph import BYTES_PER_ELEMENT, Edge
from sim.problem import Problem
from sim.strategy import ParallelConfig

WEIGHT_BITS = 12
"""The weights of a mean are whole numbers that add up to 2 to this power."""

MAX_PAIR_ENTRIES = 2**18
"""Pairs of operators with more pairs of configs are bounded as if they had nothing to do with each other."""

MAX_GROUP_ENTRIES = 2**14
"""The same for two operators that share weights, whose pairs take longer."""

ALL_REDUCES = ("ring", "halving_doubling", "hierarchical", "byteps")
"""Schemes in which a device updates all that it holds of a weight group in one task."""

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Path:
    """Operators whose tasks wait for each other: forward tasks, then backward tasks of the same last operator.

    Attributes:
        forward: positions, each an operator that the next one reads.
        backward: positions, each read by the one before it; starts with the last of ``forward``. Empty if nothing is
            trained.
    """

    forward: tuple[int, ...]
    backward: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """A weighted mean of bounds, in units of 2 ** -WEIGHT_BITS ns: one cost per operator, one per pair.

    Attributes:
        unary: for each operator, (C,).
        pairs: for operators u < v, (C of u, C of v).
    """

    unary: list[Ints]
    pairs: dict[Pair, Ints]


class AdditiveBounds:
    """What every strategy that takes its configs from given ones needs at least, as sums.

    The time of a device: the forward and backward tasks on it, exactly; its updates, exactly where the scheme has one
    update for each device and group, overlapped, and the group has one or two members (of more, its first one
    counts), else nothing. A path: for each operator the least task and exchange of a part; for each edge the least,
    over the parts that wait, of the longest transfer that they wait for; at its end, behind the last backward task,
    the least synchronisation and update. Serial synchronisation is added to everything.

    Args:
        problem: graph, topology, costs and synchronisation.
        configs: for each operator, those that it may take.
        look: is called often; may raise.
    """

    def __init__(
        self,
        problem: Problem,
        configs: Sequence[Sequence[ParallelConfig]],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        self.problem, self.configs = problem, [list(members) for members in configs]
        self.num_devices = problem.topology.num_devices
        maker = DegreeBoundsMaker(problem)
        rows: list[DegreeBounds] = []
        for o, members in enumerate(self.configs):
            look()
            rows.append(_stacked([maker.decided(o, config) for config in members]))
        self.serial, self.ending = [own.serial for own in rows], [own.ending for own in rows]
        self.forward, self.backward = [own.forward for own in rows], [own.backward for own in rows]
        self.busy = [self._busy(o) for o in range(len(problem.graph))]
        self.busy_pairs: dict[Pair, Ints] = {}
        self.ending_pairs: dict[Pair, tuple[Ints, Ints]] = {}
        sync = problem.sync
        if problem.training and sync.overlap and sync.bucket_mb is None and sync.scheme in ALL_REDUCES:
            for sharers in problem.graph.weight_groups.values():
                look()
                self._add_group(sharers)
        self.delays: dict[Pair, tuple[Ints, Ints]] = {}
        known: dict[object, tuple[Ints, Ints]] = {}
        self._is_fed: set[Pair] = set()
        self._is_read: set[Pair] = set()
        for edge in problem.graph.edges:
            look()
            self._add_edge(edge, known)

    def network(self, parts: Sequence[tuple[int, int | Path]]) -> Network:
        """A weighted mean: the iteration takes at least its sum for any choice, divided by 2 ** WEIGHT_BITS.

        Args:
            parts: weight and device, or weight and path; the weights add up to 2 ** WEIGHT_BITS.
        """
        whole = sum(weight for weight, _ in parts)
        assert whole == 1 << WEIGHT_BITS, "the weights of a mean add up to one"
        unary = [whole * serial for serial in self.serial]
        pairs: dict[Pair, Ints] = {}

        def add(pair: Pair, table: Ints) -> None:
            pairs[pair] = pairs[pair] + table if pair in pairs else table

        on_device = np.zeros(self.num_devices, np.int64)
        for weight, bound in parts:
            if isinstance(bound, Path):
                for o in bound.forward:
                    unary[o] = unary[o] + weight * self.forward[o]
                for o in bound.backward:
                    unary[o] = unary[o] + weight * self.backward[o]
                for pair in pairwise(bound.forward):
                    if pair in self.delays:
                        add(pair, weight * self.delays[pair][0])
                for after, before in pairwise(bound.backward):
                    if (before, after) in self.delays:
                        add((before, after), weight * self.delays[before, after][1])
                if bound.backward:
                    last = bound.backward[-1]
                    partner = self._partner.get(last)
                    if partner is None:
                        unary[last] = unary[last] + weight * self.ending[last]
                    else:
                        add(partner, weight * self.ending_pairs[partner][partner.index(last)])
            else:
                on_device[bound] += weight
        if on_device.any():
            for o, busy in enumerate(self.busy):
                unary[o] = unary[o] + busy @ on_device
            for pair, table in self.busy_pairs.items():
                add(pair, table @ on_device)
        return Network(unary, pairs)

    def longest_path(self, choice: Sequence[int]) -> Path:
        """The longest path of a strategy, given by the numbers of its configs."""
        graph = self.problem.graph
        ahead, source = [0] * len(graph), [-1] * len(graph)
        for o in range(len(graph)):
            for u, v in self._incoming[o]:
                if (u, v) in self._is_fed:
                    value = ahead[u] + self._delay((u, v), 0, choice)
                    if value > ahead[o] or source[o] < 0:
                        ahead[o], source[o] = value, u
            ahead[o] += int(self.forward[o][choice[o]])
        behind, target = [0] * len(graph), [-1] * len(graph)
        best, sink = -1, 0
        for o in range(len(graph)):
            if self.problem.training:
                behind[o] = self._ending(o, choice)
                for u, v in self._incoming[o]:
                    if (u, v) in self._is_read:
                        value = behind[u] + self._delay((u, v), 1, choice)
                        if value > behind[o]:
                            behind[o], target[o] = value, u
                behind[o] += int(self.backward[o][choice[o]])
            if ahead[o] + behind[o] > best:
                best, sink = ahead[o] + behind[o], o
        forward, backward = [sink], [sink]
        while source[forward[-1]] >= 0:
            forward.append(source[forward[-1]])
        while target[backward[-1]] >= 0:
            backward.append(target[backward[-1]])
        return Path(tuple(reversed(forward)), tuple(backward) if self.problem.training else ())

    def value(self, network: Network, choice: Sequence[int]) -> int:
        """The sum of a network for one choice."""
        total = sum(int(costs[c]) for costs, c in zip(network.unary, choice, strict=True))
        return total + sum(int(table[choice[u], choice[v]]) for (u, v), table in network.pairs.items())

    @cached_property
    def _incoming(self) -> list[list[Pair]]:
        found: list[list[Pair]] = [[] for _ in self.problem.graph.operators]
        for pair in dict.fromkeys((edge.src, edge.dst) for edge in self.problem.graph.edges):
            found[pair[1]].append(pair)
        return found

    @cached_property
    def _partner(self) -> Mapping[int, Pair]:
        """Of operators that end paths together with another one: the pair of both."""
        return {o: pair for pair in self.ending_pairs for o in pair}

    def _delay(self, pair: Pair, way: int, choice: Sequence[int]) -> int:
        if pair not in self.delays:
            return 0
        return int(self.delays[pair][way][choice[pair[0]], choice[pair[1]]])

    def _ending(self, o: int, choice: Sequence[int]) -> int:
        partner = self._partner.get(o)
        if partner is None:
            return int(self.ending[o][choice[o]])
        return int(self.ending_pairs[partner][partner.index(o)][choice[partner[0]], choice[partner[1]]])

    def _busy(self, o: int) -> Ints:
        """(C, D) time of forward and backward tasks on each device."""
        operator, problem = self.problem.graph.operators[o], self.problem
        busy = np.zeros((len(self.configs[o]), self.num_devices), np.int64)
        for c, config in enumerate(self.configs[o]):
            for device in config.devices:
                forward, backward = problem.cost.part_ns(
                    operator, config.degrees, problem.topology.devices[device].kind
                )
                busy[c, device] += forward + (backward if problem.training else 0)
        return busy

    def _add_group(self, members: Sequence[int]) -> None:
        """Updates of a weight group on devices, and what ends the paths to its operators."""
        first = members[0]
        if len(members) == 2 and len(self.configs[first]) * len(self.configs[members[1]]) <= MAX_GROUP_ENTRIES:
            self._add_two(first, members[1])
            return
        groups = [_Group(self.problem, members[:1], (config,)) for config in self.configs[first]]
        self.busy[first] += np.array([group.updates for group in groups])
        if len(members) == 1:
            ending = np.array([group.endings[0] for group in groups], dtype=np.int64)
            self.ending[first] = np.maximum(self.ending[first], ending)

    def _add_two(self, first: int, second: int) -> None:
        """The same for a group of two operators: by pairs of their configs."""
        shape = len(self.configs[first]), len(self.configs[second])
        busy: Ints = np.zeros((*shape, self.num_devices), np.int64)
        endings: Ints = np.zeros((2, *shape), np.int64)
        for a, one in enumerate(self.configs[first]):
            for b, other in enumerate(self.configs[second]):
                group = _Group(self.problem, (first, second), (one, other))
                busy[a, b], endings[:, a, b] = group.updates, group.endings
        self.busy_pairs[first, second] = busy
        alone = self.ending[first][:, None], self.ending[second][None, :]
        self.ending_pairs[first, second] = np.maximum(endings[0], alone[0]), np.maximum(endings[1], alone[1])

    def _add_edge(self, edge: Edge, known: dict[object, tuple[Ints, Ints]]) -> None:
        pair, graph = (edge.src, edge.dst), self.problem.graph
        if every_reader_is_fed(graph, edge):
            self._is_fed.add(pair)
        if every_element_is_read(graph, edge):
            self._is_read.add(pair)
        if len(self.configs[edge.src]) * len(self.configs[edge.dst]) > MAX_PAIR_ENTRIES:
            return
        src, dst = graph.operators[edge.src], graph.operators[edge.dst]
        tensor, windows = src.outputs[edge.output], dst.inputs[edge.input].windows
        key = (src.sizes, dst.sizes, tensor, windows, tuple(self.configs[edge.src]), tuple(self.configs[edge.dst]))
        if key not in known:
            known[key] = self._price_edge(edge)
        delays = known[key]
        if pair in self.delays:
            delays = (np.maximum(delays[0], self.delays[pair][0]), np.maximum(delays[1], self.delays[pair][1]))
        self.delays[pair] = delays

    def _price_edge(self, edge: Edge) -> tuple[Ints, Ints]:
        """Least delays of an edge, forward and backward, for all pairs of configs."""
        problem, routes = self.problem, self.problem.topology.route_arrays()
        latency = routes.latency_ns.reshape(self.num_devices, -1)
        bandwidth = routes.bandwidth.reshape(self.num_devices, -1)
        src, dst = self.configs[edge.src], self.configs[edge.dst]
        delays = np.zeros((len(src), len(dst)), np.int64), np.zeros((len(src), len(dst)), np.int64)
        for a in _alike(src):
            sending = np.array([src[c].devices for c in a])[:, None, :, None]
            for b in _alike(dst):
                receiving = np.array([dst[c].devices for c in b])[None, :, None, :]
                sizes = _bytes(problem, edge, src[a[0]], dst[b[0]])
                for way, ends in enumerate(((sending, receiving), (receiving, sending))):
                    is_sent = (sending != receiving) & (sizes > 0)
                    times = latency[ends] + sizes / np.where(is_sent, bandwidth[ends], 1.0) + 0.5
                    times = np.where(is_sent, times, 0).astype(np.int64)
                    # Forward, each reading part waits for all that it reads; backward, each part for its readers.
                    delays[way][np.ix_(a, b)] = times.max(axis=2 + way).min(axis=2)
        return delays


def _stacked(rows: Sequence[DegreeBounds]) -> DegreeBounds:
    names = ("forward", "backward", "both", "work", "updates", "ending", "serial")
    return DegreeBounds(*(np.concatenate([getattr(row, name) for row in rows]) for name in names))


def _alike(configs: Sequence[ParallelConfig]) -> list[list[int]]:
    """Numbers of configs with the same degrees."""
    found: dict[tuple[int, ...], list[int]] = {}
    for c, config in enumerate(configs):
        found.setdefault(config.degrees, []).append(c)
    return list(found.values())


def _bytes(problem: Problem, edge: Edge, src: ParallelConfig, dst: ParallelConfig) -> Ints:
    """(parts, parts) bytes that each part of the consumer reads of each part of the producer."""
    graph = problem.graph
    producer, consumer = graph.operators[edge.src], graph.operators[edge.dst]
    written = [written_box(producer, edge.output, src.box(producer, part)) for part in range(src.num_tasks)]
    needed = [needed_box(graph, edge, dst.box(consumer, part)) for part in range(dst.num_tasks)]
    return BYTES_PER_ELEMENT * np.array([[volume(intersection(w, n)) for n in needed] for w in written], dtype=np.int64)


class _Group:
    """Updates of a weight group whose members have these configs, and what is left behind its backward tasks.

    Attributes:
        updates: (D,) time of the update on each device.
        endings: for each member, the least time from the end of the backward task of a part to the end of an update;
            0 if the scheme is not the ring.
    """

    def __init__(self, problem: Problem, members: Sequence[int], configs: Sequence[ParallelConfig]) -> None:
        operators = [problem.graph.operators[m] for m in members]
        parts = [
            (number, weight_interval(operator, config, part), device)
            for number, (operator, config) in enumerate(zip(operators, configs, strict=True))
            for part, device in enumerate(config.devices)
        ]
        unit_bytes = BYTES_PER_ELEMENT * operators[0].num_weight_elements // operators[0].num_weight_units
        bounds = sorted({bound for _, interval, _ in parts for bound in interval})
        pieces = [
            (low, high, {device: None for _, (start, end), device in parts if start <= low and high <= end})
            for low, high in pairwise(bounds)
        ]
        held = dict.fromkeys((device for _, _, device in parts), 0)
        for low, high, holders in pieces:
            for device in holders:
                held[device] += (high - low) * unit_bytes
        self.updates = np.zeros(problem.topology.num_devices, np.int64)
        for device, num_bytes in held.items():
            launch, per_byte = problem.cost.update_ns(problem.topology.devices[device].kind)
            self.updates[device] = rounded(launch + num_bytes * per_byte)
        self.endings = [0] * len(members)
        if problem.sync.scheme != "ring":
            return
        behind = [
            ring_all_reduce_ns(ring_through(problem.topology, holders), (high - low) * unit_bytes)
            + int(self.updates[list(holders)].max())
            if len(holders) > 1
            else int(self.updates[list(holders)].max())
            for low, high, holders in pieces
        ]
        for number in range(len(members)):
            self.endings[number] = min(
                max(
                    time
                    for (low, high, _), time in zip(pieces, behind, strict=True)
                    if interval[0] <= low and high <= interval[1]
                )
                for member, interval, _ in parts
                if member == number
            )
