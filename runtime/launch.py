"""Ranks: the processes that run strategies, one for each device; run_strategy: one run, spawned or under torchrun."""

import multiprocessing
import os
import signal
import tempfile
import time
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import torch
from torch import distributed as dist

from runtime.background_threads import background_threads
from runtime.errors import RankFailedError, TooFewGpusError
from runtime.initial_state import DataSource, RandomData
from runtime.options import RankOptions, RunOptions
from runtime.program import build_program
from runtime.rank_process import run_job, serve, settle
from runtime.result import Report, RunResult
from sim.problem import Problem
from sim.strategy import Strategy

GRACE_SECONDS = 1.0
"""For which a failure is looked into: ranks that lost a killed one may report before its death is known."""

POLL_SECONDS = 0.01
"""Between two looks at the ranks meanwhile."""

STOP_SECONDS = 5.0
"""For which ranks may end by themselves before they are killed."""


def run_strategy(
    problem: Problem,
    strategy: Strategy,
    *,
    data: DataSource | None = None,
    options: RunOptions | None = None,
    rank_options: RankOptions | None = None,
) -> RunResult:
    """Run a strategy: under torchrun on its ranks, else on processes of this machine, one for each device.

    Args:
        problem: graph, topology, costs and synchronisation; costs decide on the order.
        strategy: one config for each operator.
        data: random numbers by default.
        options: of the run.
        rank_options: of the ranks.

    Returns:
        What was measured; under torchrun, on every rank.

    Raises:
        TooFewRanksError: the strategy places parts on devices without a rank.
        UnsupportedOperatorError: an operator is of a kind that the runtime cannot compute.
        RankFailedError: a rank died or gave up.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        build_program(problem, strategy)  # refuses before anything is started
        with Ranks(num_ranks=problem.topology.num_devices, options=rank_options) as ranks:
            return ranks.run(problem, strategy, data=data, options=options)
    options, rank_options = options or RunOptions(), rank_options or RankOptions()
    num_ranks, local_rank = int(os.environ["WORLD_SIZE"]), int(os.environ["LOCAL_RANK"])
    program, task_graph = build_program(problem, strategy, num_ranks=num_ranks)
    settle(local_rank, rank_options)
    with background_threads():
        dist.init_process_group(rank_options.backend, timeout=timedelta(seconds=rank_options.timeout_seconds))
    try:
        data = data or RandomData(seed=options.seed)
        result = run_job(program, data, options, options=rank_options, local_rank=local_rank)
        results: list[Any] = [None] * num_ranks
        dist.all_gather_object(results, result)
        return RunResult(program, task_graph, tuple(results))
    finally:
        dist.destroy_process_group()


class Ranks:
    """Processes of this machine that run one strategy after another; a context manager.

    They find each other through a file. If one dies or fails, all are killed and ``RankFailedError`` names it.

    Args:
        num_ranks: processes.
        options: how they are started.

    Raises:
        TooFewGpusError: the backend is nccl, and there are fewer GPUs than ranks.
    """

    def __init__(self, *, num_ranks: int, options: RankOptions | None = None) -> None:
        self.num_ranks, self.options = num_ranks, options if options is not None else RankOptions()
        if self.options.backend == "nccl" and torch.cuda.device_count() < num_ranks:
            raise TooFewGpusError(num_ranks, torch.cuda.device_count())
        self._processes: list[BaseProcess] = []
        self._connections: list[Connection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def process_ids(self) -> list[int]:
        """Of the ranks, in order."""
        return [process.pid or 0 for process in self._processes]

    def __enter__(self) -> "Ranks":
        context = multiprocessing.get_context("spawn")
        self._folder = tempfile.TemporaryDirectory(prefix="ranks-")
        try:
            for rank in range(self.num_ranks):
                ours, theirs = context.Pipe()
                arguments = (rank, self.num_ranks, Path(self._folder.name), self.options, theirs)
                process = context.Process(target=serve, args=arguments, name=f"rank {rank}", daemon=True)
                process.start()
                theirs.close()  # so that the end of the process closes the pipe
                self._processes.append(process)
                self._connections.append(ours)
            self._answers()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._stop()
        self._kill()

    def run(
        self,
        problem: Problem,
        strategy: Strategy,
        *,
        data: DataSource | None = None,
        options: RunOptions | None = None,
        report: Report | None = None,
    ) -> RunResult:
        """Run a strategy; see ``run_strategy``.

        Args:
            problem: graph, topology, costs and synchronisation.
            strategy: one config for each operator.
            data: random numbers by default.
            options: of the run.
            report: called when an iteration has ended on all ranks; an exception in it ends the ranks.
        """
        options = options or RunOptions()
        program, task_graph = build_program(problem, strategy, num_ranks=self.num_ranks)
        data = data or RandomData(seed=options.seed)
        try:
            for connection in self._connections:
                connection.send((program, data, options, report is not None))
        except OSError:
            self._fail({})
        return RunResult(program, task_graph, tuple(self._answers(report)))

    def _answers(self, report: Report | None = None) -> list[Any]:
        """One answer of each rank; iterations that they tell of before are reported."""
        answers: dict[int, Any] = {}
        told: dict[int, dict[int, tuple[float, float]]] = {}
        while len(answers) < self.num_ranks:
            silent = [rank for rank in range(self.num_ranks) if rank not in answers]
            # Also ranks that have answered may die, and leave the others waiting.
            wait([*(self._connections[rank] for rank in silent), *(process.sentinel for process in self._processes)])
            if not all(process.is_alive() for process in self._processes):
                self._fail({})
            for rank in silent:
                if (answer := self._receive(rank)) is None:
                    continue
                if answer[0] == "failed":
                    self._fail({rank: answer[1]})
                if answer[0] != "iterated":
                    answers[rank] = answer[1]
                    continue
                iteration, *numbers = answer[1]
                told.setdefault(iteration, {})[rank] = tuple(numbers)
                if report is not None and len(told[iteration]) == self.num_ranks:
                    losses, times = zip(*(told[iteration][r] for r in range(self.num_ranks)), strict=True)
                    report(iteration, sum(losses), max(times))
                    del told[iteration]
        return [answers[rank] for rank in range(self.num_ranks)]

    def _receive(self, rank: int) -> tuple[str, Any] | None:
        """A rank's answer, if it has given one."""
        try:
            return self._connections[rank].recv() if self._connections[rank].poll() else None
        except (EOFError, OSError):
            return None

    def _fail(self, failed: dict[int, str]) -> NoReturn:
        """End all ranks and name the one to blame: one that was killed, else the first that reported.

        Args:
            failed: what has been reported.

        Raises:
            RankFailedError: always.
        """
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline and not self._killed():
            for rank in range(self.num_ranks):
                answer = self._receive(rank)
                if answer is not None and answer[0] == "failed":
                    failed.setdefault(rank, answer[1])
            time.sleep(POLL_SECONDS)
        killed = self._killed()
        ended = [(rank, process.exitcode) for rank, process in enumerate(self._processes)]
        self._kill()
        reasons = [*killed, *((rank, f"failed: {sentence}") for rank, sentence in failed.items())]
        reasons += [(rank, f"ended with exit code {code}") for rank, code in ended if code is not None]
        raise RankFailedError(*reasons[0])

    def _killed(self) -> list[tuple[int, str]]:
        """Ranks that a signal ended, and its name."""
        codes = [(rank, process.exitcode) for rank, process in enumerate(self._processes)]
        return [(r, f"was killed by {signal.Signals(-code).name}") for r, code in codes if code and code < 0]

    def _stop(self) -> None:
        """Ask all ranks to end, and give them time to."""
        try:
            for connection in self._connections:
                connection.send(None)
        except OSError:
            return
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))

    def _kill(self) -> None:
        for process in self._processes:
            if process.is_alive():
                process.kill()
            process.join()
        for connection in self._connections:
            connection.close()
        if self._folder is not None:
            self._folder.cleanup()
