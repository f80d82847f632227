"""WeightStore: the weights that one rank holds, each element once, and their gradients."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from runtime.initial_state import initial_weight
from runtime.program import Program, ProgramShard
from runtime.weight_layout import WeightTensor, weight_layout
from sim.operator_graph import Interval


@dataclass(slots=True)
class _Run:
    """Units of a weight group one behind another, and what parts read of them.

    Attributes:
        interval: the units.
        tensors: the weights.
        leaves: for each interval that a part reads, views of the weights that collect gradients.
    """

    interval: Interval
    tensors: tuple[Tensor, ...]
    leaves: dict[Interval, tuple[Tensor, ...]] = field(default_factory=dict)


class WeightStore:
    """Weights of the shards that a rank holds.

    Parts read intervals of units, which may span shards and overlap; shards that lie side by side share storage, so
    that what a part reads is a view. All operators of a group that read the same interval share one leaf of autograd,
    which adds up their gradients.

    Args:
        program: which shards the rank holds.
        rank: this one.
        seed: of the initial weights.
        device: where the tensors are.
        dtype: of the weights.
    """

    def __init__(self, program: Program, rank: int, *, seed: int, device: torch.device, dtype: torch.dtype) -> None:
        self._shards = program.shards
        self._layouts: list[tuple[WeightTensor, ...]] = []
        self._runs: list[list[_Run]] = []
        for group, (name, members) in enumerate(program.graph.weight_groups.items()):
            layout = weight_layout(program.graph.operators[members[0]])
            intervals = _joined(program.shards[group], rank)
            runs: list[list[Tensor]] = [[] for _ in intervals]
            for tensor in layout if intervals else ():
                whole = initial_weight(name, tensor, seed)
                for run, (low, high) in zip(runs, intervals, strict=True):
                    held = whole.narrow(tensor.unit_axis, low, high - low)
                    run.append(held.to(device, dtype, copy=True, memory_format=torch.contiguous_format))
            self._layouts.append(layout)
            self._runs.append([_Run(i, tuple(run)) for i, run in zip(intervals, runs, strict=True)])
        self._groups = {name: number for number, name in enumerate(program.graph.weight_groups)}

    def leaf(self, group: str, interval: Interval) -> tuple[Tensor, ...]:
        """The weights of an interval of units, as leaves of the autograd graph."""
        number = self._groups[group]
        run = self._run(number, interval)
        if interval not in run.leaves:
            # ``data`` has a version of its own: updating one shard does not spoil what autograd saved of others.
            views = self._views(number, run.interval, [tensor.data for tensor in run.tensors], interval)
            run.leaves[interval] = tuple(view.requires_grad_() for view in views)
        return run.leaves[interval]

    def weights(self, group: int, shard: int) -> list[Tensor]:
        """The weights of a shard, as views: what is written to them is what parts read."""
        interval = self._interval(group, shard)
        run = self._run(group, interval)
        return self._views(group, run.interval, run.tensors, interval)

    def gradients(self, group: int, shard: int) -> list[Tensor]:
        """The sum of the gradients of all of the rank's parts for a shard; may be views of what autograd collects."""
        interval = self._interval(group, shard)
        low, high = interval
        found: list[list[Tensor]] = []
        for held, leaf in self._run(group, interval).leaves.items():
            if held[0] <= low and high <= held[1] and leaf[0].grad is not None:
                gradients = [_gradient(tensor) for tensor in leaf]
                found.append(self._views(group, held, gradients, interval))
        if not found:
            return [torch.zeros_like(weight) for weight in self.weights(group, shard)]
        return found[0] if len(found) == 1 else [torch.stack(same).sum(0) for same in zip(*found, strict=True)]

    def clear_gradients(self) -> None:
        """Forget all gradients."""
        for runs in self._runs:
            for run in runs:
                for leaf in run.leaves.values():
                    for tensor in leaf:
                        tensor.grad = None

    def _interval(self, group: int, shard: int) -> Interval:
        found = self._shards[group][shard]
        return found.low, found.high

    def _run(self, group: int, interval: Interval) -> _Run:
        low, high = interval
        return next(run for run in self._runs[group] if run.interval[0] <= low and high <= run.interval[1])

    def _views(self, group: int, held: Interval, tensors: Sequence[Tensor], interval: Interval) -> list[Tensor]:
        if held == interval:
            return list(tensors)
        start, length = interval[0] - held[0], interval[1] - interval[0]
        layout = self._layouts[group]
        return [tensor.narrow(spec.unit_axis, start, length) for tensor, spec in zip(tensors, layout, strict=True)]


def _gradient(tensor: Tensor) -> Tensor:
    return tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)


def _joined(shards: Sequence[ProgramShard], rank: int) -> list[Interval]:
    """The units that a rank holds, shards side by side as one interval."""
    intervals: list[Interval] = []
    for shard in shards:
        if rank not in shard.holders:
            continue
        if intervals and intervals[-1][1] == shard.low:
            intervals[-1] = intervals[-1][0], shard.high
        else:
            intervals.append((shard.low, shard.high))
    return intervals
