"""Searches in processes of their own that are killed (SIGKILL) at a chosen moment."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAME = ("strategy_hash", "best_ms", "simulations", "cutoffs", "configuration")
"""Fields of the record that a resumed search shares with an uninterrupted one."""


def call(script: str, *overrides: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Call a command to its end, from the folder that holds all run folders."""
    command = [sys.executable, str(ROOT / "experiments" / script), *overrides]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def kill(overrides: Sequence[str], *, folder: Path, awaited: str, delay_s: float) -> bool:
    """Start run.py, and kill -9 it some time after a file has appeared in its run folder.

    Args:
        overrides: of run.py, ``hydra.run.dir`` or ``resume`` among them.
        folder: of the run.
        awaited: a file in it; empty for the start of the process.
        delay_s: time between the file's appearance and the kill.

    Returns:
        Whether the process was still alive.
    """
    command = [sys.executable, str(ROOT / "experiments" / "run.py"), *overrides]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder.parent, stdout=quiet, stderr=quiet)
    while awaited and not (folder / awaited).is_file() and process.poll() is None:
        time.sleep(0.002)
    time.sleep(delay_s)
    is_alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    return is_alive
