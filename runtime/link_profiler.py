"""profile_links: how long messages and all-reduces take between ranks of this machine, two at a time."""

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from statistics import median

import torch
from torch import distributed as dist
from torch.multiprocessing.spawn import spawn

from runtime.background_threads import background_threads
from runtime.options import RankOptions
from runtime.rank_process import settle
from runtime.transport import DistributedTransport

TAG = 0


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """Median times between two ranks for one size of message, ns.

    Attributes:
        ranks: the two, ascending.
        num_bytes: of the message.
        one_way_ns: half the time of a message there and one of the same size back.
        both_ways_ns: for messages in both directions at once, until both are there.
        exchange_ns: for messages to all and from all at once, as parts of an operator exchange them.
        all_reduce_ns: to sum a tensor of that size.
    """

    ranks: tuple[int, int]
    num_bytes: int
    one_way_ns: float
    both_ways_ns: float
    exchange_ns: float
    all_reduce_ns: float


def profile_links(
    *, num_ranks: int, sizes: Sequence[int], num_repeats: int, options: RankOptions
) -> tuple[LinkTimes, ...]:
    """Time the operations that strategies run on: isend and irecv, exchanges and all-reduces, all between two ranks.

    While two ranks talk the others wait; so do the cores of the two, as far as their messages let them.

    Args:
        num_ranks: processes, at least 2.
        sizes: of messages, bytes.
        num_repeats: of each measurement.
        options: of the ranks.

    Returns:
        One entry for each pair and size.
    """
    with tempfile.TemporaryDirectory(prefix="links-") as folder:
        arguments = (num_ranks, tuple(sizes), num_repeats, options, folder)
        spawn(_serve, arguments, nprocs=num_ranks)  # type: ignore[no-untyped-call]
        found = [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]
    times = (LinkTimes(**{**entry, "ranks": tuple(entry["ranks"])}) for entries in found for entry in entries)
    return tuple(sorted(times, key=lambda entry: (entry.ranks, entry.num_bytes)))


def _serve(
    rank: int, num_ranks: int, sizes: Sequence[int], num_repeats: int, options: RankOptions, folder: str
) -> None:
    """One rank: takes part in the measurements of its pairs; the first of a pair writes them down."""
    settle(rank, options)
    timeout = timedelta(seconds=options.timeout_seconds)
    with background_threads():
        dist.init_process_group(
            options.backend, init_method=f"file://{folder}/rendezvous", rank=rank, world_size=num_ranks, timeout=timeout
        )
    pairs = list(combinations(range(num_ranks), 2))
    transport = DistributedTransport(rank_sets=pairs, timeout=timeout)
    times = []
    for pair in pairs:
        if rank in pair:
            link = _Link(transport, pair, options.device(rank))
            times += [link.times(size, num_repeats) for size in sizes]
        dist.barrier()
    mine = [asdict(entry) for entry in times if entry.ranks[0] == rank]
    (Path(folder) / f"{rank}.json").write_text(json.dumps(mine))
    transport.close()
    dist.destroy_process_group()


class _Link:
    """One end of the connection between two ranks."""

    def __init__(self, transport: DistributedTransport, ranks: tuple[int, int], device: torch.device) -> None:
        self.transport, self.ranks, self.device = transport, ranks, device
        self.is_first = transport.rank == ranks[0]
        self.peer = ranks[1] if self.is_first else ranks[0]

    def times(self, num_bytes: int, num_repeats: int) -> LinkTimes:
        """All measurements of one size."""
        outgoing, incoming = (torch.ones(max(1, num_bytes // 4), device=self.device) for _ in range(2))

        rows = outgoing.repeat(len(self.ranks), 1)

        def there_and_back() -> None:
            receive = self.transport.receive(incoming, self.peer, TAG)
            if not self.is_first:
                receive.wait()
            self.transport.send(outgoing, self.peer, TAG).wait()
            if self.is_first:
                receive.wait()

        def both_ways() -> None:
            receive = self.transport.receive(incoming, self.peer, TAG)
            self.transport.send(outgoing, self.peer, TAG).wait()
            receive.wait()

        def exchange() -> None:
            self.transport.all_to_all(rows, self.ranks)

        def all_reduce() -> None:
            self.transport.start_all_reduce(incoming, self.ranks).wait()

        return LinkTimes(
            self.ranks,
            num_bytes,
            self._median_ns(there_and_back, num_repeats) / 2,
            self._median_ns(both_ways, num_repeats),
            self._median_ns(exchange, num_repeats),
            self._median_ns(all_reduce, num_repeats),
        )

    def _median_ns(self, operation: Callable[[], None], num_repeats: int) -> float:
        times = []
        for _ in range(1 + num_repeats):
            self.transport.all_to_all(torch.zeros(2, 1, device=self.device), self.ranks)  # both begin together
            start = time.perf_counter_ns()
            operation()
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
            times.append(time.perf_counter_ns() - start)
        return median(times[1:])
