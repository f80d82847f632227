"""resumed: the command line that a run folder was made with, so that ``resume=FOLDER`` need not repeat it."""

from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from experiments.errors import ResumeError

FREE = ("interrupted=", "tracker=", "tracker.", "hydra/launcher=", "hydra.launcher.")
"""What may be said anew: it changes how searches are run, not what they find."""

PLACES = ("hydra.run.dir=", "hydra.sweep.dir=", "hydra.mode=")


def resumed(arguments: Sequence[str]) -> list[str]:
    """Replace ``resume=FOLDER`` by the overrides that FOLDER was made with.

    Raises:
        ResumeError: it is no run folder and no sweep's, or it stands beside keys that would change the run.
    """
    folders = [argument.removeprefix("resume=") for argument in arguments if argument.startswith("resume=")]
    if not folders or folders == ["null"]:
        return list(arguments)
    *_, name = folders
    if name[:1] == name[-1:] and name.startswith(("'", '"')):  # as Hydra wants what has special characters
        name = name[1:-1]
    folder = Path(name).resolve()
    sweep, run = folder / "multirun.yaml", folder / ".hydra" / "hydra.yaml"
    is_sweep = sweep.is_file()
    if not is_sweep and not run.is_file():
        raise ResumeError(name, "is neither a run folder nor that of a sweep")
    hydra = started_job(sweep if is_sweep else run)
    if hydra is None:
        raise ResumeError(name, "was killed before it said how it was started; start it as you did")
    if hydra.job.config_name != "config":
        raise ResumeError(name, "was not made by run.py")
    recorded = [text for text in (*hydra.overrides.task, *hydra.overrides.hydra) if not text.startswith(PLACES)]
    said = [argument for argument in arguments if not argument.startswith("resume=") and argument not in recorded]
    for argument in said:
        if not argument.startswith(FREE):
            raise ResumeError(name, f"is finished as it was begun; '{argument}' cannot change it")
    keys = tuple(f"{argument.partition('=')[0]}=" for argument in said)
    place = f"hydra.{'sweep' if is_sweep else 'run'}.dir='{folder}'"
    return [*(["-m"] if is_sweep else []), *(text for text in recorded if not text.startswith(keys)), place, *said]


def started_job(path: Path) -> DictConfig | None:
    """What Hydra wrote about a job or sweep when it started; None if it was killed over that."""
    try:
        hydra = OmegaConf.load(path).hydra
        return hydra if hydra.job.config_name and hydra.overrides else None
    except (OSError, UnicodeDecodeError, YAMLError, OmegaConfBaseException, AttributeError):
        return None
