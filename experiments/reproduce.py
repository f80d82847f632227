"""A figure of the paper, made again: ``python experiments/reproduce.py figure=fig4``, or ``figure=all quick=true``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_object
from omegaconf import DictConfig
from rich.console import Console

from experiments.application import application
from experiments.archive import Archive
from experiments.construct import construct, keywords
from experiments.figures.reproduction import Reproduction
from experiments.quick_settings import choose_settings
from experiments.run_folder import RunFolder

ALL = ("-m", "figure=glob(*)")


@application("reproduce")  # @hydra.main: what completion in fish looks for
def make_figure(cfg: DictConfig) -> None:
    """Make the figure; write its table and its picture, and say how it differs from the paper's."""
    folder, name = RunFolder(), HydraConfig.get().runtime.choices["figure"]
    choose_settings(cfg, "figure", HydraConfig.get().overrides.task)
    figure, archive = construct(cfg, "figure"), Archive(Path(cfg.archive))
    takes_archive = "archive" in keywords(get_object(cfg.figure["_target_"]))
    reproduction: Reproduction = figure(archive=archive) if takes_archive else figure()
    folder.write_csv(f"{name}.csv", reproduction.header, reproduction.rows)
    folder.write_png(f"{name}.png", reproduction.picture)
    lines = [reproduction.difference, *([archive.summary] if takes_archive else [])]
    for line in (*lines, f"{name}.csv and {name}.png in {folder.label}"):
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


def main() -> None:
    """Make one figure, or with ``figure=all`` one after the other; if one fails, the rest is made all the same."""
    sys.argv[1:] = [word for argument in sys.argv[1:] for word in (ALL if argument == "figure=all" else (argument,))]
    make_figure()


if __name__ == "__main__":
    main()
