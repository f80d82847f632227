"""Dataset: samples and labels in batches, in another order each epoch, alike on every rank."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.data_needs import DataNeed, data_needs
from runtime.errors import DatasetMismatchError
from runtime.initial_state import generator_of
from sim.operator_graph import Box, Operator, OperatorGraph


class Dataset:
    """A ``DataSource`` of labelled samples that are in memory, whole on every rank.

    An iteration's batch is as large as the model's; what is left at an epoch's end is not used in it. The order of an
    epoch follows from the seed and the epoch's number, so that all ranks take their boxes from the same batch.

    Args:
        samples: of any shape behind the first axis, which counts them; float32.
        labels: one for each, whole numbers from 0 on.
        seed: of the orders.
    """

    is_constant = False

    def __init__(self, samples: NDArray[np.float32], labels: NDArray[np.int64], *, seed: int = 0) -> None:
        assert len(samples) == len(labels) > 0
        self.samples, self.labels, self.seed = torch.from_numpy(samples), torch.from_numpy(labels), seed
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.labels)

    def check(self, graph: OperatorGraph) -> None:
        """Refuse a model that needs other data.

        Raises:
            DatasetMismatchError: samples of another shape, more classes than the model has, a batch larger than all.
        """
        read = {edge.src for edge in graph.edges}
        for position, operator in enumerate(graph.operators):
            for need in data_needs(operator, is_terminal=position not in read):
                found = self._tensor(need)
                if need.sizes[1:] != found.shape[1:] or bool(need.num_classes) == found.is_floating_point():
                    what = f"{need.name} of shape {need.sizes[1:]}, the dataset has {tuple(found.shape[1:])}"
                    raise DatasetMismatchError(operator.name, what)
                if need.num_classes and need.num_classes <= int(found.max()):
                    what = f"labels below {need.num_classes}, the dataset has {int(found.max())}"
                    raise DatasetMismatchError(operator.name, what)
                if need.sizes[0] > len(self):
                    what = f"batches of {need.sizes[0]} samples, the dataset has {len(self)}"
                    raise DatasetMismatchError(operator.name, what)

    def box(self, operator: Operator, need: DataNeed, box: Box, iteration: int) -> Tensor:
        """See ``DataSource``."""
        (low, high), *others = box
        rows = self.rows(need.sizes[0], iteration)[low:high]
        return self._tensor(need)[rows][(slice(None), *(slice(*interval) for interval in others))].contiguous()

    def rows(self, batch: int, iteration: int) -> Tensor:
        """Which samples make up the batch of an iteration."""
        epoch, number = divmod(iteration, len(self) // batch)
        if epoch != self._epoch:
            generator = generator_of(self.seed, "epoch", str(epoch))
            self._epoch, self._order = epoch, torch.randperm(len(self), generator=generator)
        return self._order[number * batch : (number + 1) * batch]

    def _tensor(self, need: DataNeed) -> Tensor:
        return self.labels if need.name == "labels" else self.samples
