"""comparison_table: a comparison in the terminal."""

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from experiments.comparison.comparison import Comparison, Row
from experiments.comparison.found_run import Status
from experiments.comparison.shown import shown


def comparison_table(comparison: Comparison, *, max_listed: int = 10) -> Group:
    """A table for each problem, and below them what was not counted.

    Args:
        comparison: of runs.
        max_listed: runs that are not counted and are listed.
    """
    problems = dict.fromkeys(row["problem"] for row in comparison.agents)
    tables = [_table(problem, [row for row in comparison.agents if row["problem"] == problem]) for problem in problems]
    left_out = [row for row in comparison.runs if row["status"] != Status.FINISHED]
    lines = [f"{len(comparison.runs) - len(left_out)} finished runs, {len(left_out)} others"]
    lines += [f"  {row['status']}: {row['folder']} ({row['reason']})" for row in left_out[:max_listed]]
    if len(left_out) > max_listed:
        lines.append(f"  and {len(left_out) - max_listed} more, in comparison.csv")
    return Group(*tables, *map(Text, lines))


def _table(problem: str, rows: list[Row]) -> Table:
    # Within 80 characters, mostly.
    table = Table(title=problem, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=0)
    table.add_column("agent", overflow="fold")
    for heading in ("runs", "best, ms", "speed-up", "gap", "simulations", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in sorted(rows, key=lambda row: -row["speedup"]):
        table.add_row(
            row["agent"],
            _runs(row),
            Text(shown("best_ms", row.get("best_ms")), style="red" if row.get("num_fitting") == 0 else ""),
            _with_interval(row, "speedup"),
            *(shown(name, row.get(name)) for name in ("gap", "simulations", "search_seconds")),
        )
    return table


def _runs(row: Row) -> str:
    num_runs = row["num_runs"]
    return str(num_runs) if row.get("num_fitting", num_runs) == num_runs else f"{num_runs} ({row['num_fitting']} fit)"


def _with_interval(row: Row, name: str) -> str:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    text = shown(name, row.get(name))
    return text if low is None else f"{text} [{shown(name, low)}, {shown(name, high)}]"
