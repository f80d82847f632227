"""standings_tables: an evaluation in the terminal."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from experiments.comparison.shown import MISSING
from experiments.evaluation.evaluation import Evaluation
from experiments.evaluation.standings import ALL, Row, Standings

FIGURES = {"score": 4, "improvement": 2, "area": 4, "near_best": 2}
"""Columns of totals, and their digits."""


def standings_tables(evaluation: Evaluation, standings: Standings) -> Group:
    """For each budget a table of each group, and of each cluster what was found on its problems."""
    tables = []
    for key in dict.fromkeys((row["unit"], row["checkpoint"]) for row in standings.rows):
        rows = [row for row in standings.rows if (row["unit"], row["checkpoint"]) == key]
        totals = [row for row in standings.totals if (row["unit"], row["checkpoint"]) == key]
        budget = f"{key[1]:,g} {key[0]}"
        for group in dict.fromkeys(row["group"] for row in totals):
            own = [row for row in totals if row["group"] == group]
            name = "all clusters" if group == ALL else group
            tables.append(
                _totals_table(f"{name}, {budget}: {own[0]['num_problems']} problems", own, evaluation.reference)
            )
        for cluster in dict.fromkeys(row["cluster"] for row in rows):
            own = [row for row in rows if row["cluster"] == cluster]
            tables.append(_problems_table(f"{cluster}, {budget}: speed-up over data parallelism", own))
    note = (
        "score: best known time over time found, interquartile mean; area: its mean along the search, by the logarithm "
        "of simulations; near: share of searches within 1 % of the best known; 95 % intervals by stratified bootstrap"
    )
    if standings.left_out:
        problems = ", ".join(f"{case.model} on {case.cluster}" for case in standings.left_out)
        note = f"{note}\nleft out, since nothing found there fits the memory: {problems}"
    return Group(*tables, Text(note))


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("contestant", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _totals_table(title: str, rows: Sequence[Row], reference: str) -> Table:
    table = _table(title, ("score", f"beats {reference}", "area", "near", "pre-training"))
    for row in sorted(rows, key=lambda row: -row["score"]):
        figures = [_figure(row, name, digits) for name, digits in FIGURES.items()]
        table.add_row(row["contestant"], *figures, _pretraining(row))
    return table


def _problems_table(title: str, rows: Sequence[Row]) -> Table:
    models = list(dict.fromkeys(row["model"] for row in rows))
    table = _table(title, models)
    for name in dict.fromkeys(row["contestant"] for row in rows):
        own = {row["model"]: row for row in rows if row["contestant"] == name}
        table.add_row(name, *(f"{own[model]['speedup']:.4f}" if model in own else MISSING for model in models))
    return table


def _figure(row: Row, name: str, digits: int) -> str:
    value, low, high = (row.get(key) for key in (name, f"{name}_low", f"{name}_high"))
    if value is None:
        return MISSING
    interval = "" if low is None else f" [{low:.{digits}f}, {high:.{digits}f}]"
    return f"{value:.{digits}f}{interval}"


def _pretraining(row: Row) -> str:
    """What the policies cost before, each on average."""
    if not row["pretraining_seconds"]:
        return "0"
    return f"{row['pretraining_seconds']:,.0f} s, {row['pretraining_simulations']:,.0f} simulations"
