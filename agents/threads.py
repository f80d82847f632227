"""run_on_threads: parts of a search on threads of their own, which share one budget."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress

from agents.ledger import REPORT_INTERVAL_S, BudgetExhausted, Ledger
from sim.problem import Problem


def run_on_threads(
    searches: Sequence[Callable[[Ledger], None]], parts: Sequence[Ledger], ledger: Ledger, *, num_threads: int
) -> None:
    """Run each search with a part of the ledger, so many of them at a time, and merge the parts.

    Compiled code releases the interpreter's lock, so the searches use as many cores.

    Args:
        searches: what is run.
        parts: for each one, of ``ledger.split``.
        ledger: reports, and takes over what they spent and found, also if the user stops them.
        num_threads: how many run at the same time.
    """
    make_shared(ledger.problem)
    with ThreadPoolExecutor(num_threads) as pool:
        running = [pool.submit(_run, search, part) for search, part in zip(searches, parts, strict=True)]
        try:
            _wait(running, ledger, parts)
        finally:
            for part in parts:
                part.stop()
            wait(running)
            ledger.merge(parts)


def make_shared(problem: Problem) -> None:
    """What all searches read, and would otherwise make at the same time."""
    for cached in (problem.tables, problem.rows, problem.choices, problem.data_parallel, problem.data_parallel_ns):
        assert cached is not None


def _run(search: Callable[[Ledger], None], part: Ledger) -> None:
    part.start()
    with suppress(BudgetExhausted):
        part.look()  # it may have been stopped while it waited for a thread
        search(part)


def _wait(running: Sequence[Future[None]], ledger: Ledger, parts: Sequence[Ledger]) -> None:
    """Report the progress until all are done; raises what one of them raised.

    Raises:
        BudgetExhausted: the time of all of them is over.
    """
    left = set(running)
    while left:
        done, left = wait(left, timeout=REPORT_INTERVAL_S, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        ledger.report_with(parts)
        if left and ledger.is_late:  # the parts' own times begin when they have threads
            raise BudgetExhausted
