"""RankExchanger: an exchange group whose parts live on several ranks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.exchange import Exchanger, Together
from runtime.steps import ComputeStep
from runtime.transport import Transport


class RankExchanger:
    """The parts of one exchange group, seen from one rank; see ``runtime.exchange.Exchanger``.

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
        """One all-gather; ranks with fewer parts than others fill up with copies."""
        filled = [*tensors, *[tensors[0]] * (self._num_slots - len(tensors))]
        everyone = self._transport.all_gather(torch.stack(filled), self._ranks)
        found = {
            position: slots[slot]
            for slots, positions in zip(everyone, self._by_rank, strict=True)
            for slot, position in enumerate(positions)
        }
        return [found[position] for position in range(len(found))]

    def total(self, tensor: Tensor) -> Tensor:
        """One all-reduce, of a copy."""
        total = tensor.clone(memory_format=torch.contiguous_format)
        self._transport.total(total, self._ranks)
        return total


def exchanger_of(step: ComputeStep, transport: Transport) -> Exchanger:
    """The exchanger of a step's parts."""
    return RankExchanger(step.devices, transport) if len(step.ranks) > 1 else Together(num_parts=len(step.parts))
