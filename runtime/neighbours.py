"""Neighbours: processes on other cores that compute the same as the one that is timed."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

Repeat = Callable[[], Any]
"""Does the work once."""


class Neighbours:
    """Processes that keep other cores as busy as other ranks would: they share caches and memory with what is timed.

    Each takes cores of its own, and so does the present process.

    Args:
        num_neighbours: processes; fewer if there are fewer cores.
        num_threads: cores for each process.
        make_worker: called in each process; picklable. What it returns makes of a job what does the job once.
    """

    def __init__(
        self, *, num_neighbours: int, num_threads: int, make_worker: Callable[[], Callable[[Any], Repeat]]
    ) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        own = [set(cpus[n * num_threads : (n + 1) * num_threads]) for n in range(len(cpus) // num_threads)]
        self._connections: list[Connection] = []
        self._cpus = set(cpus)
        context = multiprocessing.get_context("spawn")
        for cores in own[1 : 1 + num_neighbours]:
            ours, theirs = context.Pipe()
            context.Process(target=_work, args=(make_worker, cores, theirs), daemon=True).start()
            theirs.close()
            self._connections.append(ours)
        if self._connections:
            os.sched_setaffinity(0, own[0])

    def close(self) -> None:
        """End them, and take all cores again."""
        for connection in self._connections:
            with suppress(OSError):
                connection.send(None)
            connection.close()
        self._connections.clear()
        os.sched_setaffinity(0, self._cpus)

    @contextmanager
    def busy(self, job: Any) -> Iterator[None]:
        """All do a job, again and again, until the end of the context."""
        for connection in self._connections:
            connection.send((job,))
        for connection in self._connections:
            connection.recv()  # the first time is done
        yield
        for connection in self._connections:
            connection.send(())
        for connection in self._connections:
            connection.recv()


def _work(make_worker: Callable[[], Callable[[Any], Repeat]], cores: set[int], connection: Connection) -> None:
    os.sched_setaffinity(0, cores)
    worker = make_worker()
    with suppress(EOFError, KeyboardInterrupt, OSError):
        while (message := connection.recv()) is not None:
            repeat = worker(*message)
            repeat()
            connection.send("busy")
            while not connection.poll():
                repeat()
            connection.recv()
            connection.send("done")
