"""background_threads: the policy of threads, and that of the thread that starts them."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from runtime.background_threads import background_threads

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="only Linux has the policy")


def test_threads_that_start_within_never_interrupt_others() -> None:
    with background_threads(), ThreadPoolExecutor(1) as pool:
        policy = pool.submit(os.sched_getscheduler, 0).result()

    assert policy == os.SCHED_BATCH


def test_the_starting_thread_is_as_before() -> None:
    before = os.sched_getscheduler(0)

    with background_threads():
        pass

    assert os.sched_getscheduler(0) == before
