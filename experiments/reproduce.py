"""A figure of the paper, made again: ``python experiments/reproduce.py figure=fig4``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig
from rich.console import Console

from experiments.application import application
from experiments.construct import construct
from experiments.figures.reproduction import Reproduction
from experiments.run_folder import RunFolder


@application("reproduce")
def main(cfg: DictConfig) -> None:
    """Make the figure; write its table and its picture, and say how it differs from the paper's."""
    folder, name = RunFolder(), HydraConfig.get().runtime.choices["figure"]
    reproduction: Reproduction = construct(cfg, "figure")()
    folder.write_csv(f"{name}.csv", reproduction.header, reproduction.rows)
    folder.write_png(f"{name}.png", reproduction.picture)
    for line in (reproduction.difference, f"{name}.csv and {name}.png in {folder.label}"):
        Console().print(line, highlight=False, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
