"""Conformance of every YAML: it composes, targets its room and has exactly the constructor's keywords."""

import inspect
from pathlib import Path

import hydra
import pytest
from hydra.utils import get_object
from omegaconf import DictConfig

from experiments.construct import RESERVED, keywords

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "experiments" / "conf"

ROOMS = {
    "agent": "agents.",
    "cost": "sim.costs.",
    "figure": "experiments.figures.",
    "model": "sim.models.",
    "pretraining": "agents.",
    "space": "sim.space.",
    "sync": "sim.sync.",
    "topology": "sim.topologies.",
    "tracker": "experiments.tracker.",
}

COMMANDS = {"figure": "reproduce", "pretraining": "pretrain"}
"""Whose configuration has the group, where it is not that of run.py."""

SUPPLIED = {"agent": {"seed"}, "figure": {"archive"}, "pretraining": {"seed"}}
"""Keywords that the program gives and not the YAML."""

NOT_HANDED_ON = {"figure": {"quick"}}
"""Keys of the YAML that the program reads, and the constructor does not."""

FILES = sorted([*CONF.glob("*/*.yaml"), *(ROOT / "sim" / "conf").glob("*/*.yaml")])
OPTIONS = [pytest.param(path.parent.name, path.stem, id=f"{path.parent.name}={path.stem}") for path in FILES]


def compose(group: str, option: str) -> DictConfig:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        return hydra.compose(COMMANDS.get(group, "config"), [f"{group}={option}"])[group]


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_yaml_targets_its_room(group: str, option: str) -> None:
    cfg = compose(group, option)

    assert cfg["_target_"].startswith(ROOMS[group])


@pytest.mark.parametrize(("group", "option"), OPTIONS)
def test_yaml_has_exactly_the_constructors_keywords(group: str, option: str) -> None:
    cfg = compose(group, option)

    expected = set(keywords(get_object(cfg["_target_"]))) - SUPPLIED.get(group, set())
    assert set(cfg) - set(RESERVED) - NOT_HANDED_ON.get(group, set()) == expected
    assert set(cfg.get("quick", ())) <= expected


@pytest.mark.parametrize(("group", "option"), [option for option in OPTIONS if option.values[0] in ("model", "cost")])
def test_yaml_values_are_the_constructors_defaults(group: str, option: str) -> None:
    cfg = compose(group, option)

    parameters = inspect.signature(get_object(cfg["_target_"])).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    assert {key: cfg[key] for key in defaults} == defaults


LAUNCHERS = {
    "joblib": "hydra_plugins.hydra_joblib_launcher",
    "submitit_local": "hydra_plugins.hydra_submitit_launcher",
    "submitit_slurm": "hydra_plugins.hydra_submitit_launcher",
    "ray": "hydra_plugins.hydra_ray_launcher",
}


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_sweep_composes_with_the_launcher(launcher: str) -> None:
    pytest.importorskip(LAUNCHERS[launcher], reason=f"needs the plugin of Hydra's launcher {launcher}")
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", [f"hydra/launcher={launcher}"], return_hydra_config=True)

    assert cfg.hydra.launcher["_target_"].startswith(LAUNCHERS[launcher])


@pytest.mark.parametrize("command", ["config", "simulate"])
def test_command_composes(command: str) -> None:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose(command)

    assert cfg.num_devices == 16
