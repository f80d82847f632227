"""compare.py: what it finds, counts and writes."""

import contextlib
import csv
import json
import sys
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from experiments import compare, run, simulate
from experiments.comparison.found_run import Status, read_run
from experiments.comparison.shown import shown

SMALL = ("model=lenet", "num_devices=4", "tracker=none")
NUM_SWEPT = 12


@dataclass(frozen=True)
class Compared:
    """A folder of runs, and what compare.py made of it."""

    runs: Path
    folder: Path

    def csv(self, name: str) -> list[dict[str, str]]:
        with (self.folder / name).open(newline="") as file:
            return list(csv.DictReader(file))

    @property
    def page(self) -> str:
        return (self.folder / "report.html").read_text()


def spoil(runs: Path) -> None:
    """Make runs that are not whole."""
    for source, name in (("0", "killed"), ("1", "stopped"), ("2", "torn"), ("3", "repeated")):
        target = runs / "more" / name
        target.mkdir(parents=True)
        for path in (runs / "sweep" / source).iterdir():
            if path.is_file():
                (target / path.name).write_bytes(path.read_bytes())
    for name, change in (("killed", {"is_partial": True}), ("stopped", {"is_interrupted": True})):
        path = runs / "more" / name / "record.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change | {"search_seconds": 7.0}))
    path = runs / "more" / "torn" / "record.json"
    path.write_text(path.read_text()[:100])


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Two searchers with three seeds on two problems, a priced strategy, and runs that are not whole."""
    runs, folder = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("compared")
    sweep = ("-m", "agent=random,mcmc", "seed=0,1,2", "sync=ring,zero", "budget.simulations=50")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYDRA_FULL_ERROR", "1")
        for main, *overrides in (
            (run.main, *SMALL, *sweep, f"hydra.sweep.dir={runs}/sweep"),
            (run.main, *SMALL, "seed=-1", f"hydra.run.dir={runs}/more/refused"),
            (simulate.main, *SMALL, "strategy=expert", f"hydra.run.dir={runs}/priced"),
        ):
            patch.setattr(sys, "argv", ["command", *overrides])
            with contextlib.suppress(SystemExit):  # the refused one
                main()
        spoil(runs)
        patch.setattr(sys, "argv", ["command", f"runs={runs}", f"hydra.run.dir={folder}"])
        compare.main()
    return Compared(runs, folder)


class Page(HTMLParser):
    """Collects the numbers that a report shows: table, line of the CSV, column, digits inside, digits to be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[tuple[str, int, str, str, str]] = []
        self.shown: dict[str, list[int]] = {}
        self.links: list[str] = []
        self._table, self._row, self._number, self._json = "", -1, ("", ""), False
        self.data: Any = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attributes}
        if tag == "table":
            self._table = found.get("id", "pairs")
        if "data-row" in found:
            self._row = int(found["data-row"])
            self.shown.setdefault(self._table, []).append(self._row)
        if tag == "a":
            self.links.append(found["href"])
        if tag == "data":
            self._number = (found["class"], found["value"])
        self._json = tag == "script" and found.get("id") == "data"

    def handle_data(self, text: str) -> None:
        if self._number[0]:
            self.numbers.append((self._table, self._row, *self._number, text))
            self._number = ("", "")
        if self._json:
            self.data, self._json = json.loads(text), False


@pytest.fixture(scope="module")
def page(compared: Compared) -> Page:
    parser = Page()
    parser.feed(compared.page)
    return parser


def typed(text: str) -> Any:
    """A cell of a CSV as the value that was written."""
    if text in ("", "True", "False"):
        return {"": None, "True": True, "False": False}[text]
    return float(text)


TABLES = {"runs": "comparison.csv", "agents": "comparison_agents.csv", "pairs": "comparison_pairs.csv"}


def test_every_number_of_the_tables_is_the_csvs(compared: Compared, page: Page) -> None:
    rows = {table: compared.csv(name) for table, name in TABLES.items()}

    assert len(page.numbers) > 100
    for table, row, column, inside, seen in page.numbers:
        assert inside == rows[table][row][column]
        assert seen == (inside if column in ("seed", "num_runs", "num_fitting") else shown(column, typed(inside)))


def test_every_row_of_the_csvs_is_on_the_page(compared: Compared, page: Page) -> None:
    finished = [i for i, row in enumerate(compared.csv("comparison.csv")) if row["status"] == "finished"]

    assert sorted(page.shown["runs"]) == finished
    assert sorted(page.shown["agents"]) == list(range(len(compared.csv("comparison_agents.csv"))))
    assert sorted(page.shown["pairs"]) == list(range(len(compared.csv("comparison_pairs.csv"))))


def test_every_point_that_is_drawn_is_the_csvs(compared: Compared, page: Page) -> None:
    rows = [
        [row["problem"], row["agent"], row["figure"], *(typed(row[key]) for key in ("x", "y", "low", "high"))]
        for row in compared.csv("comparison_curves.csv")
    ]
    points = [
        {key: row[key] if key in ("problem", "agent") else typed(row[key]) for key in page.data["runs"][0]}
        for row in compared.csv("comparison.csv")
        if row["status"] == "finished"
    ]

    assert page.data["curves"] == rows
    assert page.data["runs"] == points


def test_every_folder_is_listed_and_says_why_it_is_not_counted(compared: Compared) -> None:
    others = {row["folder"]: row for row in compared.csv("comparison.csv") if row["status"] != "finished"}

    assert {name: (row["status"], row["reason"]) for name, row in others.items()} == {
        "more/killed": ("partial", "killed or still running after 7 s"),
        "more/refused": ("failed", "seed: -1 is not a whole number from 0 on"),
        "more/stopped": ("interrupted", "ended by the user"),
        "more/torn": ("failed", others["more/torn"]["reason"]),
        "more/repeated": ("repeated", "the same search and seed as sweep/3"),
    }


def test_curves_end_at_what_the_runs_found(compared: Compared) -> None:
    agents = {(row["problem"], row["agent"]): row["best_ms"] for row in compared.csv("comparison_agents.csv")}
    ends = {
        (row["problem"], row["agent"]): row["y"]
        for row in compared.csv("comparison_curves.csv")
        if row["figure"] == "simulations"
    }

    assert len(ends) == 4
    assert ends == {key: agents[key] for key in ends}


def test_problems_and_searchers_are_told_apart(compared: Compared) -> None:
    rows = [(row["problem"], row["agent"], row["num_runs"]) for row in compared.csv("comparison_agents.csv")]

    cluster = "lenet on 4 of p100_cluster"
    assert set(rows) == {
        *((f"{cluster}, sync.scheme={sync}", agent, "3") for sync in ("ring", "zero") for agent in ("mcmc", "random")),
        (f"{cluster}, sync.scheme=ring", "strategy expert", "1"),
        ("all problems", "mcmc", "6"),
        ("all problems", "random", "6"),
    }


def test_links_lead_to_the_files(compared: Compared, page: Page) -> None:
    files = [link for link in page.links if not link.startswith("#")]

    assert len(files) == 5 * NUM_SWEPT + 3  # a priced strategy has no strategy.json and no curve
    assert all((compared.folder / link).is_file() for link in files)


def test_page_needs_no_network(compared: Compared) -> None:
    library = compared.page[compared.page.index("<script>") : compared.page.rindex("<script>")]
    markup = compared.page.replace(library, "")

    assert "http" not in markup
    assert len(compared.page) < 6_000_000


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("empty", "runs: there are no runs below '{}'"), ("missing", "runs: there is no folder '{}'")],
)
def test_folder_without_runs_is_refused(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    folder = tmp_path / name
    monkeypatch.setattr(sys, "argv", ["command", f"runs={folder}", f"hydra.run.dir={tmp_path}/compared"])
    with pytest.raises(SystemExit) as end:
        compare.main()

    assert (end.value.code, capfd.readouterr().err) == (2, f"error: {sentence.format(folder)}\n")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"lower_bound_ms": None}, "lower_bound_ms: None is not a number"),
        ({"best_ms": "fast"}, "best_ms: 'fast' is not a number"),
        ({"best_ms": 0}, "best_ms: 0 is not a positive number"),
        ({"speedup": float("nan")}, "speedup: nan is not a positive number"),
        ({"seed": [1]}, "seed: [1] is not a whole number"),
        ({"configuration": []}, "configuration: [] is not a mapping"),
    ],
)
def test_record_that_was_changed_by_hand_is_a_reason_and_no_end(
    change: dict[str, Any], reason: str, compared: Compared, tmp_path: Path
) -> None:
    record = json.loads((compared.runs / "sweep" / "0" / "record.json").read_text())
    (tmp_path / "record.json").write_text(json.dumps(record | change))
    run = read_run(tmp_path)

    assert (run.status, run.reason) == (Status.FAILED, f"cannot be read: {reason}")


def test_record_of_an_older_version_says_what_it_lacks(compared: Compared, tmp_path: Path) -> None:
    record = json.loads((compared.runs / "sweep" / "0" / "record.json").read_text())
    del record["lower_bound_ms"], record["fits_memory"]
    (tmp_path / "record.json").write_text(json.dumps(record))

    assert read_run(tmp_path).reason == "cannot be read: it lacks lower_bound_ms, fits_memory"
