"""All models in small sizes train like one process, under strategies that split everything."""

from collections.abc import Callable

import numpy as np
import pytest
from same_training import assert_same_training
from thread_ranks import run_in_threads

from runtime.options import RunOptions
from sim.models import resnet101 as resnet101_module
from sim.models import resnet101_linear as resnet101_linear_module
from sim.models.alexnet import alexnet
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.models.resnet101 import resnet101
from sim.models.resnet101_linear import resnet101_linear
from sim.models.rnnlm import rnnlm
from sim.models.rnntc import rnntc
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.sync import Sync
from sim.topology import load_topology

RECURRENT = {"num_devices": 1, "batch_per_device": 4, "steps": 4, "steps_per_op": 2, "hidden": 8, "vocabulary": 12}
IMAGES = {"num_devices": 1, "batch_per_device": 4, "classes": 8}

MODELS: dict[str, tuple[int, Callable[[], OperatorGraph]]] = {
    "lenet": (4, lambda: lenet(num_devices=1, batch_per_device=4, hidden=20, classes=8)),
    "alexnet": (2, lambda: alexnet(**IMAGES, image_size=67)),
    "inception_v3": (2, lambda: inception_v3(**IMAGES, image_size=75)),
    "resnet101": (3, lambda: resnet101(**IMAGES, image_size=48)),
    "resnet101_linear": (4, lambda: resnet101_linear(**IMAGES, image_size=32)),
    "rnntc": (4, lambda: rnntc(**RECURRENT)),
    "rnnlm": (3, lambda: rnnlm(**RECURRENT, bias=True)),
    "nmt": (4, lambda: nmt(**RECURRENT)),
    "nmt with attention": (2, lambda: nmt(**RECURRENT, bias=True, attention="luong")),
    "nmt of 2018": (4, lambda: nmt(**RECURRENT, state_handoff="code2018")),
}
"""Ranks, and the model."""


@pytest.fixture(autouse=True)
def fewer_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each stage of ResNet one block, but of the third two: the sizes of all 101 layers are among theirs."""
    stages = tuple((min(number, 2 if channels == 256 else 1), channels) for number, channels in resnet101_module.STAGES)
    monkeypatch.setattr(resnet101_module, "STAGES", stages)
    monkeypatch.setattr(resnet101_linear_module, "STAGES", stages)


def problem_of(graph: OperatorGraph, num_ranks: int, sync: Sync | None = None) -> Problem:
    topology = load_topology("cpu_host", num_devices=num_ranks)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant="free"), sync=sync)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_under_a_random_strategy_trains_like_one_process(name: str) -> None:
    num_ranks, build = MODELS[name]
    problem = problem_of(build(), num_ranks)
    strategy = problem.space.sample_strategy(np.random.default_rng(0))
    options = RunOptions(num_iterations=2, is_collecting=True, is_double=True, learning_rate=0.001)

    result = run_in_threads(problem, strategy, options=options)

    assert_same_training(result, options, tolerance=1e-6)
