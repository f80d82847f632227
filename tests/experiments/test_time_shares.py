"""What devices spend an iteration on."""

import pytest

from experiments.time_shares import TimeShares, measured_shares, simulated_shares
from runtime.program import build_program
from runtime.result import Event, RankIteration, RankResult, RunResult
from runtime.steps import ComputeStep, TransferStep
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.strategies import model_parallel, single_device
from sim.topology import load_topology

MS = 1_000_000


@pytest.fixture
def problem() -> Problem:
    return Problem(lenet(num_devices=2, batch_per_device=2), load_topology("cpu_host", num_devices=2))


def test_one_device_computes_while_the_other_waits(problem: Problem) -> None:
    program, task_graph = build_program(problem, single_device(problem))

    shares = simulated_shares(RunResult(program, task_graph, ()))

    half = task_graph.makespan / 2 / MS
    assert shares == TimeShares(pytest.approx(half), 0, 0, pytest.approx(half))


def test_simulated_shares_add_up() -> None:
    slow = {"bandwidth_gb_per_s": 0.1, "latency_us": 80.0}
    problem = Problem(lenet(num_devices=2, batch_per_device=2), load_topology("cpu_host", num_devices=2, bus=slow))
    program, task_graph = build_program(problem, problem.data_parallel)

    shares = simulated_shares(RunResult(program, task_graph, ()))

    total = shares.compute_ms + shares.transfer_ms + shares.synchronisation_ms + shares.waiting_ms
    assert total == pytest.approx(task_graph.makespan / MS)
    assert shares.synchronisation_ms > 0


def test_measured_times_are_told_apart(problem: Problem) -> None:
    program, task_graph = build_program(problem, model_parallel(problem))
    transfer = next(step for step in program.steps if isinstance(step, TransferStep))
    compute = next(step for step in program.steps if isinstance(step, ComputeStep) and step.ranks == transfer.ranks[:1])
    receiver = next(
        step for step in program.steps if isinstance(step, ComputeStep) and step.ranks == transfer.ranks[1:]
    )
    # The sender computes 4 ms and sends from 4 to 5; the receiver has it at 7 and computes until 10.
    sent = (Event(compute.number, "compute", 0, 4 * MS), Event(transfer.number, "send", 4 * MS, 5 * MS))
    received = (
        Event(transfer.number, "wait", 0, 7 * MS),
        Event(receiver.number, "compute", 7 * MS, 9 * MS),
        Event(receiver.number, "exchange", 8 * MS, 9 * MS),
    )
    of_rank = dict(zip(transfer.ranks, ((5 * MS, sent), (10 * MS, received)), strict=True))
    ranks = tuple(
        RankResult(rank, (RankIteration(0.0, 0, *of_rank[rank]),), {}, {}, {}, 0) for rank in range(program.num_ranks)
    )

    shares = measured_shares(RunResult(program, task_graph, ranks), 0)

    # Sender: 4 compute, 3 transfer, 3 waiting; receiver: 1 compute, 3 + 1 transfer, 5 waiting.
    assert shares == TimeShares(2.5, 3.5, 0.0, 4.0)
