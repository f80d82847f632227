"""Random strategies on ranks whose device is not the CPU: ``python tests/support/fake_gpu.py 100``.

The device computes nothing: its tensors have a type, sizes and a place, and refuse to meet tensors of another place,
as a GPU's do. So this needs no GPU, and finds whatever would be left behind on the CPU. PyTorch takes one such device
for a process, hence a process of its own. Prints the kinds of operators and of messages that there were.
"""

import os
import sys
from collections.abc import Callable
from random import Random
from unittest.mock import patch

import torch
from random_problems import random_generator, random_graph, random_topology
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend as register_device

from runtime.initial_state import RandomData
from runtime.options import RunOptions
from runtime.program import build_program
from runtime.rank import Rank
from runtime.timed_part import TimedPart
from sim.problem import Problem
from sim.space import SoapSpace
from sim.sync import SCHEMES, Sync

register_device("fake_gpu")
GPU = torch.device("fake_gpu", 0)


class Ended:
    """A message that has arrived, or an all-reduce that has ended."""

    def wait(self) -> None:
        """It has."""


class SilentTransport:
    """Takes what a rank tells the others, if it is contiguous and on the device; see ``Transport``."""

    is_ordered = True

    def __init__(self, rank: int, messages: set[str]) -> None:
        self.rank, self.messages = rank, messages

    def send(self, tensor: Tensor, rank: int, tag: int) -> Ended:
        return self._take("send", tensor)

    def receive(self, tensor: Tensor, rank: int, tag: int) -> Ended:
        return self._take("receive", tensor)

    def all_to_all(self, tensor: Tensor, ranks: tuple[int, ...]) -> Tensor:
        self._take("exchange", tensor)
        return torch.empty_like(tensor)

    def start_all_reduce(self, tensor: Tensor, ranks: tuple[int, ...]) -> Ended:
        return self._take("all-reduce", tensor)

    def barrier(self) -> None:
        """Nobody else is here."""

    def _take(self, what: str, tensor: Tensor) -> Ended:
        assert tensor.device == GPU, f"{what} on {tensor.device}"
        assert tensor.is_contiguous(), f"{what} of a strided tensor"
        self.messages.add(what)
        return Ended()


def main(num_problems: int) -> None:
    kinds, messages, generator = set[str](), set[str](), torch.Generator
    with (
        FakeTensorMode(),
        # A device without numbers has no generator and no loss; LSTMs without biases are checked for their device.
        patch("torch.Generator", lambda *device: generator()),
        patch.object(Tensor, "item", lambda share: 0.0),
        patch("torch._meta_registrations.rnn_cell_checkSizes", lambda *sizes: None),
    ):
        for seed in range(num_problems):
            run(Random(seed), kinds, messages)
    for found in (kinds, messages):
        sys.stdout.write(", ".join(sorted(found)) + "\n")


def run(random: Random, kinds: set[str], messages: set[str]) -> None:
    """All ranks of a random strategy of a random model, and each operator's part as the profiler times it."""
    graph = random_graph(random, max_operators=7, has_custom=False)
    topology = random_topology(random, max_devices=4)
    space = SoapSpace(graph, topology, variant="free")
    problem = Problem(graph, topology, space=space, sync=Sync(scheme=random.choice(SCHEMES)))
    strategy = space.sample_strategy(random_generator(random))
    program, _ = build_program(problem, strategy)
    kinds |= {operator.kind for operator in graph.operators}
    for rank in range(program.num_ranks):
        transport = SilentTransport(rank, messages)
        Rank(program, transport=transport, data=RandomData(), options=RunOptions(num_iterations=2), device=GPU).run()
    for position, config in enumerate(strategy):
        part = TimedPart(graph, position, config.degrees, dtype=torch.float32, device=GPU, shared={})
        part.prepare()
        for step in (part.forward, part.backward):
            step(untimed, lambda: None)
        part.update(untimed)


def untimed(operation: Callable[[], object]) -> tuple[float, object]:
    return 0.0, operation()


if __name__ == "__main__":
    main(int(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # now and then, autograd's thread for the device aborts the process at its regular end
