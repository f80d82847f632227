"""background_threads: threads that never take the CPU from the one that computes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def background_threads() -> Iterator[None]:
    """Threads that start within wait for the CPU until the thread that has it sleeps, yields, or has had its turn.

    A message wakes a thread of gloo, which by default takes the CPU from the computing thread at once. Where that
    one is just starting another message it holds a lock, for which gloo's thread then asks over and over until its
    turn is over, as long as 4 ms. So small messages took milliseconds, now and then.

    Linux alone knows the policy for it (SCHED_BATCH); elsewhere nothing is done.
    """
    if not hasattr(os, "SCHED_BATCH"):
        yield
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)
