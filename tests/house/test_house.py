"""The house: whose rooms are imported, what they are called and which way imports point."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("sim", "envs", "agents", "runtime", "experiments")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def python(*arguments: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_rooms_of_this_checkout_win_over_a_strangers_package(tmp_path: Path) -> None:
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise ImportError('a stranger')")

    result = python(ROOT / "experiments" / "run.py", "--cfg", "job", cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert (result.returncode, result.stderr) == (0, "")


def test_mcmc_starts_without_torch_wandb_and_plotly(tmp_path: Path) -> None:
    code = "import agents.mcmc, experiments.run, sys; print({'torch', 'wandb', 'plotly'} & set(sys.modules))"

    result = python("-c", code, cwd=tmp_path, PYTHONPATH=str(ROOT))

    assert (result.stdout, result.stderr) == ("set()\n", "")


def test_no_module_shadows_the_standard_library() -> None:
    names = {path.stem for path in MODULES}

    assert not names & sys.stdlib_module_names


def test_every_package_is_installed() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]

    found = {".".join(path.parent.relative_to(ROOT).parts) for path in MODULES}
    assert set(listed) == found


def test_every_package_has_an_init() -> None:
    folders = {path.parent for path in MODULES}

    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_import_contracts_hold() -> None:
    lint_imports = Path(sys.executable).with_name("lint-imports")

    result = subprocess.run([lint_imports], cwd=ROOT, capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout
