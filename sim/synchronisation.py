"""Synchronisation: the tasks that make all holders of a weight shard agree (oracle; REFERENCE 2.1 and 2.14)."""

from dataclasses import dataclass
from itertools import pairwise

from sim.collectives import (
    all_gather_ns,
    byteps_ns,
    halving_doubling_ns,
    hierarchical_ns,
    hierarchy_through,
    reduce_scatter_ns,
    ring_all_reduce_ns,
    ring_through,
    rounded,
    transfer_ns,
)
from sim.flows import weight_interval
from sim.operator_graph import BYTES_PER_ELEMENT
from sim.problem import Problem
from sim.strategy import Strategy
from sim.task_graph import Key, Task, TaskGraph


@dataclass(slots=True)
class Shard:
    """What the same devices synchronise together: a piece of a weight group, or all such pieces of a bucket.

    Attributes:
        num_bytes: its size.
        own_bytes: what each holder has of it if each piece is split between them, in whole elements.
        gradients: for each device that holds it, in order of first appearance, the tasks that complete its gradient.
    """

    num_bytes: int
    own_bytes: int
    gradients: dict[int, list[int]]


def weight_pieces(problem: Problem, strategy: Strategy, group: int, done: list[list[Task]]) -> list[Shard]:
    """The pieces of a weight group: its weights on the finest common cut of the operators that share them."""
    members = list(problem.graph.weight_groups.values())[group]
    parts = [
        (weight_interval(operator := problem.graph.operators[m], strategy[m], part), device, done[m][part].id)
        for m in members
        for part, device in enumerate(strategy[m].devices)
    ]
    operator = problem.graph.operators[members[0]]
    unit_bytes = BYTES_PER_ELEMENT * operator.num_weight_elements // operator.num_weight_units
    bounds = sorted({bound for interval, _, _ in parts for bound in interval})
    pieces = []
    for low, high in pairwise(bounds):
        gradients: dict[int, list[int]] = {}
        for interval, device, task in parts:
            if interval[0] <= low and high <= interval[1]:
                gradients.setdefault(device, []).append(task)
        num_bytes = (high - low) * unit_bytes
        own_bytes = -(-num_bytes // (BYTES_PER_ELEMENT * len(gradients))) * BYTES_PER_ELEMENT
        pieces.append(Shard(num_bytes, own_bytes, gradients))
    return pieces


def bucket_shards(problem: Problem, strategy: Strategy, bucket: int, done: list[list[Task]]) -> list[Shard]:
    """The shards of a bucket: the pieces of its groups; with ``bucket_mb``, pieces with the same holders are one.

    Its holders come in the order of the first piece.
    """
    pieces = [p for group in problem.buckets[bucket] for p in weight_pieces(problem, strategy, group, done)]
    if problem.sync.bucket_mb is None:
        return pieces
    shards: dict[frozenset[int], Shard] = {}
    for piece in pieces:
        shard = shards.setdefault(frozenset(piece.gradients), piece)
        if shard is piece:
            continue
        shard.num_bytes += piece.num_bytes
        shard.own_bytes += piece.own_bytes
        for device, tasks in piece.gradients.items():
            shard.gradients[device] += tasks
    return list(shards.values())


@dataclass(frozen=True, slots=True)
class Collective:
    """What all holders of a shard do together, as one task.

    Attributes:
        devices: the holders.
        connections: held until it ends.
        exe_time: ns.
        num_bytes: sent, summed over all participants.
    """

    devices: tuple[int, ...]
    connections: tuple[int, ...]
    exe_time: int
    num_bytes: int


class Synchronisation:
    """Adds the tasks that synchronise and update each bucket of weight groups.

    Args:
        problem: graph, topology, costs and scheme.
        strategy: one config for each operator.
        task_graph: tasks are added here.
        done: for each operator and part, the task that completes its gradients (its result, if nothing is trained).
    """

    def __init__(self, problem: Problem, strategy: Strategy, task_graph: TaskGraph, done: list[list[Task]]) -> None:
        self.problem, self.strategy = problem, strategy
        self.topology, self.sync = problem.topology, problem.sync
        self.task_graph, self.done = task_graph, done
        self.names = [_bucket_name(problem, bucket) for bucket in problem.buckets]
        # Serial synchronisation: the task that the next one waits for.
        self.last: list[int] = sorted({task.id for tasks in done for task in tasks})

    def add_bucket(self, bucket: int) -> None:
        """Tasks of one bucket, in its four phases, and the memory that its weights take."""
        shards = bucket_shards(self.problem, self.strategy, bucket, self.done)
        held: dict[int, int] = {}
        whole, split = self.sync.copies(training=self.problem.training)
        for shard in shards:
            for device in shard.gradients:
                held[device] = held.get(device, 0) + shard.num_bytes
                self.task_graph.memory_bytes[device] += whole * shard.num_bytes + split * shard.own_bytes
        phase = 4 * len(self.problem.graph) + 4 * bucket
        if not self.problem.training:
            return
        if not self.sync.overlap:
            self._add_serial(bucket, phase, shards)
        elif self.sync.scheme == "parameter_server":
            for number, shard in enumerate(shards):
                self._add_parameter_server(bucket, phase, number, shard)
        elif self.sync.scheme == "zero":
            for number, shard in enumerate(shards):
                self._add_zero(bucket, phase, number, shard)
        else:
            self._add_all_reduces(bucket, phase, shards, held)

    def _add_all_reduces(self, bucket: int, phase: int, shards: list[Shard], held: dict[int, int]) -> None:
        """An all-reduce per shard; a device updates what it holds of the bucket when all of it is reduced."""
        reduced: dict[int, list[int]] = {device: [] for device in held}
        for number, shard in enumerate(shards):
            gradients = [task for tasks in shard.gradients.values() for task in tasks]
            collective = self._all_reduce(shard)
            task = self._add_sync(bucket, f"all-reduce {number}", collective, (phase, 0, number, 0), gradients)
            for device in shard.gradients:
                reduced[device].append(task.id)
        for number, (device, num_bytes) in enumerate(held.items()):
            key = (phase + 3, 0, number, 0)
            name = f"{self.names[bucket]} update {number}"
            exe_time = self._update_ns(device, num_bytes)
            self.task_graph.add(name, "update", [device], exe_time, key, reduced[device])

    def _add_zero(self, bucket: int, phase: int, number: int, shard: Shard) -> None:
        """Reduce-scatter, update of each holder's own piece, all-gather."""
        gradients = [task for tasks in shard.gradients.values() for task in tasks]
        scatter, gather = self._scatter_and_gather(shard)
        scattered = self._add_sync(bucket, f"reduce-scatter {number}", scatter, (phase, 0, number, 0), gradients)
        updates = []
        for holder, device in enumerate(shard.gradients):
            name = f"{self.names[bucket]} update {number}"
            key, exe_time = (phase + 1, 0, number, holder), self._update_ns(device, shard.own_bytes)
            updates.append(self.task_graph.add(name, "update", [device], exe_time, key, [scattered.id]).id)
        self._add_sync(bucket, f"all-gather {number}", gather, (phase + 2, 0, number, 0), updates)

    def _scatter_and_gather(self, shard: Shard) -> tuple[Collective, Collective]:
        """The two collectives of ZeRO; all gathers of stage 3 are one task."""
        ring, num_bytes = ring_through(self.topology, shard.gradients), shard.num_bytes
        sent = (ring.size - 1) * num_bytes
        rounds = self.sync.num_gathers
        scatter = Collective(ring.devices, ring.connections, reduce_scatter_ns(ring, num_bytes), sent)
        gather = Collective(ring.devices, ring.connections, all_gather_ns(ring, num_bytes, rounds), rounds * sent)
        return scatter, gather

    def _all_reduce(self, shard: Shard) -> Collective:
        """What the scheme does with one shard."""
        scheme, num_bytes = self.sync.scheme, shard.num_bytes
        sent = 2 * (len(shard.gradients) - 1) * num_bytes
        if scheme in ("ring", "halving_doubling"):
            ring = ring_through(self.topology, shard.gradients)
            price = ring_all_reduce_ns if scheme == "ring" else halving_doubling_ns
            return Collective(ring.devices, ring.connections, price(ring, num_bytes), sent)
        devices, hierarchy = tuple(shard.gradients), hierarchy_through(self.topology, shard.gradients)
        if scheme == "hierarchical":
            return Collective(devices, hierarchy.connections, hierarchical_ns(hierarchy, num_bytes), sent)
        if len(hierarchy.nodes) > 1:
            # Each of q nodes sends and gets all bytes, where a ring through them has 2 (q - 1) times.
            sent += 2 * num_bytes
        return Collective(devices, hierarchy.connections, byteps_ns(hierarchy, num_bytes), sent)

    def _add_sync(self, bucket: int, what: str, collective: Collective, key: Key, after: list[int]) -> Task:
        name = f"{self.names[bucket]} {what}"
        occupied = self.topology.occupied(collective.connections, collective.devices)
        task = self.task_graph.add(name, "sync", occupied, collective.exe_time, key, after)
        task.num_bytes = collective.num_bytes
        task.participants = collective.devices
        return task

    def _add_parameter_server(self, bucket: int, phase: int, number: int, shard: Shard) -> None:
        """Push, update at the server, pull."""
        server = self._server(bucket, number, shard)
        ready = list(shard.gradients[server])
        for holder, (device, gradients) in enumerate(shard.gradients.items()):
            if device != server:
                push = self._add_message(bucket, number, "push", device, server, shard.num_bytes)
                push.key, push.in_tasks = (phase, 0, number, holder), gradients
                ready.append(push.id)
        name = f"{self.names[bucket]} update {number}"
        exe_time = self._update_ns(server, shard.num_bytes)
        update = self.task_graph.add(name, "update", [server], exe_time, (phase + 1, 0, number, 0), ready)
        for holder, device in enumerate(shard.gradients):
            if device != server:
                pull = self._add_message(bucket, number, "pull", server, device, shard.num_bytes)
                pull.key, pull.in_tasks = (phase + 2, 0, number, holder), [update.id]

    def _server(self, bucket: int, number: int, shard: Shard) -> int:
        return list(shard.gradients)[(bucket + number) % len(shard.gradients)]

    def _add_message(self, bucket: int, number: int, what: str, src: int, dst: int, num_bytes: int) -> Task:
        occupied = self.topology.occupied(self.topology.route(src, dst), (src, dst))
        exe_time = transfer_ns(self.topology, src, dst, num_bytes)
        name = f"{self.names[bucket]} {what} {number}"
        task = self.task_graph.add(name, "sync", occupied, exe_time, (0, 0, 0, 0))
        task.num_bytes = num_bytes
        task.participants = (src, dst)
        return task

    def _add_serial(self, bucket: int, phase: int, shards: list[Shard]) -> None:
        """All shards one after another on an idle network, then the largest update; behind all that came before."""
        num_bytes = exe_time = 0
        for number, shard in enumerate(shards):
            if self.sync.scheme == "parameter_server":
                num_bytes += 2 * (len(shard.gradients) - 1) * shard.num_bytes
                server = self._server(bucket, number, shard)
                for device in shard.gradients:
                    exe_time += transfer_ns(self.topology, device, server, shard.num_bytes)
                    exe_time += transfer_ns(self.topology, server, device, shard.num_bytes)
                continue
            is_zero = self.sync.scheme == "zero"
            for collective in self._scatter_and_gather(shard) if is_zero else [self._all_reduce(shard)]:
                num_bytes += collective.num_bytes
                exe_time += collective.exe_time
        updates = self._serial_updates(bucket, shards)
        name = self.names[bucket]
        sync = self.task_graph.add(f"{name} serial", "sync", [], exe_time, (phase, 0, 0, 0), self.last)
        sync.num_bytes = num_bytes
        sync.participants = tuple(dict.fromkeys(device for shard in shards for device in shard.gradients))
        update = self.task_graph.add(f"{name} update", "update", [], max(updates), (phase + 3, 0, 0, 0), [sync.id])
        self.last = [update.id]

    def _serial_updates(self, bucket: int, shards: list[Shard]) -> list[int]:
        """Time that each device needs for what it updates."""
        updated: dict[int, int] = {}
        for number, shard in enumerate(shards):
            servers = [self._server(bucket, number, shard)]
            num_bytes = shard.own_bytes if self.sync.scheme == "zero" else shard.num_bytes
            for device in servers if self.sync.scheme == "parameter_server" else shard.gradients:
                updated[device] = updated.get(device, 0) + num_bytes
        return [self._update_ns(device, num_bytes) for device, num_bytes in updated.items()]

    def _update_ns(self, device: int, num_bytes: int) -> int:
        launch, per_byte = self.problem.cost.update_ns(self.topology.devices[device].kind)
        return rounded(launch + num_bytes * per_byte)


def _bucket_name(problem: Problem, bucket: tuple[int, ...]) -> str:
    first = list(problem.graph.weight_groups)[bucket[0]]
    return first if len(bucket) == 1 else f"{first} and {len(bucket) - 1} more"
