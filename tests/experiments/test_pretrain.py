"""Pre-training writes a policy that the searchers take, and keeps away from what is held out."""

import json
import sys
from pathlib import Path
from typing import Any

import hydra
import numpy as np
import pytest

from agents.policy_file import load_policy
from experiments import pretrain
from experiments.construct import construct
from experiments.evaluation.entrants import Cost
from experiments.instances import Instances
from sim.topology import load_topology

CONF = Path(__file__).resolve().parents[2] / "experiments" / "conf"
POLICIES = sorted((CONF.parent / "policies").glob("without_*.safetensors"))
SMALL = ("instances.generated_share=1", "instances.held_out=null")
BY_TRIAL = ("pretraining=reinforcement", "pretraining.network.width=8", "instances.num_devices=[2]")
SHORT = ("pretraining.imitation.simulations=100", "pretraining.network.width=8", "instances.num_devices=[2]")


def instances(**changes: Any) -> Instances:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("pretrain")
    made = construct(cfg, "instances", **changes)
    assert isinstance(made, Instances)
    return made


def call(monkeypatch: pytest.MonkeyPatch, folder: Path, *overrides: str) -> None:
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setattr(sys, "argv", ["command", f"hydra.run.dir={folder}", "seconds=0.2", *overrides])
    pretrain.main()


def test_the_command_writes_a_policy_and_what_it_cost(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    validation = "validation=[{model: lenet, topology: p100_cluster, num_devices: 2, sync: ring}]"
    call(monkeypatch, tmp_path, *SMALL, *SHORT, validation)
    training = json.loads((tmp_path / "policy.json").read_text())["training"]

    assert load_policy(tmp_path / "policy.safetensors").width == 8
    assert training["spent"]["simulations"] == 100 * training["spent"]["problems"] > 0
    assert training["options"]["instances"]["held_out"] is None
    assert training["validation_speedups"][-1]["lenet 2 p100_cluster ring"] >= 1


def test_solved_problems_serve_a_training(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, few = tmp_path / "lessons", ("validation=[]", "pretraining.lessons_per_problem=1")
    call(monkeypatch, tmp_path / "solve", *SMALL, *SHORT, f"lessons={folder}", "solve=2")
    call(monkeypatch, tmp_path / "learn", *SMALL, *SHORT, *few, f"lessons={folder}", "seconds=1")
    spent = json.loads((tmp_path / "learn" / "policy.json").read_text())["training"]["spent"]

    assert not (tmp_path / "solve" / "policy.json").exists()
    assert spent["lessons"] > spent["problems"]
    assert spent["simulations"] == 100 * spent["problems"]


def test_what_a_policy_goes_on_from_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    call(monkeypatch, tmp_path / "first", *SMALL, *SHORT, "validation=[]")
    call(
        monkeypatch,
        tmp_path / "second",
        *SMALL,
        *SHORT,
        "validation=[]",
        f"pretraining.policy={tmp_path / 'first' / 'policy.safetensors'}",
    )
    first, second = (json.loads((tmp_path / name / "policy.json").read_text()) for name in ("first", "second"))

    assert second["training"]["before"] == first["training"]


def test_reinforcement_goes_on_from_imitation_and_tells_what_both_cost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    imitated = tmp_path / "first" / "policy.safetensors"
    call(monkeypatch, imitated.parent, *SMALL, *SHORT, "validation=[]")
    call(monkeypatch, tmp_path / "second", *SMALL, *BY_TRIAL, "validation=[]", f"pretraining.policy={imitated}")
    training = json.loads((tmp_path / "second" / "policy.json").read_text())["training"]
    first, second = training["before"]["spent"], training["spent"]

    assert second["episodes"] == 32 * second["problems"]
    expected = first["simulations"] + first["decisions"] + second["simulations"]
    assert Cost.of(str(tmp_path / "second" / "policy.safetensors")).simulations == expected


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_a_policy_of_the_repository_was_trained_without_its_family(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    training = json.loads(path.with_suffix(".json").read_text())["training"]

    load_policy(f"experiments/policies/{path.name}")
    family = path.stem.removeprefix("without_").removesuffix("_reinforced")
    assert training["options"]["instances"]["held_out"] == family
    while training := training["before"]:
        options = training["options"]["instances"]
        assert options["held_out"] == family or options["generated_share"] == 1


def test_the_family_that_is_held_out_is_never_drawn() -> None:
    rng, drawn = np.random.default_rng(0), instances(held_out="resnet", generated_share=0.0)

    assert {drawn.draw(rng).model for _ in range(200)} == {"alexnet", "inception_v3", "rnntc", "rnnlm", "nmt"}


def test_no_more_devices_are_drawn_than_the_topology_has() -> None:
    rng, source = np.random.default_rng(0), instances()
    most = {name: load_topology(name).num_devices for name in source.topologies}

    assert most == source.topologies
    assert all(one.num_devices <= most[one.topology] for one in (source.draw(rng) for _ in range(200)))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "pretraining=trial",
            "error: unknown pretraining 'trial'; choose one of imitation, reinforcement",
        ),
        ("seconds=0", "error: seconds: 0 is not a positive number"),
        ("solve=1", "error: solve: needs a folder to write to: lessons=FOLDER"),
        ("solve=-1", "error: solve: -1 is not a whole number from 0 on"),
        ("instances.syncs=[rings]", "error: instances.syncs: 'rings' is none of ring, parameter_server, "),
        ("instances.held_out=vgg", "error: instances.held_out: 'vgg' is none of alexnet, inception, resnet, "),
        ("pretraining.policy=none.safetensors", "error: policy file 'none.safetensors' has no readable none.json "),
        ("validation=[{model: nmt}]", "error: validation: {'model': 'nmt'} has no num_devices, sync, topology"),
        (
            "validation=[{model: vgg, topology: p100_cluster, num_devices: 2, sync: ring}]",
            "error: model: there is no model called 'vgg'",
        ),
        ("validation=[{models: nmt}]", "error: validation.models: there is no such key; choose one of model, "),
    ],
)
def test_useless_options_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], override: str, message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        call(monkeypatch, tmp_path, override)

    assert stop.value.code == 2
    assert capfd.readouterr().err.strip().splitlines()[-1].startswith(message)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("lessons=FOLDER", "error: lessons: are for pretraining=imitation; reinforcement needs no solved problems"),
        ("pretraining.num_envs=0", "error: pretraining.num_envs must be positive, not 0"),
        ("pretraining.warm_up=2", "error: pretraining.warm_up must be between 0 and 1, not 2"),
        ("pretraining.imitation.noise=0.1", "error: unknown key 'pretraining.imitation'; choose one of pretraining."),
        (
            "+pretraining.algorithm.n_steps=8",
            "error: pretraining.algorithm.n_steps is not for the algorithm alone: pretraining gives it",
        ),
    ],
)
def test_useless_options_of_reinforcement_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], override: str, message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        call(monkeypatch, tmp_path, *BY_TRIAL, override)

    assert stop.value.code == 2
    assert capfd.readouterr().err.strip().splitlines()[-1].startswith(message)
