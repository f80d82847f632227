"""Pictures of the fastest runs, as the report keeps them."""

import base64
import gzip
from pathlib import Path
from typing import Any

import pytest

from experiments.comparison.pictures import stored_pictures

SVG = '<svg xmlns="http://www.w3.org/2000/svg"><title>{}</title></svg>'


def row(root: Path, folder: str, best_ms: float, *, problem: str = "nmt", text: str | None = None) -> dict[str, Any]:
    """A finished run with a picture; its agent is the first letter of its folder."""
    (root / folder).mkdir()
    (root / folder / "strategy.svg").write_text(SVG.format(folder) if text is None else text)
    agent = folder[0]
    known = {"folder": folder, "status": "finished", "problem": problem, "agent": agent}
    return known | {"best_ms": best_ms, "fits_memory": True}


def test_each_searchers_fastest_run_is_kept_and_the_fastest_of_every_problem_comes_first(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a0", 3.0), row(tmp_path, "a1", 2.0), row(tmp_path, "b0", 1.0)]
    rows += [row(tmp_path, "a2", 9.0, problem="lenet")]

    assert [picture.row["folder"] for picture in stored_pictures(rows, tmp_path)] == ["b0", "a2", "a1"]


def test_a_faster_run_that_exceeds_the_memory_is_pictured_only_where_nothing_fits(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a0", 1.0) | {"fits_memory": False}, row(tmp_path, "a1", 2.0)]
    rows += [row(tmp_path, "b0", 1.0) | {"fits_memory": False}]

    assert [picture.row["folder"] for picture in stored_pictures(rows, tmp_path)] == ["a1", "b0"]


def test_a_kept_picture_is_that_of_the_run_folder(tmp_path: Path) -> None:
    (picture,) = stored_pictures([row(tmp_path, "a0", 1.0)], tmp_path)

    assert gzip.decompress(base64.b64decode(picture.strategy)).decode() == SVG.format("a0")
    assert picture.timeline == ""


def test_pictures_take_no_more_room_than_they_may(tmp_path: Path) -> None:
    rows = [row(tmp_path, "a0", 1.0), row(tmp_path, "b0", 2.0)]
    whole = stored_pictures(rows, tmp_path)

    assert stored_pictures(rows, tmp_path, max_bytes=len(whole[0].strategy)) == whole[:1]


def test_runs_that_are_not_counted_are_not_pictured(tmp_path: Path) -> None:
    assert stored_pictures([row(tmp_path, "a0", 1.0) | {"status": "partial"}], tmp_path) == []


@pytest.mark.parametrize("text", ["", "<svg", "<html></html>", "\x00"])
def test_what_is_no_picture_is_left_out(text: str, tmp_path: Path) -> None:
    (tmp_path / "timeline").mkdir()

    assert stored_pictures([row(tmp_path, "a0", 1.0, text=text)], tmp_path) == []
