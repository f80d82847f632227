"""A user's mistake is one sentence on stderr and exit code 2."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import run
from experiments.application import sentence_for
from experiments.run_folder import RunFolder, draft
from sim.models.lenet import lenet
from sim.strategies import data_parallel
from sim.topology import load_topology

ROOT = Path(__file__).resolve().parents[2]


def options(folder: str) -> str:
    return ", ".join(sorted(path.stem for path in (ROOT / folder).glob("*.yaml")))


MODELS, AGENTS = options("experiments/conf/model"), options("experiments/conf/agent")
TOPOLOGIES = options("sim/conf/topology")

MISTAKES = {
    "agent=genetic": f"unknown agent 'genetic'; choose one of {AGENTS}",
    "model=vgg": f"unknown model 'vgg'; choose one of {MODELS}",
    "topology=tpu": f"unknown topology 'tpu'; choose one of {TOPOLOGIES}",
    "topology=missing.yaml": "topology {cwd}/missing.yaml: the file cannot be read (No such file or directory)",
    "agnet=mcmc": "unknown key 'agnet'; did you mean 'agent'?",
    "budget.simulation=3": "unknown key 'budget.simulation'; did you mean 'budget.simulations'?",
    "sync.overlap=perhaps": "sync.overlap: 'perhaps' is not true or false",
    "model.batch_per_device=many": "model.batch_per_device: 'many' is not a whole number",
    "space.dims=XY": "space.dims must be some of the letters S, O, A and P, not 'XY'",
    "num_devices=17": "topology p100_cluster: num_devices=17 must be from 1 to 16; "
    "topology.num_nodes=5 makes room for it",
    "num_devices=0": "topology p100_cluster: num_devices=0 must be from 1 to 16",
    "seed=-1": "seed: -1 is not a whole number from 0 on",
    "seed=lucky": "seed: 'lucky' is not a whole number from 0 on",
    "topology.nic.bandwidth_gb_per_s=-3": "topology p100_cluster: nic.bandwidth_gb_per_s=-3 must be a positive number",
    "budget.simulations=0": "budget.simulations=0: it must be a whole number, at least 1",
    "budget.simulations=-5": "budget.simulations=-5: it must be a whole number, at least 1",
    "budget.seconds=-0.5": "budget.seconds=-0.5: it must be positive",
    "budget.simulations=null": "budget.simulations=None: give simulations, seconds or both",
    "budget.seconds=inf": "budget.seconds: inf is not a finite number",
    "tracker=null": "null is not a choice of a group (GROUP=NAME); --help lists the choices",
    "seed=0,1": "seed=0,1: to run each of them, add -m; a list is seed=[0,1], a text seed=\"'0,1'\"",
    "agent": "cannot read 'agent'; write overrides as key=value, special characters in quotes",
    "hydra.run.dir=/dev/null/runs": "cannot use '/dev/null/runs': Not a directory",
}


@pytest.mark.parametrize("override", MISTAKES)
def test_mistake_is_one_sentence(override: str, search: Any) -> None:
    outcome = search(override)

    assert (outcome.code, outcome.stderr) == (2, f"error: {MISTAKES[override].format(cwd=Path.cwd())}\n")


def test_topology_file_with_negative_bandwidth_is_refused(search: Any, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    good = Path("sim/conf/topology/cpu_host.yaml").read_text()
    path.write_text(good.replace("bandwidth_gb_per_s: ", "bandwidth_gb_per_s: -"))

    outcome = search(f"topology={path}")

    assert (outcome.code, outcome.stderr) == (
        2,
        f"error: topology {path}: bus.bandwidth_gb_per_s=-4.0 must be a positive number\n",
    )


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (5, "degree 5 does not divide dimension '{dim}' of size {size}"),
        (4, "device 99 does not exist; there are 4"),
    ],
    ids=["degree", "device"],
)
def test_illegal_strategy_file_is_refused(number: int, reason: str, price: Any, tmp_path: Path) -> None:
    topology = load_topology("p100_cluster", num_devices=4)
    content = data_parallel(lenet(num_devices=4), topology).to_dict()
    name, config = next(iter(content["configs"].items()))
    dim = next(iter(config["degrees"]))
    config["degrees"][dim] = number
    config["devices"] = [99] * number
    path = tmp_path / "illegal.json"
    path.write_text(json.dumps(content))

    outcome = price(f"strategy={path}")

    assert outcome.code == 2
    assert f"operator '{name}': {reason.format(dim=dim, size=256)}" in outcome.stderr


@pytest.mark.parametrize("override", ["num_devices=2", "model.batch_per_device=8"])
def test_strategy_of_another_problem_is_refused(override: str, search: Any, price: Any) -> None:
    strategy = search("agent=random", "budget.simulations=5").folder / "strategy.json"

    outcome = price(f"strategy={strategy}", override)

    assert outcome.code == 2
    assert outcome.stderr.startswith("error: the strategy was made for ")


def test_unknown_strategy_is_refused(price: Any) -> None:
    outcome = price("strategy=best")

    assert outcome.code == 2
    assert outcome.stderr.startswith("error: unknown strategy 'best'; choose one of ")


def test_full_disk_is_one_sentence(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: RunFolder, name: str, content: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RunFolder, "write_json", refuse)

    outcome = search("agent=random", "budget.simulations=5")

    assert (outcome.code, outcome.stderr) == (2, "error: cannot use the run folder: No space left on device\n")


def test_full_disk_names_the_file_that_had_no_room(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as refusal, draft(tmp_path / "picture.html"):
        raise OSError(28, "No space left on device")  # as a write says it, without a name

    assert sentence_for(refusal.value) == f"cannot use '{tmp_path}/picture.html': No space left on device"


def test_our_own_bug_keeps_its_traceback(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cfg: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(run, "make_problem", fail)

    with pytest.raises(KeyError, match="a bug"):
        search()


def test_value_error_of_another_library_is_not_a_users_fault() -> None:
    assert sentence_for(ValueError("array shapes differ")) is None
