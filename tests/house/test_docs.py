"""The pages in docs: their examples run, and print what the pages show.

Fences are marked behind the language: ``python runnable`` and ``bash runnable`` are run, in the page's order;
``file=PATH`` is a file that these find; a ``text`` fence right behind a runnable one is its output.
"""

import contextlib
import importlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
EXTENSIBLE = ("agents", "sim.models", "sim.costs", "experiments.figures")
TRACKED = ("experiments/run.py", "experiments/simulate.py")


@dataclass(frozen=True)
class Example:
    """A fence of a page, and the output that follows it."""

    language: str
    mark: str
    code: str
    output: str | None


def examples(page: Path) -> list[Example]:
    found = [Example(m[1], m[2].strip(), m[3], m[4]) for m in FENCE.finditer(page.read_text())]
    return [example for example in found if example.mark]


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory whose files extend the checkout."""
    before = set(sys.modules)
    for room in EXTENSIBLE:
        package = importlib.import_module(room)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / room.replace(".", "/"))])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_the_page_run_and_print_what_it_shows(
    page: Path, workshop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for example in examples(page):
        if example.mark.startswith("file="):
            path = workshop / example.mark.removeprefix("file=")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(example.code)
        elif example.language == "bash":
            for line in example.code.splitlines():
                command(line, workshop, monkeypatch)
        else:
            outputs.append((python(example.code), example.output))

    assert [printed for printed, shown in outputs if shown is not None] == [
        shown for _, shown in outputs if shown is not None
    ]


def python(code: str) -> str:
    """What a script prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})
    return printed.getvalue()


def command(line: str, workshop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Call a command in this process, as from a shell; it must succeed."""
    interpreter, script, *overrides = shlex.split(line)
    assert (interpreter, Path(script).parent) == ("python", Path("experiments"))
    folders = ["pkg://sim.conf", f"file://{workshop}/experiments/conf", f"file://{workshop}/sim/conf"]
    for folder in folders[1:]:
        Path(folder.removeprefix("file://")).mkdir(parents=True, exist_ok=True)
    options = [f"hydra.searchpath=[{','.join(folders)}]", *(["tracker=none"] if script in TRACKED else [])]
    monkeypatch.setattr(sys, "argv", [script, *options, *overrides])
    importlib.import_module(f"experiments.{Path(script).stem}").main()
