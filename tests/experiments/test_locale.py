"""Commands under a locale that is not UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""ASCII, which Python would otherwise take for UTF-8."""


@pytest.mark.parametrize(
    ("script", "overrides"),
    [
        ("simulate", ("model=lenet", "num_devices=4", "tracker=none", "strategy=expert", "other=data_parallel")),
        ("compare", ("runs=runs",)),
    ],
)
def test_command_ends_well(script: str, overrides: tuple[str, ...], search: object, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    search("agent=data_parallel", f"hydra.run.dir={tmp_path}/runs/found")  # type: ignore[operator]
    command = [sys.executable, str(ROOT / "experiments" / f"{script}.py"), *overrides]

    ended = subprocess.run(command, cwd=tmp_path, env=os.environ | PLAIN, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")
