"""A workspace and a report in wandb that compare the runs of a project: ``python experiments/wandb_workspace.py``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import os
from importlib.util import find_spec

from omegaconf import DictConfig
from rich.console import Console

from experiments.application import application
from experiments.errors import OptionError

OFFLINE_MODES = ("offline", "disabled", "dryrun")


@application("wandb_workspace")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Build both, and save them if the user is logged in to wandb."""
    if find_spec("wandb_workspaces") is None:
        raise OptionError("wandb_workspace", 'it needs pip install -c constraints.txt -e ".[wandb]"')
    from experiments.wandb_views import make_report, make_workspace  # a second

    is_online = is_logged_in()
    entity = str(cfg.entity) if cfg.entity else default_entity() if is_online else "you"
    workspace = make_workspace(entity=entity, project=cfg.project, name=cfg.workspace)
    report = make_report(entity=entity, project=cfg.project, title=cfg.report)
    console = Console()
    if not is_online:
        console.print("built a workspace and a report; to save them: wandb login", soft_wrap=True)
        return
    with Console(stderr=True).status("saving in wandb"):
        workspace.save()
        report.save()
    for name, url in (("workspace", workspace.url), ("report", report.url)):
        console.print(f"{name} {url}", highlight=False, markup=False, soft_wrap=True)


def is_logged_in() -> bool:
    """Whether wandb has a key and may use the network; asks nobody."""
    if os.environ.get("WANDB_MODE") in OFFLINE_MODES:
        return False
    import wandb

    wandb.setup(wandb.Settings(silent=True))
    return bool(wandb.login(prompt=False, verify=False))


def default_entity() -> str:
    """The user's, as the server has it."""
    import wandb

    return str(wandb.Api(timeout=15).default_entity)


if __name__ == "__main__":
    main()
