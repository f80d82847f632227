"""EventLog: what a rank did when; ObservedTransport: a transport whose bytes are counted and whose waiting is timed."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from runtime.result import Event, EventKind
from runtime.transport import Handle, Transport


class EventLog:
    """Events of the present iteration.

    Args:
        device: on a GPU, an event ends when all that its stream was given has.
        is_timed: False records nothing.
    """

    def __init__(self, *, device: torch.device, is_timed: bool) -> None:
        self._is_gpu, self._is_timed = device.type == "cuda", is_timed
        self.origin_ns = 0
        self.step = 0
        self.events: list[Event] = []

    def restart(self) -> None:
        """Forget all events; now is the origin of the next ones."""
        self.events, self.origin_ns = [], time.perf_counter_ns()

    @property
    def now_ns(self) -> int:
        """Since the origin."""
        return time.perf_counter_ns() - self.origin_ns

    @contextmanager
    def timed(self, kind: EventKind, step: int | None = None) -> Iterator[None]:
        """Record what happens within, of the present step unless another is named."""
        if not self._is_timed:
            yield
            return
        start = self.now_ns
        yield
        if self._is_gpu:
            # This stream alone: what crosses meanwhile, on nccl's streams, need not have ended.
            torch.cuda.current_stream().synchronize()
        self.events.append(Event(self.step if step is None else step, kind, start, self.now_ns))


class ObservedTransport:
    """A transport that counts bytes and times the exchanges that block; see ``Transport``.

    Args:
        transport: does the work.
        log: gets the events.
    """

    def __init__(self, transport: Transport, log: EventLog) -> None:
        self._transport, self._log = transport, log
        self.rank, self.is_ordered = transport.rank, transport.is_ordered
        self.sent_bytes: Counter[int] = Counter()
        self.exchanged_bytes: Counter[int] = Counter()
        self.reduced_bytes: Counter[tuple[int, ...]] = Counter()

    def restart(self) -> None:
        """Count from 0."""
        self.sent_bytes, self.exchanged_bytes, self.reduced_bytes = Counter(), Counter(), Counter()

    def send(self, tensor: Tensor, rank: int, tag: int) -> Handle:
        """See ``Transport``."""
        self.sent_bytes[rank] += tensor.nbytes
        with self._log.timed("send"):
            return self._transport.send(tensor, rank, tag)

    def receive(self, tensor: Tensor, rank: int, tag: int) -> Handle:
        """See ``Transport``."""
        return self._transport.receive(tensor, rank, tag)

    def all_to_all(self, tensor: Tensor, ranks: tuple[int, ...]) -> Tensor:
        """See ``Transport``."""
        for rank, row in zip(ranks, tensor, strict=True):
            if rank != self.rank:
                self.exchanged_bytes[rank] += row.nbytes
        with self._log.timed("exchange"):
            return self._transport.all_to_all(tensor, ranks)

    def start_all_reduce(self, tensor: Tensor, ranks: tuple[int, ...]) -> Handle:
        """See ``Transport``."""
        self.reduced_bytes[ranks] += tensor.nbytes
        with self._log.timed("reduce"):
            return self._transport.start_all_reduce(tensor, ranks)

    def barrier(self) -> None:
        """See ``Transport``."""
        self._transport.barrier()
