"""TimeShares: what the devices spend an iteration on, by the same rule for a simulated and a measured one."""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass

import numpy as np

from runtime.result import RunResult
from sim.breakdown import Span, device_shares, layered, union
from sim.task_graph import TaskGraph

NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Times of an iteration in ms, means over the devices; they add up to the iteration time.

    Attributes:
        compute_ms: a task of the device computes.
        transfer_ms: it does not, but a transfer or an exchange from or to it is under way.
        synchronisation_ms: neither, but gradients of weights that it holds are being synchronised.
        waiting_ms: none of these.
    """

    compute_ms: float
    transfer_ms: float
    synchronisation_ms: float
    waiting_ms: float


def simulated_shares(result: RunResult) -> TimeShares:
    """Of the simulated task graph that a run followed."""
    return _means([astuple(shares) for shares in device_shares(result.task_graph)])


def measured_shares(result: RunResult, iteration: int) -> TimeShares:
    """Of one iteration of a run; the time inside exchanges counts as transfer."""
    transfers, syncs = _messages(result.task_graph, result.task_times(iteration))
    start = min(rank.iterations[iteration].origin_ns for rank in result.ranks)
    compute: dict[int, list[Span]] = {}
    for rank in result.ranks:
        found = rank.iterations[iteration]
        offset = found.origin_ns - start
        spans = {
            kind: [(e.start_ns + offset, e.end_ns + offset) for e in found.events if e.kind in kinds]
            for kind, kinds in (("compute", ("compute", "update")), ("exchange", ("exchange",)))
        }
        compute[rank.rank] = _without(spans["compute"], spans["exchange"])
        transfers.setdefault(rank.rank, []).extend(spans["exchange"])
    wall_ns = round(result.wall_ms[iteration] * NS_PER_MS)
    return _means([layered((spans, transfers.get(d, ()), syncs.get(d, ())), wall_ns) for d, spans in compute.items()])


def _messages(graph: TaskGraph, times: Mapping[int, Span]) -> tuple[dict[int, list[Span]], dict[int, list[Span]]]:
    """When transfers, and when synchronisation of each device are under way."""
    transfers: dict[int, list[Span]] = {}
    syncs: dict[int, list[Span]] = {}
    for task in graph.tasks:
        if task.id in times:
            found = syncs if task.kind == "sync" else transfers
            for device in task.participants:
                found.setdefault(device, []).append(times[task.id])
    return transfers, syncs


def _means(times_ns: Iterable[Iterable[int]]) -> TimeShares:
    """Over the devices."""
    return TimeShares(*(float(ns) / NS_PER_MS for ns in np.mean([tuple(times) for times in times_ns], axis=0)))


def _without(spans: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """The spans without the holes that lie in them."""
    left, cuts = [], union(holes)
    for low, high in union(spans):
        for first, last in cuts:
            if low < last and first < high:
                left.append((low, first))
                low = last
        left.append((low, high))
    return [(low, high) for low, high in left if low < high]
