"""accuracy: how many samples a trained model classifies rightly, in one process."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.dataset import Dataset
from runtime.options import RunOptions
from runtime.single_process import predict
from sim.operator_graph import OperatorGraph


def accuracy(
    graph: OperatorGraph,
    weights: Mapping[str, Sequence[NDArray[np.float64]]],
    *,
    dataset: Dataset,
    options: RunOptions,
) -> float:
    """The share of samples whose label is the most probable class.

    Args:
        graph: of the model, its batch as large as the dataset.
        weights: tensors of each weight group, as ``RunResult.weights`` has them.
        dataset: samples and labels.
        options: the numbers' type.
    """
    (probabilities,) = predict(graph, weights, data=dataset, options=options)
    labels = dataset.labels[dataset.rows(len(dataset), 0)].numpy()
    return float((probabilities.argmax(-1) == labels).mean())
