"""Measures the runtime's own overhead: one rank against the same model written plainly in PyTorch.

``python tests/measure_overhead.py [rounds]``; iterations of both take turns. Medians are compared, and the tenth of the
iterations that other work on the machine disturbed least.
"""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn import functional

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from runtime.initial_state import RandomData  # noqa: E402
from runtime.options import RankOptions, RunOptions  # noqa: E402
from runtime.program import build_program  # noqa: E402
from runtime.rank import Rank  # noqa: E402
from runtime.rank_process import settle  # noqa: E402
from runtime.transport import DistributedTransport  # noqa: E402
from sim.models.alexnet import alexnet  # noqa: E402
from sim.models.lenet import lenet  # noqa: E402
from sim.models.nmt import nmt  # noqa: E402
from sim.operator_graph import OperatorGraph  # noqa: E402
from sim.problem import Problem  # noqa: E402
from sim.topology import load_topology  # noqa: E402

LEARNING_RATE, WARM_UP = 1e-3, 3
SAMPLES, STEPS, HIDDEN, VOCABULARY = 16, 20, 192, 1000


def plain_lenet() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    module = nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(inplace=True),
        nn.Linear(500, 10),
    )
    images, labels = torch.randn(64, 1, 28, 28), torch.randint(10, (64,))
    return module, lambda model: functional.cross_entropy(model(images), labels)


def plain_alexnet() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    module = nn.Sequential(
        nn.Conv2d(3, 64, 11, 4, 2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(64, 192, 5, padding=2),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2),
        nn.Conv2d(192, 384, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(384, 256, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(256, 256, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.Linear(2304, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 4096),
        nn.ReLU(inplace=True),
        nn.Linear(4096, 100),
    )
    images, labels = torch.randn(4, 3, 127, 127), torch.randint(100, (4,))
    return module, lambda model: functional.cross_entropy(model(images), labels)


class PlainNmt(nn.Module):
    """Encoder and decoder of two layers, and one more on top; each layer is one call for all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.source = nn.Embedding(VOCABULARY, HIDDEN)
        self.target = nn.Embedding(VOCABULARY, HIDDEN)
        self.encoder = nn.LSTM(HIDDEN, HIDDEN, 2, bias=False, batch_first=True)
        self.decoder = nn.LSTM(HIDDEN, HIDDEN, 2, bias=False, batch_first=True)
        self.attention = nn.LSTM(HIDDEN, HIDDEN, bias=False, batch_first=True)
        self.softmax = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        _, state = self.encoder(self.source(source))
        decoded, _ = self.decoder(self.target(target), state)
        return self.softmax(self.attention(decoded)[0])


def plain_nmt() -> tuple[nn.Module, Callable[[nn.Module], Tensor]]:
    source, target, labels = (torch.randint(VOCABULARY, (SAMPLES, STEPS)) for _ in range(3))
    return PlainNmt(), lambda model: functional.cross_entropy(model(source, target).flatten(0, 1), labels.flatten())


MODELS = {
    "lenet": (lambda: lenet(num_devices=1, batch_per_device=64), plain_lenet),
    "alexnet": (lambda: alexnet(num_devices=1, batch_per_device=4, image_size=127, classes=100), plain_alexnet),
    "nmt": (
        lambda: nmt(
            num_devices=1,
            batch_per_device=SAMPLES,
            steps=STEPS,
            steps_per_op=STEPS,
            hidden=HIDDEN,
            vocabulary=VOCABULARY,
        ),
        plain_nmt,
    ),
}


def plain_iteration(module: nn.Module, loss_of: Callable[[nn.Module], Tensor], sgd: torch.optim.SGD) -> float:
    """Time of one iteration, ms."""
    start = time.perf_counter_ns()
    sgd.zero_grad(set_to_none=True)
    loss_of(module).backward()
    sgd.step()
    return (time.perf_counter_ns() - start) / 1e6


def our_rank(graph: OperatorGraph) -> Rank:
    """The only rank of data parallelism on one device."""
    problem = Problem(graph, load_topology("cpu_host", num_devices=1))
    program, _ = build_program(problem, problem.data_parallel)
    transport = DistributedTransport(rank_sets=program.rank_sets, timeout=timedelta(seconds=60))
    options = RunOptions(learning_rate=LEARNING_RATE)
    return Rank(program, transport=transport, data=RandomData(), options=options, device=torch.device("cpu"))


def measure(name: str, rounds: int) -> tuple[list[float], list[float]]:
    """Sorted times of iterations, ms: plain PyTorch's and ours."""
    build, make_plain = MODELS[name]
    rank = our_rank(build())
    module, loss_of = make_plain()
    sgd = torch.optim.SGD(module.parameters(), lr=LEARNING_RATE)
    plain, ours = [], []
    for number in track(range(rounds + WARM_UP), description=name, transient=True):
        pair = plain_iteration(module, loss_of, sgd), rank.run().iterations[0].wall_ns / 1e6
        if number >= WARM_UP:
            plain.append(pair[0])
            ours.append(pair[1])
    return sorted(plain), sorted(ours)


def main() -> None:
    """Measure all models and print a table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    settle(0, RankOptions())
    table = Table("model", "quantile", "PyTorch ms", "runtime ms", "overhead")
    with TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=0, world_size=1)
        for name in MODELS:
            both = measure(name, rounds)
            for quantile in (0.5, 0.1):
                plain, ours = (times[int(quantile * len(times))] for times in both)
                table.add_row(name, f"{quantile}", f"{plain:.2f}", f"{ours:.2f}", f"{ours / plain - 1:+.1%}")
        dist.destroy_process_group()
    Console().print(table)


if __name__ == "__main__":
    main()
