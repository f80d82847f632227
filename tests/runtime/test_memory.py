"""A rank holds what its tasks need, and no longer than they do."""

import gc

import torch
from thread_ranks import Board, ThreadTransport
from torch import Tensor

from runtime.initial_state import RandomData
from runtime.options import RunOptions
from runtime.program import build_program
from runtime.rank import Rank
from runtime.weight_store import WeightStore
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.strategy import ParallelConfig
from sim.topology import load_topology

CPU = torch.device("cpu")


def held_bytes() -> int:
    """Of all tensors that are alive, each storage once."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if type(thing) is Tensor]
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())


def test_a_rank_holds_the_weights_of_its_parts_and_no_others() -> None:
    problem = Problem(lenet(num_devices=2, batch_per_device=2), load_topology("cpu_host", num_devices=2))
    strategy = problem.data_parallel
    for position, operator in enumerate(problem.graph.operators):
        whole = (1,) * len(operator.dims)
        strategy = strategy.replace(position, ParallelConfig(whole, (int(operator.name == "linear"),)))
    program, _ = build_program(problem, strategy)
    before = held_bytes()

    store = WeightStore(program, 1, seed=0, device=CPU, dtype=torch.float32)

    linear = problem.graph.operators[problem.graph.position("linear")]
    assert held_bytes() - before == 4 * linear.num_weight_elements
    del store


def test_between_iterations_a_rank_holds_its_weights_and_data_only() -> None:
    graph = lenet(num_devices=1, batch_per_device=16)
    problem = Problem(graph, load_topology("cpu_host", num_devices=1))
    program, _ = build_program(problem, problem.data_parallel)
    before = held_bytes()
    transport = ThreadTransport(Board(1), 0)

    rank = Rank(program, transport=transport, data=RandomData(), options=RunOptions(), device=CPU)
    rank.run()

    images, labels, losses = 4 * 16 * 28 * 28, 8 * 16, 4
    assert held_bytes() - before == 4 * graph.num_parameters + images + labels + losses
