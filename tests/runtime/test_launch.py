"""Ranks as processes: they run any strategy, and end together."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from bad_data import DeadlyData, MissingData
from same_training import assert_same_training

from runtime.errors import RankFailedError, TooFewGpusError, TooFewRanksError
from runtime.launch import Ranks, run_strategy
from runtime.options import RankOptions, RunOptions
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

ROOT = Path(__file__).resolve().parents[2]
SMALL_LENET = lenet(num_devices=2, batch_per_device=2, hidden=20)
SMALL_NMT = nmt(num_devices=2, batch_per_device=2, steps=4, steps_per_op=2, hidden=8, vocabulary=12)


def problem_of(graph: OperatorGraph = SMALL_LENET, num_devices: int = 2) -> Problem:
    topology = load_topology("cpu_host", num_devices=num_devices)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant="free"))


@pytest.fixture(scope="module")
def two_ranks() -> Iterator[Ranks]:
    with Ranks(num_ranks=2, options=RankOptions(is_pinned=True)) as ranks:
        yield ranks


def is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("graph", [SMALL_LENET, SMALL_NMT], ids=lambda graph: graph.name)
@pytest.mark.parametrize("seed", range(3))
def test_processes_train_like_one(two_ranks: Ranks, graph: OperatorGraph, seed: int) -> None:
    problem = problem_of(graph)
    options = RunOptions(num_iterations=2, is_collecting=True, is_double=True, seed=seed)

    result = two_ranks.run(problem, problem.space.sample_strategy(np.random.default_rng(seed)), options=options)

    assert_same_training(result, options)


def test_single_precision_differs_by_rounding_only(two_ranks: Ranks) -> None:
    problem = problem_of()
    options = RunOptions(num_iterations=3, is_collecting=True)

    result = two_ranks.run(problem, problem.space.sample_strategy(np.random.default_rng(3)), options=options)

    assert_same_training(result, options, tolerance=1e-4)


def test_every_iteration_is_measured(two_ranks: Ranks) -> None:
    problem = problem_of()

    result = two_ranks.run(problem, problem.data_parallel, options=RunOptions(num_iterations=3))

    assert len(result.wall_ms) == len(result.losses) == 3
    assert min(result.wall_ms) > 0
    assert all(rank.peak_memory_bytes >= 0 for rank in result.ranks)


def test_iterations_are_reported_as_they_end(two_ranks: Ranks) -> None:
    problem, reported = problem_of(), []

    result = two_ranks.run(
        problem,
        problem.data_parallel,
        options=RunOptions(num_iterations=3),
        report=lambda *iteration: reported.append(iteration),
    )

    assert reported == list(zip(range(3), result.losses, result.wall_ms, strict=True))


def test_a_strategy_for_more_ranks_is_refused(two_ranks: Ranks) -> None:
    problem = problem_of(num_devices=4)

    with pytest.raises(TooFewRanksError) as error:
        two_ranks.run(problem, problem.data_parallel)

    assert str(error.value) == "the strategy uses device 3 and needs 4 ranks, but there are 2"


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="there are enough GPUs")
def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(TooFewGpusError) as error:
        Ranks(num_ranks=2, options=RankOptions(backend="nccl"))

    gpus = torch.cuda.device_count()
    assert str(error.value) == f"backend nccl needs a GPU for each of 2 ranks, but there are {gpus}"


def test_a_killed_rank_ends_the_job_and_is_named() -> None:
    problem = problem_of()
    ranks, start = Ranks(num_ranks=2), time.monotonic()

    with pytest.raises(RankFailedError) as error, ranks:
        ranks.run(problem, problem.data_parallel, data=DeadlyData())

    assert str(error.value) == "rank 1 was killed by SIGKILL"
    assert time.monotonic() - start < 30
    assert not any(map(is_running, ranks.process_ids))


def test_a_rank_that_fails_ends_the_job_and_is_named() -> None:
    problem = problem_of()
    ranks = Ranks(num_ranks=2)

    with pytest.raises(RankFailedError) as error, ranks:
        ranks.run(problem, problem.data_parallel, data=MissingData())

    assert str(error.value) == "rank 1 failed: LookupError: no data"
    assert not any(map(is_running, ranks.process_ids))


def test_an_interrupt_leaves_no_process() -> None:
    ranks = Ranks(num_ranks=1)

    with pytest.raises(KeyboardInterrupt), ranks:
        raise KeyboardInterrupt

    assert not any(map(is_running, ranks.process_ids))


def test_one_call_runs_a_strategy() -> None:
    problem = problem_of(num_devices=1)

    result = run_strategy(problem, problem.data_parallel)

    assert len(result.losses) == 1


def test_torchrun_starts_ranks_too(tmp_path: Path) -> None:
    script = ROOT / "tests" / "support" / "run_under_torchrun.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script, tmp_path]

    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=120)

    first, second = (json.loads((tmp_path / f"losses{rank}.json").read_text()) for rank in (0, 1))
    assert len(first) == 2
    assert first == second
