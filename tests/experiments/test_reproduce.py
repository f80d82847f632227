"""reproduce.py: figures of the paper, ours beside theirs."""

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from omegaconf import OmegaConf

from experiments import reproduce
from experiments.figures import fig4 as figure
from experiments.figures.fig4 import HEADER, fig4
from experiments.figures.reproduction import Reproduction
from experiments.quick_settings import choose_settings

Reproduce = Callable[..., str | int | None]

FIGURES = sorted(path.stem for path in Path(reproduce.__file__).parent.glob("conf/figure/*.yaml"))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Reproduce:
    """Call reproduce.py with overrides; returns the exit code."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")

    def invoke(*overrides: str) -> str | int | None:
        monkeypatch.setattr(sys, "argv", ["command", f"hydra.run.dir={tmp_path}", *overrides])
        try:
            reproduce.main()
        except SystemExit as error:
            return error.code
        return 0

    return invoke


@pytest.fixture(scope="module")
def reproduction() -> Reproduction:
    return fig4()


def columns(reproduction: Reproduction, *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[HEADER.index(name)] for name in names) for row in reproduction.rows]


# The command


def test_figure_leaves_a_table_and_a_picture(
    call: Reproduce, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert call("figure=fig4") == 0

    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"fig4.csv", "fig4.png"}
    assert (tmp_path / "fig4.png").read_bytes().startswith(b"\x89PNG")
    assert "equal the paper's" in capfd.readouterr().out


def test_table_on_disk_is_the_reproductions(call: Reproduce, tmp_path: Path, reproduction: Reproduction) -> None:
    call("figure=fig4")

    with (tmp_path / "fig4.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert (tuple(header), rows) == (HEADER, [[str(cell) for cell in row] for row in reproduction.rows])


def test_unknown_figure_is_refused(call: Reproduce, capfd: pytest.CaptureFixture[str]) -> None:
    assert call("figure=fig5") == 2

    assert capfd.readouterr().err == f"error: unknown figure 'fig5'; choose one of {', '.join(FIGURES)}\n"


def test_a_figure_must_be_named(call: Reproduce, capfd: pytest.CaptureFixture[str]) -> None:
    assert call() == 2

    expected = f"error: say which figure: figure=NAME, one of {', '.join(FIGURES)}\n"
    assert capfd.readouterr().err == expected


def test_all_figures_are_one_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "figure=all", "quick=true"])
    monkeypatch.setattr(reproduce, "make_figure", lambda: None)

    reproduce.main()

    assert sys.argv == ["reproduce.py", "-m", "figure=glob(*)", "quick=true"]


@pytest.mark.parametrize(("is_quick", "simulations"), [(True, 5), (False, 100)])
def test_quick_settings_take_the_place_of_the_full_ones(is_quick: bool, simulations: int) -> None:
    figure = {"simulations": 100, "models": ["nmt"], "quick": {"simulations": 5}}
    cfg = OmegaConf.create({"quick": is_quick, "figure": figure})

    choose_settings(cfg, "figure", ["quick=true"])

    assert cfg.figure == {"simulations": simulations, "models": ["nmt"]}


def test_quick_settings_leave_what_the_command_line_names() -> None:
    figure = {"simulations": 100, "models": ["nmt"], "quick": {"simulations": 5, "models": ["lenet"]}}
    cfg = OmegaConf.create({"quick": True, "figure": figure})

    choose_settings(cfg, "figure", ["quick=true", "figure.simulations=100"])

    assert cfg.figure == {"simulations": 100, "models": ["lenet"]}


def test_quick_must_be_true_or_false(call: Reproduce, capfd: pytest.CaptureFixture[str]) -> None:
    assert call("figure=fig4", "quick=very") == 2

    assert capfd.readouterr().err == "error: quick: 'very' is not true or false\n"


# Figure 4


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("time", ["ready", "start"])
def test_every_time_of_figure_4_equals_the_papers(reproduction: Reproduction, time: str, side: str) -> None:
    cells = columns(reproduction, f"{time}_{side}", f"paper_{time}_{side}")

    assert [ours for ours, _ in cells] == [theirs for _, theirs in cells]


def test_figure_4_has_18_tasks_before_and_16_after_the_change(reproduction: Reproduction) -> None:
    cells = columns(reproduction, "exe_before", "exe_after")

    assert [sum(cell != "" for cell in column) for column in zip(*cells, strict=True)] == [18, 16]


def test_figure_4_says_that_nothing_differs(reproduction: Reproduction) -> None:
    assert reproduction.difference == (
        "68 of 68 ready and start times equal the paper's; makespan 14 before and 15 after the change, in the paper "
        "14 and 15"
    )


def test_figure_4_counts_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(figure.FIGURE_4D, (11, 0, 0, 0), (11, 11))

    assert fig4().difference.startswith("67 of 68 ready and start times")


def test_steps_of_figure_4_are_in_the_order_of_ready_times(reproduction: Reproduction) -> None:
    steps = sorted(cell for cell in columns(reproduction, "step", "ready_after") if cell[0] != "")

    assert [step for step, _ in steps] == list(range(1, 13))
    assert [ready for _, ready in steps] == sorted(ready for _, ready in steps)


def test_figure_4_draws_every_task_where_it_runs(reproduction: Reproduction) -> None:
    drawn = []
    for axes in reproduction.picture.axes[-2:]:
        bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        drawn.append(sorted((round(bar.get_x()), round(bar.get_width())) for bar in bars))

    cells = [columns(reproduction, f"start_{side}", f"exe_{side}") for side in ("before", "after")]
    assert drawn == [sorted(cell for cell in side if cell[0] != "") for side in cells]


def test_figure_4_highlights_what_the_papers_grey_area_changes(reproduction: Reproduction) -> None:
    bars = [patch for patch in reproduction.picture.axes[-1].patches if isinstance(patch, Rectangle)]

    changed = sorted(round(bar.get_x()) for bar in bars if to_hex(bar.get_facecolor()) == figure.CHANGED)
    assert changed == [5, 7, 9, 9, 12]  # t3:1, its transfer, t4:1's transfer, t5:1, t6:1
