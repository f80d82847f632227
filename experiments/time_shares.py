"""TimeShares: what the devices spend an iteration on, by the same rule for a simulated and a measured one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from runtime.program import Program
from runtime.result import RunResult
from runtime.steps import ComputeStep
from sim.task_graph import TaskGraph

Span = tuple[int, int]
"""Start and end, ns."""

NS_PER_MS = 1e6

COMPUTE_KINDS = ("forward", "backward", "update")


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
    graph, ranks = result.task_graph, task_ranks(result.program)
    compute: dict[int, list[Span]] = {device: [] for device in range(graph.num_compute_devices)}
    for task in graph.tasks:
        if task.kind in COMPUTE_KINDS:
            for device in task.devices[:1] or tuple(compute):  # serial synchronisation ends in updates of all
                compute[device].append((task.start_time, task.end_time))
    transfers, syncs = _messages(graph, {t.id: (t.start_time, t.end_time) for t in graph.tasks}, ranks)
    return _shares(compute, transfers, syncs, graph.makespan)


def measured_shares(result: RunResult, iteration: int) -> TimeShares:
    """Of one iteration of a run; the time inside exchanges counts as transfer."""
    times, ranks = result.task_times(iteration), task_ranks(result.program)
    transfers, syncs = _messages(result.task_graph, times, ranks)
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
    return _shares(compute, transfers, syncs, wall_ns)


def task_ranks(program: Program) -> dict[int, tuple[int, ...]]:
    """The ranks between which each task of the task graph moves data; tasks that compute are not among them."""
    ranks: dict[int, tuple[int, ...]] = {}
    for step in program.steps:
        ids = step.task_ids[len(step.parts) :] if isinstance(step, ComputeStep) else step.task_ids
        for task in ids:
            ranks[task] = tuple(dict.fromkeys((*ranks.get(task, ()), *step.ranks)))
    return ranks


def _messages(
    graph: TaskGraph, times: Mapping[int, Span], ranks: Mapping[int, tuple[int, ...]]
) -> tuple[dict[int, list[Span]], dict[int, list[Span]]]:
    """When transfers, and when synchronisation of each device are under way."""
    transfers: dict[int, list[Span]] = {}
    syncs: dict[int, list[Span]] = {}
    for task in graph.tasks:
        if task.id in times and task.kind in ("transfer", "exchange", "sync"):
            found = syncs if task.kind == "sync" else transfers
            for device in ranks.get(task.id, ()):
                found.setdefault(device, []).append(times[task.id])
    return transfers, syncs


def _shares(
    compute: Mapping[int, list[Span]],
    transfers: Mapping[int, list[Span]],
    syncs: Mapping[int, list[Span]],
    total_ns: int,
) -> TimeShares:
    covered = []
    for device, spans in compute.items():
        with_transfers = [*spans, *transfers.get(device, ())]
        layers = (spans, with_transfers, [*with_transfers, *syncs.get(device, ())])
        ends = [_covered(layer, total_ns) for layer in layers]
        covered.append(np.diff([0, *ends, total_ns]))
    return TimeShares(*(float(ns) / NS_PER_MS for ns in np.mean(covered, axis=0)))


def _union(spans: Iterable[Span]) -> list[Span]:
    """The same times as disjoint spans, in order."""
    union: list[Span] = []
    for low, high in sorted(spans):
        if union and low <= union[-1][1]:
            union[-1] = (union[-1][0], max(high, union[-1][1]))
        else:
            union.append((low, high))
    return union


def _covered(spans: Iterable[Span], total_ns: int) -> int:
    """How much of 0 .. ``total_ns`` the spans cover."""
    return sum(max(0, min(high, total_ns) - max(low, 0)) for low, high in _union(spans))


def _without(spans: Iterable[Span], holes: Iterable[Span]) -> list[Span]:
    """The spans without the holes that lie in them."""
    left, cuts = [], _union(holes)
    for low, high in _union(spans):
        for first, last in cuts:
            if low < last and first < high:
                left.append((low, first))
                low = last
        left.append((low, high))
    return [(low, high) for low, high in left if low < high]
