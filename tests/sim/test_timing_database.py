"""The database of measured times: several processes at once, one killed, claims."""

import multiprocessing
import os
import signal
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from sim.costs.timing import Platform, Timing
from sim.costs.timing_database import TimingDatabase

HERE = Platform("cpu", "a core", 1, "fp32", "2.13.0")
TIMING = Timing(1.0, 0.0, 2.0, 0.0, 3)
SPAWN = multiprocessing.get_context("spawn")
NUM_KEYS = 60


def fill(path: Path, number: int, together: Barrier) -> None:
    """Claims and adds all keys; the forward time says who did."""
    together.wait()
    with TimingDatabase(path) as database:
        for key in range(NUM_KEYS):
            if database.claim(HERE, str(key)):
                database.add(HERE, {str(key): Timing(float(number), 0.0, float(os.getpid()), 0.0, 1)})


def claim_and_die(path: Path) -> None:
    """Adds one time, claims another and is killed."""
    database = TimingDatabase(path)
    database.claim(HERE, "done")
    database.add(HERE, {"done": TIMING})
    database.claim(HERE, "begun")
    os.kill(os.getpid(), signal.SIGKILL)


def claim_and_wait(path: Path, together: Barrier) -> None:
    """Claims a key and lives until it is asked to go on."""
    TimingDatabase(path).claim(HERE, "taken")
    together.wait()
    together.wait()


@pytest.fixture(autouse=True)
def spawned_processes_find_this_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "test_timing_database", sys.modules[__name__])
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    for function in (fill, claim_and_die, claim_and_wait):
        monkeypatch.setattr(function, "__module__", "test_timing_database")


def test_processes_that_write_at_once_share_the_work(tmp_path: Path) -> None:
    path, together = tmp_path / "timings.sqlite", SPAWN.Barrier(2)
    processes = [SPAWN.Process(target=fill, args=(path, number, together)) for number in (1, 2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    with TimingDatabase(path) as database:
        timings = database.timings()[HERE]
    assert [process.exitcode for process in processes] == [0, 0]
    assert set(timings) == {str(key) for key in range(NUM_KEYS)}


def test_killed_process_leaves_its_results_and_no_claim(tmp_path: Path) -> None:
    path = tmp_path / "timings.sqlite"
    process = SPAWN.Process(target=claim_and_die, args=(path,))
    process.start()
    process.join()

    with TimingDatabase(path) as database:
        assert (process.exitcode, database.keys(HERE)) == (-signal.SIGKILL, {"done"})
        assert database.claim(HERE, "begun")


def test_claim_of_a_living_process_stands(tmp_path: Path) -> None:
    path, together = tmp_path / "timings.sqlite", SPAWN.Barrier(2)
    process = SPAWN.Process(target=claim_and_wait, args=(path, together))
    process.start()
    together.wait()

    with TimingDatabase(path) as database:
        claims = [database.claim(HERE, key) for key in ("taken", "free")]
    together.wait()
    process.join()
    assert claims == [False, True]


def test_known_time_stays_as_it_is(tmp_path: Path) -> None:
    with TimingDatabase(tmp_path / "timings.sqlite") as database:
        database.add(HERE, {"key": TIMING})
        database.add(HERE, {"key": Timing(9.0, 0.0, 9.0, 0.0, 9)})

        assert database.timings() == {HERE: {"key": TIMING}}


def test_known_time_cannot_be_claimed(tmp_path: Path) -> None:
    with TimingDatabase(tmp_path / "timings.sqlite") as database:
        database.add(HERE, {"key": TIMING})

        assert not database.claim(HERE, "key")


def test_keys_are_those_of_the_platform(tmp_path: Path) -> None:
    elsewhere = Platform("cpu", "a core", 2, "fp32", "2.13.0")
    with TimingDatabase(tmp_path / "timings.sqlite") as database:
        database.add(HERE, {"here": TIMING})
        database.add(elsewhere, {"there": TIMING})

        assert (database.keys(HERE), database.keys(elsewhere)) == ({"here"}, {"there"})
