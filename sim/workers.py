"""Workers: threads that run compiled code, which releases the interpreter's lock, over parts of a range."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

from sim.errors import SimError


class Workers:
    """A fixed number of threads, the caller's among them.

    Args:
        num_threads: how many.

    Raises:
        SimError: there is not even one.
    """

    def __init__(self, num_threads: int) -> None:
        if num_threads < 1:
            raise SimError(f"num_threads must be at least 1, not {num_threads}")
        self.num_threads = num_threads
        self._pool = ThreadPoolExecutor(num_threads - 1) if num_threads > 1 else None

    def run(self, work: Callable[[int, int], int], count: int, *, least: int = 1) -> list[int]:
        """What ``work(first, last)`` returns for consecutive parts of 0 .. count, one for each thread.

        Args:
            work: compiled, so that the parts run at the same time.
            count: of entries.
            least: entries in a part, so that handing it over (some 40 us) is worth while.
        """
        num_parts = min(self.num_threads, count // least)
        if self._pool is None or num_parts < 2:
            return [work(0, count)]
        bounds = [count * k // num_parts for k in range(num_parts + 1)]
        others = [self._pool.submit(work, *ends) for ends in pairwise(bounds[1:])]
        try:
            own = work(bounds[0], bounds[1])
        finally:
            wait(others)  # they write to the same arrays
        return [own, *(other.result() for other in others)]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the threads."""
        return Workers, (self.num_threads,)
