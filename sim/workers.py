"""Workers: threads that run compiled code, which releases the interpreter's lock, over parts of a range."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sim.errors import SimError


class Workers:
    """A fixed number of threads; with one, everything runs in the caller's.

    Args:
        num_threads: how many.

    Raises:
        SimError: there is not even one.
    """

    def __init__(self, num_threads: int) -> None:
        if num_threads < 1:
            raise SimError(f"num_threads must be at least 1, not {num_threads}")
        self.num_threads = num_threads
        self._pool = ThreadPoolExecutor(num_threads) if num_threads > 1 else None

    def run(self, work: Callable[[int, int], int], count: int) -> list[int]:
        """What ``work(first, last)`` returns for consecutive parts of 0 .. count, one for each thread."""
        if self._pool is None or count < 2:
            return [work(0, count)]
        bounds = [count * k // self.num_threads for k in range(self.num_threads + 1)]
        return list(self._pool.map(work, bounds[:-1], bounds[1:]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the threads."""
        return Workers, (self.num_threads,)
