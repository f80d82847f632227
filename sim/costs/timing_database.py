"""TimingDatabase: measured times in an SQLite file that several processes may fill at once."""

import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import astuple
from pathlib import Path
from types import TracebackType

from sim.costs.timing import Platform, Timing
from sim.errors import TimingFileError

BUSY_SECONDS = 60.0
"""For which a process waits for others that write."""

RETRY_SECONDS = 0.01

CLAIM_SECONDS = 600.0
"""After which a claim of a process on another machine counts as abandoned; one here when its process is gone."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS timing (
    device_kind TEXT NOT NULL, device TEXT NOT NULL, num_threads INTEGER NOT NULL, dtype TEXT NOT NULL,
    torch_version TEXT NOT NULL, part TEXT NOT NULL,
    forward_ns REAL NOT NULL, forward_variance REAL NOT NULL,
    backward_ns REAL NOT NULL, backward_variance REAL NOT NULL, num_repeats INTEGER NOT NULL,
    PRIMARY KEY (device_kind, device, num_threads, dtype, torch_version, part)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS claim (
    device_kind TEXT NOT NULL, device TEXT NOT NULL, num_threads INTEGER NOT NULL, dtype TEXT NOT NULL,
    torch_version TEXT NOT NULL, part TEXT NOT NULL,
    host TEXT NOT NULL, process INTEGER NOT NULL, claimed_at REAL NOT NULL,
    PRIMARY KEY (device_kind, device, num_threads, dtype, torch_version, part)
) WITHOUT ROWID;
"""
_WHERE = "device_kind = ? AND device = ? AND num_threads = ? AND dtype = ? AND torch_version = ? AND part = ?"


class TimingDatabase:
    """An open database; a context manager. What is added is on disk when the call returns.

    Args:
        path: of the file, made with its folder if it is missing.

    Raises:
        TimingFileError: the file is something else.
        OSError: its folder cannot be made.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._faults():
            self._connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
            self._prepare()

    def _prepare(self) -> None:
        """Choose the journal and make the tables; SQLite does not wait where two processes do that at once."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                # Readers and a writer do not block each other; the write-ahead log survives a killed process.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.executescript(_SCHEMA)
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_SECONDS)

    def __enter__(self) -> "TimingDatabase":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def timings(self) -> dict[Platform, dict[str, Timing]]:
        """All times: for each platform, by key of the part."""
        with self._faults():
            return _timings(self._connection)

    def keys(self, platform: Platform) -> set[str]:
        """The parts whose times on a platform are known."""
        with self._faults():
            where = _WHERE.removesuffix(" AND part = ?")
            return {
                row[0] for row in self._connection.execute(f"SELECT part FROM timing WHERE {where}", _row(platform))
            }

    def claim(self, platform: Platform, key: str) -> bool:
        """Take on a part to measure; False if it is known, or another process that lives has taken it on."""
        host, process, now = socket.gethostname(), os.getpid(), time.time()
        at = (*_row(platform), key)
        with self._transaction():
            if self._connection.execute(f"SELECT 1 FROM timing WHERE {_WHERE}", at).fetchone():
                return False
            claim = self._connection.execute(
                f"SELECT host, process, claimed_at FROM claim WHERE {_WHERE}", at
            ).fetchone()
            if claim is not None and _is_alive(*claim):
                return False
            self._connection.execute(
                "INSERT OR REPLACE INTO claim VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", (*at, host, process, now)
            )
        return True

    def add(self, platform: Platform, timings: Mapping[str, Timing]) -> None:
        """Store times; those that are known stay as they are. Claims on them end."""
        with self._transaction():
            for key, timing in timings.items():
                at = (*_row(platform), key)
                self._connection.execute(
                    "INSERT OR IGNORE INTO timing VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*at, *astuple(timing))
                )
                self._connection.execute(f"DELETE FROM claim WHERE {_WHERE}", at)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, alone: a read that a write follows must see what others wrote before."""
        with self._faults():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _faults(self) -> AbstractContextManager[None]:
        return _faults(self.path)


def read_timings(path: Path) -> dict[Platform, dict[str, Timing]]:
    """All times of a database that need not be writable.

    Raises:
        TimingFileError: the file is something else.
    """
    with _faults(path), closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        return _timings(connection)


def _timings(connection: sqlite3.Connection) -> dict[Platform, dict[str, Timing]]:
    found: dict[Platform, dict[str, Timing]] = {}
    for row in connection.execute("SELECT * FROM timing"):
        found.setdefault(Platform(*row[:5]), {})[row[5]] = Timing(*row[6:])
    return found


@contextmanager
def _faults(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise TimingFileError(str(path), str(error)) from None


def _row(platform: Platform) -> tuple[str, str, int, str, str]:
    return astuple(platform)


def _is_alive(host: str, process: int, claimed_at: float) -> bool:
    """Whether a claim still stands."""
    if host != socket.gethostname():
        return time.time() - claimed_at < CLAIM_SECONDS
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
