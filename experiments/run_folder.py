"""RunFolder: where the files of one run go."""

import csv
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS_PER_INCH = 150

FAILURE = "failure.json"
"""Says why a job failed (``experiments.application``)."""


class RunFolder:
    """A folder of results; a file appears in it whole or not at all.

    Args:
        path: made if missing; that of the current Hydra job by default.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path if path is not None else Path(HydraConfig.get().runtime.output_dir)
        self.path.mkdir(parents=True, exist_ok=True)

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    def write_json(self, name: str, content: Any) -> None:
        """Write indented JSON; NaN and infinities are our own bugs."""
        with self._draft(name) as draft:
            draft.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")

    def write_csv(self, name: str, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Write a table."""
        with self._draft(name) as draft, draft.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])

    def write_png(self, name: str, picture: "Figure") -> None:
        """Write a picture of matplotlib."""
        with self._draft(name) as draft:
            picture.savefig(draft, format="png", dpi=DOTS_PER_INCH)

    @contextmanager
    def _draft(self, name: str) -> Iterator[Path]:
        with draft(self.path / name) as path:
            yield path

    @property
    def label(self) -> str:
        """The path as people read it: from the working directory if it lies below."""
        return str(self.path.relative_to(Path.cwd()) if self.path.is_relative_to(Path.cwd()) else self.path)


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    with draft(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


@contextmanager
def draft(path: Path) -> Iterator[Path]:
    """A file beside ``path`` that takes its place when it is done."""
    unfinished = path.parent / f".{path.name}.{os.getpid()}.tmp"
    try:
        yield unfinished
        unfinished.replace(path)
    except OSError as error:
        if error.filename in (None, str(unfinished)):  # a full disk names no file; the draft says nothing to the user
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # none, or not to be removed either
            unfinished.unlink()
