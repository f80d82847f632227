"""train.py: every strategy trains like one process, on data that everybody knows."""

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import train
from experiments.digits import load_digits
from experiments.training_curves import Curve, curve_rows, table_rows
from runtime.result import Report

ROOT = Path(__file__).resolve().parents[2]
TINY = ("topology=cpu_host", "num_devices=2", "model.batch_per_device=4", "model.image_size=16", "model.hidden=16")
NUM_ITERATIONS = 3


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny training on two ranks."""
    folder = tmp_path_factory.mktemp("train") / "run"
    options = (*TINY, f"max_iterations={NUM_ITERATIONS}", "budget.simulations=50", f"hydra.run.dir={folder}")
    command = [sys.executable, "-W", "error", str(ROOT / "experiments" / "train.py"), *options]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_all_strategies_have_the_same_curve(trained: Path) -> None:
    curves = rows(trained / "curves.csv")

    assert len(curves) == NUM_ITERATIONS
    for row in curves:
        losses = [float(value) for key, value in row.items() if key.endswith("_loss")]
        assert len(losses) == 4
        np.testing.assert_allclose(losses, losses[0], rtol=1e-12)


def test_all_strategies_have_the_same_accuracy(trained: Path) -> None:
    table = rows(trained / "training.csv")

    assert [row["strategy"] for row in table] == ["one process", "data_parallel", "model_parallel", "searched"]
    assert len({row["test_accuracy"] for row in table}) == 1
    assert max(float(row["largest_difference"]) for row in table) < 1e-12


def test_a_picture_and_the_strategy_are_left(trained: Path) -> None:
    assert (trained / "training.png").read_bytes().startswith(b"\x89PNG")
    assert (trained / "strategy.json").is_file()


def test_an_interrupt_leaves_the_curves_so_far(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, report: Report, **__: object) -> None:
        report(0, 2.5, 10.0)
        report(1, 2.0, 10.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "run_single_process", interrupted)
    monkeypatch.setattr(train, "settle", lambda *_: None)  # it would hold for all tests after this one

    outcome = call(train.main, *TINY, "strategy=expert")

    assert outcome.code == 130
    assert [row["one process_loss"] for row in rows(outcome.folder / "curves.csv")] == ["2.5", "2.0"]
    assert [row["test_accuracy"] for row in rows(outcome.folder / "training.csv")] == [""]


def test_more_ranks_than_cores_are_mentioned(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, report: Report, **__: object) -> None:
        report(0, 2.5, 10.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "run_single_process", interrupted)
    monkeypatch.setattr(train, "settle", lambda *_: None)  # it would hold for all tests after this one
    monkeypatch.setattr(train.os, "sched_getaffinity", lambda _: {0})

    outcome = call(train.main, *TINY, "strategy=expert")

    assert "2 ranks share 1 cores: times mean nothing" in outcome.stdout


MISTAKES = {
    "epochs=0": "epochs: 0 is not a whole number from 1 on",
    "max_iterations=few": "max_iterations: 'few' is not a whole number from 1 on",
    "learning_rate=-1": "learning_rate: -1 is not a positive number",
    "test_share=1.0": "test_share: 1.0 is not a number from 0.01 to 0.99",
    "is_double=perhaps": "is_double: 'perhaps' is not true or false",
    "training=false": "training: False is not true, without which nothing is trained",
    "sync=zero": "sync: ranks run 'zero' as one all-reduce, not as it is simulated; choose one of ring, "
    "parameter_server",
    "model=rnntc": "model: 'rnntc' reads no images, which digits are",
    "model=alexnet model.image_size=67": "operator 'conv1' needs source of shape (3, 67, 67), the dataset has "
    "(1, 67, 67)",
    "model.image_size=8": "operator 'conv2': an image of 2 x 2 is too small for a kernel of 5 x 5",
    "model.classes=9": "operator 'softmax' needs labels below 9, the dataset has 9",
    "model.batch_per_device=1000": "operator 'conv1' needs batches of 2000 samples, the dataset has 1437",
    "strategy=magic": "unknown strategy 'magic'; choose one of data_parallel, ",
    "strategy=missing.json": "strategy file missing.json: No such file or directory",
}


@pytest.mark.parametrize("override", MISTAKES)
def test_mistake_is_one_sentence(override: str, call: Any) -> None:
    tiny = () if override.startswith("model=") else TINY

    outcome = call(train.main, *(tiny or TINY[:2]), *override.split())

    assert outcome.code == 2
    assert outcome.stderr.startswith(f"error: {MISTAKES[override]}")
    assert outcome.stderr.count("\n") == 1


def test_the_split_is_the_same_for_the_same_seed() -> None:
    first, again, other = (load_digits(image_size=16, test_share=0.2, seed=seed)[1] for seed in (0, 0, 1))

    assert np.array_equal(first.images, again.images)
    assert not np.array_equal(first.images, other.images)


def test_images_are_enlarged_and_keep_their_brightness() -> None:
    train_images, test_images = (part.images for part in load_digits(image_size=28, test_share=0.2, seed=0))

    assert (train_images.shape, test_images.shape) == ((1437, 1, 28, 28), (360, 1, 28, 28))
    assert (train_images.min(), train_images.max()) == (0.0, 1.0)


def test_curves_of_different_lengths_share_a_table() -> None:
    curves = [Curve("a", 1, [3.0, 2.0], [10.0, 30.0]), Curve("b", 2, [2.5], [20.0]), Curve("c", 2)]

    header, lines = curve_rows(curves[:2])

    assert header == ["iteration", "a_loss", "a_ms", "b_loss", "b_ms"]
    assert lines == [[1, 3.0, 10.0, 2.5, 20.0], [2, 2.0, 30.0, None, None]]
    assert table_rows(curves) == [["a", 1, 2.0, None, 0.04, 0.0], ["b", 2, 2.5, None, 0.02, 0.5]]
