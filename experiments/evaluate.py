"""Learned and classical searchers on equal budgets: ``python experiments/evaluate.py``, or with ``quick=true``."""

import sys
from collections.abc import Sequence
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from experiments.application import application
from experiments.archive import Archive
from experiments.construct import construct
from experiments.errors import OptionError
from experiments.evaluation.evaluation import Evaluation
from experiments.evaluation.pictures import curves_picture, problems_picture
from experiments.evaluation.standings import Row, judge
from experiments.evaluation.terminal import standings_tables
from experiments.quick_settings import choose_settings
from experiments.run_folder import RunFolder

MIN_WIDTH = 120
"""Of the tables, in characters; a file has 80 by default."""


@application("evaluate")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Search what the archive lacks; write and print who found what."""
    choose_settings(cfg, "evaluation", HydraConfig.get().overrides.task)
    evaluation: Evaluation = construct(cfg, "evaluation")
    folder, archive = RunFolder(), Archive(Path(cfg.archive))
    entries = evaluation.hold(archive)
    if not entries:
        raise OptionError("archive", f"'{cfg.archive}' has no complete searches of this evaluation")
    standings = judge(evaluation, entries, archive)
    if not standings.rows:
        raise OptionError("evaluation", "nothing found fits the devices' memory")
    folder.write_json("evaluation.json", {"commands": sys.argv, "totals": list(standings.totals)})
    _write_table(folder, "evaluation.csv", standings.rows)
    _write_table(folder, "evaluation_totals.csv", standings.totals)
    folder.write_png("curves.png", curves_picture(standings))
    folder.write_png("problems.png", problems_picture(standings))
    console = Console(width=max(MIN_WIDTH, Console().width))
    console.print(standings_tables(evaluation, standings), soft_wrap=True)
    written = "evaluation.csv, evaluation_totals.csv, evaluation.json, curves.png and problems.png"
    for line in (archive.summary, f"{written} in {folder.label}"):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _write_table(folder: RunFolder, name: str, rows: Sequence[Row]) -> None:
    header = list(dict.fromkeys(key for row in rows for key in row))
    folder.write_csv(name, header, ([row.get(key) for key in header] for row in rows))


if __name__ == "__main__":
    main()
