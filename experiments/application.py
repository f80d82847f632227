"""application: a Hydra application whose user's mistakes end in one sentence and exit code 2, without a traceback."""

import contextlib
import difflib
import functools
import importlib.util
import io
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, InstantiationException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from rich.console import Console

from experiments.errors import OccupiedFolderError
from experiments.help_page import help_page
from experiments.resume import resumed
from experiments.run_folder import FAILURE, write_whole
from runtime.errors import RankFailedError
from sim.topology import load_topology

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("sim", "envs", "agents", "runtime", "experiments")

HELP = frozenset(("--help", "-h"))

EXIT_FAULT = 2
EXIT_RANK_FAILED = 1
"""Nothing that the user wrote is wrong: a rank was killed, or gave up."""

EXIT_INTERRUPTED = 130

Task: TypeAlias = Callable[[DictConfig], None]


class FaultReportedError(Exception):
    """A job of a sweep failed by the user's making, and its sentence is on stderr."""


def application(config_name: str) -> Callable[[Task], Callable[[], None]]:
    """Make a command of a function of the configuration.

    Args:
        config_name: a file of ``experiments/conf``, without its ending.
    """

    def decorate(task: Task) -> Callable[[], None]:
        @functools.wraps(task)
        def job(cfg: DictConfig) -> None:
            try:
                task(cfg)
            except Exception as error:
                write_failure(error)
                report(error)
                if HydraConfig.get().mode is RunMode.MULTIRUN:  # the other jobs go on
                    raise FaultReportedError from None
                raise SystemExit(exit_code(error)) from None

        main = hydra.main(version_base="1.3", config_path=str(ROOT / "experiments" / "conf"), config_name=config_name)

        def command() -> None:
            check_origin()
            # Hydra raises what it would otherwise print in several lines.
            os.environ["HYDRA_FULL_ERROR"] = "1"
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.reconfigure(errors="replace")  # an arrow that a terminal's locale lacks ends no command
            OmegaConf.register_new_resolver("stem", lambda path: Path(str(path)).stem, replace=True)
            OmegaConf.register_new_resolver("settings", lambda quick: "quick" if quick else "full", replace=True)
            try:
                if not HELP.isdisjoint(sys.argv[1:]):
                    overrides = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
                    Console().print(help_page(config_name, overrides), highlight=False, crop=False)
                    return
                arguments = resumed(sys.argv[1:])
                sys.argv[1:] = [with_topology_files(argument) for argument in _multirun_first(arguments)]
                main(job)()
            except KeyboardInterrupt:
                raise SystemExit(EXIT_INTERRUPTED) from None
            except FaultReportedError:
                raise SystemExit(EXIT_FAULT) from None
            except Exception as error:
                report(error)
                raise SystemExit(exit_code(error)) from None

        return command

    return decorate


def check_origin() -> None:
    """Refuse rooms from elsewhere: a stranger's package called ``agents`` must not run in the place of ours."""
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        places = list(spec.submodule_search_locations or ()) if spec else []
        assert places == [str(ROOT / room)], f"package '{room}' comes from {places}, not from {ROOT}"


def _multirun_first(arguments: list[str]) -> list[str]:
    """Hydra's parser refuses ``-m`` between two overrides."""
    return sorted(arguments, key=lambda argument: argument not in ("-m", "--multirun"))


def with_topology_files(argument: str) -> str:
    """Let ``topology=`` name YAML files: each becomes an option of the group under its absolute path.

    Raises:
        SimError: a file is missing or not a topology.
    """

    def register(match: re.Match[str]) -> str:
        path = Path(match[0]).resolve()
        load_topology(str(path))
        ConfigStore.instance().store(group=f"topology{path.parent}", name=path.name, node=OmegaConf.load(path))
        return str(path)

    if not argument.startswith("topology="):
        return argument
    key, choices = argument.split("=", 1)
    return f"{key}={re.sub(r'[^,]+[.]ya?ml(?=,|$)', register, choices)}"


def write_failure(error: Exception) -> None:
    """Leave the reason in the run folder, for those who find it there without a finished record."""
    is_occupied = isinstance(error, OccupiedFolderError)  # by another run
    if is_occupied or HydraConfig.get().output_subdir is None:  # or it is no run folder
        return
    folder = Path(HydraConfig.get().runtime.output_dir)
    sentence = sentence_for(error) or f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):  # a full disk may be the very reason
        write_whole(folder / FAILURE, json.dumps({"reason": sentence}) + "\n")


def report(error: Exception) -> None:
    """Write the sentence of a fault to stderr; our own bugs go on with their traceback."""
    sentence = sentence_for(error)
    if sentence is None:
        raise error
    sys.stderr.write(f"error: {sentence}\n")


def exit_code(error: Exception) -> int:
    """Of a command that ends with this sentence."""
    return EXIT_RANK_FAILED if isinstance(error, RankFailedError) else EXIT_FAULT


def sentence_for(error: BaseException) -> str | None:
    """What a user did wrong, or which rank failed, in one sentence; None if the fault is ours."""
    while isinstance(error, InstantiationException) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, MissingConfigException):
        return _missing_choice(error)
    if isinstance(error, OverrideParseException):
        return f"cannot read '{error.override}'; write overrides as key=value, special characters in quotes"
    if isinstance(error, HydraException):
        cause = error.__cause__
        if isinstance(cause, ConfigAttributeError | ConfigKeyError):
            return _unknown_key(cause)
        if isinstance(cause, OmegaConfBaseException):
            error = cause
        sentence = " ".join(str(error).split())
        several = re.match(r"Ambiguous value for argument '([^=]*)=(.*?)' 1[.]", sentence)
        if several:
            key, values = several.groups()
            kinds = f"a list is {key}=[{values}], a text {key}=\"'{values}'\""
            return f"{key}={values}: to run each of them, add -m; {kinds}"
        unsaid = re.match(r"You must specify '(\w+)'.*Available options: (.*)", sentence)
        if unsaid:
            return f"say which {unsaid[1]}: {unsaid[1]}=NAME, one of {', '.join(unsaid[2].split())}"
        return sentence
    if isinstance(error, OmegaConfBaseException):
        return str(error).splitlines()[0] + (f" ({error.full_key})" if error.full_key else "")
    if isinstance(error, OSError):
        where = f"'{error.filename}'" if error.filename else "the run folder"
        return f"cannot use {where}: {error.strerror or error}"
    if isinstance(error, RankFailedError):
        return str(error)
    if isinstance(error, ValueError) and type(error).__module__.split(".")[0] in ROOMS:
        return str(error)
    if str(error).startswith("Config group override must be a string or a list"):  # a plain ValueError of Hydra's
        return "null is not a choice of a group (GROUP=NAME); --help lists the choices"
    return None


def _missing_choice(error: MissingConfigException) -> str:
    group, _, choice = (error.missing_cfg_file or "").rpartition("/")
    if not error.options:
        return f"there is no configuration called '{error.missing_cfg_file}'"
    return f"unknown {group} '{choice}'; choose one of {', '.join(error.options)}"


def _unknown_key(error: ConfigAttributeError | ConfigKeyError) -> str:
    known = [str(key) for key in error.parent_node] if isinstance(error.parent_node, DictConfig) else []
    *above, key = (error.full_key or str(error.key)).split(".")
    near = difflib.get_close_matches(key, known, n=1)
    names = [".".join([*above, name]) for name in near or known if not name.startswith("_") and name != "hydra"]
    hint = f"did you mean '{names[0]}'?" if near else f"choose one of {', '.join(names) or 'none'}"
    return f"unknown key '{'.'.join([*above, key])}'; {hint}"
