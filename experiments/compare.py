"""Compare runs: ``python experiments/compare.py runs=FOLDER``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from omegaconf import DictConfig
from rich.console import Console

from experiments.application import application
from experiments.comparison.comparison import Comparison, Row, compare
from experiments.comparison.found_run import find_runs
from experiments.comparison.page import comparison_page
from experiments.comparison.terminal import comparison_table
from experiments.errors import OptionError
from experiments.run_folder import RunFolder, write_whole


@application("compare")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Find all runs below a folder, and write how their searchers compare."""
    root, folder = Path(str(cfg.runs)).resolve(), RunFolder()
    if not root.is_dir():
        raise OptionError("runs", f"there is no folder '{cfg.runs}'")
    with Console(stderr=True).status(f"reading the runs below {cfg.runs}"):
        runs = find_runs(root)
        if not runs:
            raise OptionError("runs", f"there are no runs below '{cfg.runs}'")
        comparison = compare(runs, root)
        write_tables(folder, comparison)
        write_whole(folder / "report.html", comparison_page(comparison, root=root, place=folder.path))
    console = Console()
    console.print(comparison_table(comparison), soft_wrap=True)
    console.print(f"report.html and comparison.csv in {folder.label}", highlight=False, markup=False, soft_wrap=True)


def write_tables(folder: RunFolder, comparison: Comparison) -> None:
    """Write the four tables; each has a column for every key of its rows."""
    tables: dict[str, list[Row]] = {
        "comparison.csv": list(comparison.runs),
        "comparison_agents.csv": list(comparison.agents),
        "comparison_pairs.csv": list(comparison.pairs),
        "comparison_curves.csv": list(comparison.curves),
    }
    for name, rows in tables.items():
        header = list(dict.fromkeys(key for row in rows for key in row))
        folder.write_csv(name, header, ([row.get(key) for key in header] for row in rows))


if __name__ == "__main__":
    main()
