"""RankExchanger: an exchange group whose parts live on several ranks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.exchange import Exchanger, Together
from runtime.steps import ComputeStep
from runtime.transport import Transport


class RankExchanger:
    """The parts of one exchange group, seen from one rank; see ``runtime.exchange.Exchanger``.

    All is done in one step of messages from every rank to every other: what parts tell each other is small, so that the
    number of steps matters, and with two ranks it is no more bytes than an all-reduce. Where ranks have different
    numbers of parts, those with fewer fill up with copies.

    Args:
        devices: the rank of each part of the group.
        transport: of this rank.
    """

    def __init__(self, devices: Sequence[int], transport: Transport) -> None:
        self._transport = transport
        self._ranks = tuple(sorted(set(devices)))
        self._by_rank = [tuple(p for p, device in enumerate(devices) if device == rank) for rank in self._ranks]
        self._num_slots = max(map(len, self._by_rank))
        self.positions = self._by_rank[self._ranks.index(transport.rank)]

    def gather(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Every rank sends all its parts' tensors to every other."""
        filled = torch.stack([*tensors, *[tensors[0]] * (self._num_slots - len(tensors))])
        everyone = self._transport.all_to_all(filled.expand(len(self._ranks), *filled.shape).contiguous(), self._ranks)
        found = {
            position: slots[slot]
            for slots, positions in zip(everyone, self._by_rank, strict=True)
            for slot, position in enumerate(positions)
        }
        return [found[position] for position in range(len(found))]

    def total(self, tensor: Tensor) -> Tensor:
        """Every rank sends its tensor to every other; all add up in the same order."""
        return self._transport.all_to_all(tensor.expand(len(self._ranks), *tensor.shape).contiguous(), self._ranks).sum(
            0
        )

    def own_totals(self, tensor: Tensor, dim: int) -> list[Tensor]:
        """Every rank sends to every other the slices that it needs."""
        slices = tensor.chunk(sum(map(len, self._by_rank)), dim)
        rows = []
        for positions in self._by_rank:
            mine = [slices[position] for position in positions]
            rows.append(torch.stack([*mine, *[mine[0]] * (self._num_slots - len(mine))]))
        totals = self._transport.all_to_all(torch.stack(rows), self._ranks).sum(0)
        return list(totals[: len(self.positions)])


def exchanger_of(step: ComputeStep, transport: Transport) -> Exchanger:
    """The exchanger of a step's parts."""
    return RankExchanger(step.devices, transport) if len(step.ranks) > 1 else Together(num_parts=len(step.parts))
