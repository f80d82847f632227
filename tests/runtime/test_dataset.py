"""A dataset in batches: every part of every rank reads its slice of one batch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from thread_ranks import run_in_threads

from runtime.data_needs import data_needs
from runtime.dataset import Dataset
from runtime.errors import DatasetMismatchError
from runtime.options import RunOptions
from runtime.single_process import predict, run_single_process
from sim.models.lenet import lenet
from sim.models.rnntc import rnntc
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig
from sim.topology import load_topology

BATCH, SIZE = 4, 16
OPTIONS = RunOptions(num_iterations=5, is_collecting=True, is_double=True, learning_rate=0.05)
LENET = lenet(num_devices=1, batch_per_device=BATCH, image_size=SIZE, hidden=8)
CONV = LENET.operators[0]
(SOURCE,) = data_needs(CONV, is_terminal=False)
LABELS = data_needs(LENET.operators[-1], is_terminal=True)[-1]


def digits(count: int = 10, *, seed: int = 0, channels: int = 1, classes: int = 10) -> Dataset:
    """Images whose first pixel is their number."""
    images = np.random.default_rng(0).random((count, channels, SIZE, SIZE), dtype=np.float32)
    images[:, 0, 0, 0] = np.arange(count)
    return Dataset(images, np.arange(count) % classes, seed=seed)


def numbers(dataset: Dataset, iteration: int) -> list[int]:
    """Which images make up a batch."""
    whole = tuple((0, size) for size in SOURCE.sizes)
    return [int(n) for n in dataset.box(CONV, SOURCE, whole, iteration)[:, 0, 0, 0]]


def test_an_epoch_takes_no_sample_twice() -> None:
    batches = [numbers(digits(), iteration) for iteration in range(2)]

    assert len({number for batch in batches for number in batch}) == 2 * BATCH


def test_epochs_have_orders_of_their_own() -> None:
    dataset = digits()

    assert numbers(dataset, 0) != numbers(dataset, 2)
    assert numbers(dataset, 0) == numbers(digits(), 0)
    assert numbers(dataset, 0) != numbers(digits(seed=1), 0)


@pytest.mark.parametrize("degrees", [(4, 1, 1, 1), (2, 1, 2, 1), (1, 4, 1, 1), (1, 1, 2, 2)], ids=str)
def test_parts_read_slices_of_one_batch(degrees: tuple[int, ...]) -> None:
    config, iteration = ParallelConfig(degrees, (0, 1, 2, 3)), 3
    whole = digits().box(CONV, SOURCE, tuple((0, size) for size in SOURCE.sizes), iteration)

    for part in range(config.num_tasks):
        box = SOURCE.box(config.box(CONV, part))
        found = digits().box(CONV, SOURCE, box, iteration)  # another copy, as on another rank

        assert torch.equal(found, whole[tuple(slice(low, high) for low, high in box)])


def test_labels_are_those_of_the_images() -> None:
    dataset = digits(30)

    labels = dataset.box(LENET.operators[-1], LABELS, ((0, BATCH),), 4)

    assert labels.tolist() == [number % 10 for number in numbers(dataset, 4)]


def test_a_strategy_trains_on_a_dataset_like_one_process() -> None:
    topology = load_topology("cpu_host", num_devices=2)
    problem = Problem(LENET, topology, space=SoapSpace(LENET, topology, variant="free"))
    strategy = problem.space.sample_strategy(np.random.default_rng(1))

    result = run_in_threads(problem, strategy, options=OPTIONS, data=digits())
    expected = run_single_process(LENET, data=digits(), options=OPTIONS)

    np.testing.assert_allclose(result.losses, expected.losses, rtol=1e-10)
    assert list(result.weights()) == list(expected.weights)
    for name, tensors in result.weights().items():
        for found, tensor in zip(tensors, expected.weights[name], strict=True):
            np.testing.assert_allclose(found, tensor.numpy(), atol=1e-10)


def test_predictions_are_probabilities_of_the_first_batch() -> None:
    trained = run_single_process(LENET, data=digits(), options=OPTIONS)
    weights = {name: [tensor.numpy() for tensor in group] for name, group in trained.weights.items()}

    (probabilities,) = predict(LENET, weights, data=digits(), options=OPTIONS)
    first = run_single_process(LENET, data=digits(), options=OPTIONS).losses[0]

    assert probabilities.shape == (BATCH, 10)
    np.testing.assert_allclose(probabilities.sum(-1), 1.0)
    labels = digits().box(LENET.operators[-1], LABELS, ((0, BATCH),), 0).numpy()
    assert -np.log(probabilities[range(BATCH), labels]).mean() < first


MISMATCHES: dict[str, tuple[OperatorGraph, Callable[[], Dataset], str]] = {
    "channels": (
        LENET,
        lambda: digits(channels=3),
        "operator 'conv1' needs source of shape (1, 16, 16), the dataset has (3, 16, 16)",
    ),
    "classes": (
        lenet(num_devices=1, batch_per_device=BATCH, image_size=SIZE, classes=5),
        digits,
        "operator 'softmax' needs labels below 5, the dataset has 9",
    ),
    "samples": (LENET, lambda: digits(3), "operator 'conv1' needs batches of 4 samples, the dataset has 3"),
    "words": (
        rnntc(num_devices=1, batch_per_device=2, steps=2, steps_per_op=2, hidden=4, vocabulary=8),
        digits,
        "operator 'embed_0' needs source of shape (2,), the dataset has (1, 16, 16)",
    ),
}


@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_a_model_that_needs_other_data_is_refused(mismatch: str) -> None:
    graph, make, message = MISMATCHES[mismatch]

    with pytest.raises(DatasetMismatchError) as error:
        make().check(graph)

    assert str(error.value) == message
