"""Messages: what one rank has sent, posted and started to reduce during an iteration."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from runtime.event_log import EventLog
from runtime.program import Program
from runtime.steps import ComputeStep, MessageStep, ReduceStep, Step, TransferStep
from runtime.transport import Handle, Transport
from sim.flows import volume

OWN_MESSAGE_BYTES = 1_000_000
"""Gradients from here on are all-reduced by themselves: to copy them takes longer than a message."""


class Messages:
    """Messages and all-reduces under way. Each travels as one contiguous vector.

    Args:
        program: of all ranks.
        transport: to the others.
        log: gets the time for which the rank was blocked.
        device: of the buffers.
        dtype: of the buffers.
        receive_ahead: a receive is posted so many computations before its place in the order.
    """

    def __init__(
        self,
        program: Program,
        *,
        transport: Transport,
        log: EventLog,
        device: torch.device,
        dtype: torch.dtype,
        receive_ahead: int,
    ) -> None:
        self._program, self._transport, self._log = program, transport, log
        self._device, self._dtype = device, dtype
        self._posted_before = _post_ahead(program.steps_of(transport.rank), transport.rank, receive_ahead)
        self._unit_elements = [
            program.graph.operators[members[0]].num_weight_elements
            // program.graph.operators[members[0]].num_weight_units
            for members in program.graph.weight_groups.values()
        ]
        self._awaited: dict[int, tuple[Handle, Tensor]] = {}
        self._reducing: dict[int, tuple[list[Handle], list[Tensor]]] = {}
        self._sent: list[tuple[Handle, Tensor]] = []

    def post_before(self, step: Step) -> None:
        """Post the receives that belong before a step."""
        for message in self._posted_before.get(step.number, ()):
            buffer = torch.empty(self._num_elements(message), device=self._device, dtype=self._dtype)
            handle = self._transport.receive(buffer, message.ranks[0], message.number)
            self._awaited[message.number] = handle, buffer

    def send(self, step: TransferStep | MessageStep, pieces: Iterable[Tensor]) -> None:
        """Start to send a step's message."""
        message = packed(list(pieces))
        self._sent.append((self._transport.send(message, step.ranks[1], step.number), message))

    def start_all_reduce(self, step: ReduceStep, tensors: Sequence[Tensor]) -> None:
        """Start to sum tensors over a step's ranks; they may be overwritten.

        Those that are worth a message of their own are summed where they are if they can be, all others in one vector.
        """
        # The sizes are the same on all ranks, strides are not.
        sums = [tensor.contiguous() if tensor.nbytes >= OWN_MESSAGE_BYTES else None for tensor in tensors]
        rest = [tensor for tensor, own in zip(tensors, sums, strict=True) if own is None]
        messages = [own for own in sums if own is not None]
        if rest:
            messages.append(packed(rest))
            pieces = iter(unpacked(messages[-1], rest))
            sums = [next(pieces) if own is None else own for own in sums]
        ranks = tuple(sorted(step.ranks))
        handles = [self._transport.start_all_reduce(message, ranks) for message in messages]
        self._reducing[step.number] = handles, [tensor for tensor in sums if tensor is not None]

    def is_awaited(self, number: int) -> bool:
        """Whether nobody has taken a step's message yet."""
        return number in self._awaited

    def take(self, number: int) -> Tensor:
        """The vector that a step's message brought; blocks until it is there."""
        handle, vector = self._awaited.pop(number)
        with self._log.timed("wait", number):
            handle.wait()
        return vector

    def take_sums(self, number: int) -> list[Tensor]:
        """What a step's all-reduce made of its tensors; blocks until it is there."""
        handles, sums = self._reducing.pop(number)
        with self._log.timed("wait", number):
            for handle in handles:
                handle.wait()
        return sums

    def finish(self) -> None:
        """Wait until all that was sent is on its way or there."""
        for handle, _ in self._sent:
            handle.wait()
        self._sent.clear()

    def _num_elements(self, step: TransferStep | MessageStep) -> int:
        if isinstance(step, TransferStep):
            return sum(map(volume, step.pieces))
        shard = self._program.shards[step.group][step.shard]
        return (shard.high - shard.low) * self._unit_elements[step.group]


def packed(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one behind another; without a copy if there is only one and it is contiguous."""
    if len(tensors) == 1:
        return tensors[0].reshape(-1).contiguous()  # of a strided vector, reshape is a strided view
    vector = tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))
    for piece, tensor in zip(unpacked(vector, tensors), tensors, strict=True):
        piece.copy_(tensor)
    return vector


def unpacked(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views of a vector in the sizes of other tensors."""
    pieces = torch.split(vector, [tensor.numel() for tensor in like])
    return [piece.view(tensor.shape) for piece, tensor in zip(pieces, like, strict=True)]


def _post_ahead(steps: Sequence[Step], rank: int, receive_ahead: int) -> dict[int, list[TransferStep | MessageStep]]:
    """For each step's number, the receives that are posted before it."""
    posted: dict[int, list[TransferStep | MessageStep]] = {}
    computes: list[int] = []
    for step in steps:
        if isinstance(step, ComputeStep):
            computes.append(step.number)
        elif isinstance(step, TransferStep | MessageStep) and step.ranks[1] == rank:
            ahead = computes[-receive_ahead:] if receive_ahead else []
            posted.setdefault(ahead[0] if ahead else step.number, []).append(step)
    return posted
