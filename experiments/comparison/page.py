"""comparison_page: a comparison as one HTML page that opens offline."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import quote

from experiments.comparison.comparison import Comparison, Row
from experiments.comparison.found_run import Status
from experiments.comparison.pictures import StoredPicture, stored_pictures
from experiments.comparison.shown import MISSING, shown

HERE = Path(__file__).parent

FILES = {
    "strategy.svg": "picture",
    "strategy.json": "strategy",
    "timeline.json": "timeline",
    "curve.csv": "curve",
    "record.json": "record",
}
"""Of a run folder that the page links to, and what the links say."""

AGENT_COLUMNS = (
    ("agent", "agent"),
    ("num_runs", "runs"),
    ("best_ms", "best, ms"),
    ("speedup", "speed-up"),
    ("fastest_ms", "fastest run, ms"),
    ("lower_bound_ms", "bound, ms"),
    ("gap", "certified gap"),
    ("simulations", "simulations"),
    ("search_seconds", "seconds"),
    ("num_fitting", "fit memory"),
)

RUN_COLUMNS = (
    ("agent", "agent"),
    ("seed", "seed"),
    ("best_ms", "best, ms"),
    ("speedup", "speed-up"),
    ("gap", "certified gap"),
    ("simulations", "simulations"),
    ("search_seconds", "seconds"),
    ("fits_memory", "memory"),
)

TIMES = ("best_ms", "fastest_ms")

TEXTS = ("agent",)
"""Columns that are no numbers."""


def comparison_page(comparison: Comparison, *, root: Path, place: Path) -> str:
    """The page; it needs nothing but a browser.

    Args:
        comparison: of runs.
        root: the folder that rows name run folders from.
        place: the folder that the page will lie in, from which it links to run folders.
    """
    from plotly.offline import get_plotlyjs  # a second

    problems = list(dict.fromkeys(row["problem"] for row in comparison.agents))
    counted = [row for row in comparison.runs if row["status"] == Status.FINISHED]
    agents = sorted({row["agent"] for row in comparison.agents})
    fastest_first = sorted(comparison.agents, key=lambda row: (problems.index(row["problem"]), -row["speedup"]))
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        style=(HERE / "page.css").read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        script=(HERE / "page.js").read_text(encoding="utf-8"),
        data=_json(comparison, agents),
        folder=escape(str(root)),
        num_counted=len(counted),
        num_others=len(comparison.runs) - len(counted),
        options="".join(f"<option>{escape(problem)}</option>" for problem in problems),
        agents=_table("agents", AGENT_COLUMNS, fastest_first, comparison.agents),
        pictures="".join(map(_picture, stored_pictures(comparison.runs, root))),
        matrices="".join(_matrix(problem, fastest_first, comparison.pairs) for problem in problems),
        runs=_table("runs", RUN_COLUMNS, counted, comparison.runs, lambda row: _links(root / row["folder"], place)),
        others=_others([row for row in comparison.runs if row["status"] != Status.FINISHED]),
    )


def _json(comparison: Comparison, agents: Sequence[str]) -> str:
    """What is drawn; safe inside a script element."""
    points = (
        *("simulations", "best_ms", "speedup", "data_parallel_ms", "lower_bound_ms", "fits_memory"),
        *("problem", "agent", "seed"),
    )
    content: dict[str, Any] = {
        "agents": agents,
        "runs": [{key: row[key] for key in points} for row in comparison.runs if row["status"] == Status.FINISHED],
        "curves": [list(row.values()) for row in comparison.curves],
    }
    return json.dumps(content, allow_nan=False, separators=(",", ":")).replace("</", "<\\/")


def _table(
    name: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Row],
    numbered: Sequence[Row],
    links: Callable[[Row], str] | None = None,
) -> str:
    """A table whose rows say which line of the CSV, ``numbered``, they show."""
    headings = "".join(
        f'<th scope="col"><button type="button" data-column="{column}">{heading}</button></th>'
        for column, heading in columns
    )
    lines = {id(row): number for number, row in enumerate(numbered)}
    body = "".join(
        f'<tr data-row="{lines[id(row)]}" data-problem="{escape(row["problem"])}" data-agent="{escape(row["agent"])}">'
        + "".join(_cell(column, row) for column, _ in columns)
        + (f"<td>{links(row)}</td>" if links else "")
        + "</tr>"
        for row in rows
    )
    files = '<th scope="col">files</th>' if links else ""
    return f'<table id="{name}"><thead><tr>{headings}{files}</tr></thead><tbody>{body}</tbody></table>'


def _cell(column: str, row: Row) -> str:
    if column in TEXTS:
        return f'<th scope="row"><i class="swatch"></i>{escape(str(row[column]))}</th>'
    text = _number(column, row)
    if row.get(f"{column}_low") is not None:
        ends = ", ".join(_number(f"{column}_{end}", row) for end in ("low", "high"))
        text += f' <span class="interval">[{ends}]</span>'
    if column == "num_fitting" and row.get(column) is not None:
        text += f" of {row['num_runs']}"
    return f"<td{' class=bad' if _exceeds(column, row) else ''}>{text}</td>"


def _exceeds(column: str, row: Row) -> bool:
    """Whether a cell is of strategies that exceed a device's memory, so that they cannot run."""
    if column == "num_fitting":
        return bool(row.get(column, row["num_runs"]) < row["num_runs"])
    return column in ("fits_memory", *TIMES) and (row.get("fits_memory") is False or row.get("num_fitting") == 0)


def _number(column: str, row: Row) -> str:
    """A number with the CSV's digits inside and fewer of them to be seen."""
    value = row.get(column)
    return MISSING if value is None else f'<data class="{column}" value="{value}">{shown(column, value)}</data>'


def _matrix(problem: str, agents: Sequence[Row], pairs: Sequence[Row]) -> str:
    """Probabilities of improvement on a problem, searchers with the greatest speed-up first."""
    names = [row["agent"] for row in agents if row["problem"] == problem]
    found = {
        (row["agent"], row["other"]): (number, row) for number, row in enumerate(pairs) if row["problem"] == problem
    }
    head = "".join(f'<th scope="col" data-agent="{escape(name)}">{escape(name)}</th>' for name in names)
    body = ""
    for name in names:
        cells = []
        for other in names:
            number, row = found.get((name, other), (-1, None))
            if row is None:
                cells.append(f'<td data-agent="{escape(other)}">{MISSING}</td>')
                continue
            low, high = (shown("probability", row[f"probability_{end}"]) for end in ("low", "high"))
            interval = f' title="95 % interval {low} to {high}"' if row["probability_low"] is not None else ""
            shade = f' style="--p:{100 * abs(2 * row["probability"] - 1):.0f}%"'
            side = "more" if row["probability"] > 0.5 else "less"
            cells.append(
                f'<td data-row="{number}" data-agent="{escape(other)}" class="{side}"{shade}{interval}>'
                f"{_number('probability', row)}</td>"
            )
        body += f'<tr data-agent="{escape(name)}"><th scope="row">{escape(name)}</th>{"".join(cells)}</tr>'
    head = f'<thead><tr><th scope="col">faster than</th>{head}</tr></thead>'
    return f'<table class="matrix" data-problem="{escape(problem)}">{head}<tbody>{body}</tbody></table>'


def _picture(stored: StoredPicture) -> str:
    """A run's pictures, as text that nothing is drawn from yet."""
    row, packed = stored.row, {"strategy": stored.strategy, "timeline": stored.timeline}
    said = f"{row['agent']}, seed {row['seed']}: {shown('best_ms', row['best_ms'])} ms"
    said += "" if row["fits_memory"] else ", exceeds the memory"
    data = {"problem": row["problem"], "agent": row["agent"], "said": said} | packed
    return "<li" + "".join(f' data-{name}="{escape(text)}"' for name, text in data.items()) + "></li>"


def _links(folder: Path, place: Path) -> str:
    relative = quote(os.path.relpath(folder, place))
    present = {name: label for name, label in FILES.items() if (folder / name).is_file()}
    return " ".join(f'<a href="{relative}/{name}">{label}</a>' for name, label in present.items())


def _others(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>None.</p>"
    items = (f"<li><b>{row['status']}</b> {escape(row['folder'])}: {escape(row['reason'])}</li>" for row in rows)
    return f"<ul>{''.join(items)}</ul>"
