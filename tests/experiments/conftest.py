"""Commands called in this process: as from a shell, without its seconds of start-up."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments import run, simulate

SMALL = ("model=lenet", "num_devices=4", "tracker=none")


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: str | int | None
    stdout: str
    stderr: str
    folder: Path

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text())


Command = Callable[..., Outcome]


@pytest.fixture
def call_bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """Call a command's main with overrides, each time in a run folder of its own."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def invoke(main: Callable[[], None], *overrides: str) -> Outcome:
        folder = tmp_path / f"run{len(list(tmp_path.iterdir()))}"
        directories = (f"hydra.run.dir={folder}", f"hydra.sweep.dir={folder}")
        monkeypatch.setattr(sys, "argv", ["command", *directories, *overrides])
        code: str | int | None = 0
        try:
            main()
        except SystemExit as error:
            code = error.code
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err, folder)

    return invoke


@pytest.fixture
def call(call_bare: Command) -> Command:
    """The same on a small problem, for the commands that take one."""
    return lambda main, *overrides: call_bare(main, *SMALL, *overrides)


@pytest.fixture
def search(call: Command) -> Command:
    """Call run.py with overrides."""
    return lambda *overrides: call(run.main, "budget.simulations=200", *overrides)


@pytest.fixture
def price(call: Command) -> Command:
    """Call simulate.py with overrides."""
    return lambda *overrides: call(simulate.main, *overrides)
