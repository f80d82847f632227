"""Ranks as threads of one process: runs programs without processes, for tests that run many."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from runtime.initial_state import DataSource, RandomData
from runtime.options import RunOptions
from runtime.program import build_program
from runtime.rank import Rank
from runtime.result import RunResult
from sim.problem import Problem
from sim.strategy import Strategy

TIMEOUT_SECONDS = 30


class Board:
    """Where threads leave tensors for each other."""

    def __init__(self, num_ranks: int) -> None:
        self.num_ranks = num_ranks
        self.condition = threading.Condition()
        self.slots: dict[Any, Tensor] = {}
        self.has_failed = False
        self.barrier = threading.Barrier(num_ranks)

    def put(self, key: Any, tensor: Tensor) -> None:
        with self.condition:
            assert key not in self.slots, f"{key} was sent twice"
            self.slots[key] = tensor.clone()
            self.condition.notify_all()

    def take(self, key: Any) -> Tensor:
        with self.condition:
            arrived = self.condition.wait_for(lambda: key in self.slots or self.has_failed, TIMEOUT_SECONDS)
            if not arrived or self.has_failed:
                raise RuntimeError(f"nothing came for {key}")
            return self.slots.pop(key)

    def fail(self) -> None:
        with self.condition:
            self.has_failed = True
            self.condition.notify_all()
        self.barrier.abort()


class Later:
    """A handle that does its work when it is waited for."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work

    def wait(self) -> None:
        self.work()


class ThreadTransport:
    """See ``runtime.transport.Transport``; an ordered one knows no tags, like nccl."""

    def __init__(self, board: Board, rank: int, *, is_ordered: bool = False) -> None:
        self.board, self.rank, self.is_ordered = board, rank, is_ordered
        self.count: dict[tuple[str, tuple[int, ...]], int] = {}
        self.num_messages: Counter[tuple[int, int]] = Counter()

    def message(self, sender: int, receiver: int, tag: int) -> tuple[int, int, int]:
        self.num_messages[sender, receiver] += 1
        return sender, receiver, self.num_messages[sender, receiver] if self.is_ordered else tag

    def send(self, tensor: Tensor, rank: int, tag: int) -> Later:
        assert tensor.is_contiguous()
        self.board.put(self.message(self.rank, rank, tag), tensor)
        return Later(lambda: None)

    def receive(self, tensor: Tensor, rank: int, tag: int) -> Later:
        key = self.message(rank, self.rank, tag)
        return Later(lambda: tensor.copy_(self.board.take(key)))

    def all_to_all(self, tensor: Tensor, ranks: tuple[int, ...]) -> Tensor:
        assert tensor.is_contiguous()
        assert list(ranks) == sorted(set(ranks))
        return torch.stack(self._scatter("exchange", tensor, ranks)())

    def start_all_reduce(self, tensor: Tensor, ranks: tuple[int, ...]) -> Later:
        assert tensor.is_contiguous()
        gather = self._scatter("reduce", [tensor] * len(ranks), ranks)
        return Later(lambda: tensor.copy_(sum(gather())))

    def _scatter(self, what: str, rows: Sequence[Tensor], ranks: tuple[int, ...]) -> Callable[[], list[Tensor]]:
        number = self.count.get((what, ranks), 0)
        self.count[what, ranks] = number + 1
        for rank, row in zip(ranks, rows, strict=True):
            self.board.put((what, ranks, number, self.rank, rank), row)
        return lambda: [self.board.take((what, ranks, number, rank, self.rank)) for rank in ranks]

    def barrier(self) -> None:
        self.board.barrier.wait(TIMEOUT_SECONDS)


def run_in_threads(
    problem: Problem,
    strategy: Strategy,
    *,
    options: RunOptions | None = None,
    data: DataSource | None = None,
    is_ordered: bool = False,
) -> RunResult:
    """Run a strategy with a thread for each device."""
    options = RunOptions() if options is None else options
    program, task_graph = build_program(problem, strategy)
    board = Board(program.num_ranks)
    results: list[Any] = [None] * program.num_ranks

    def run(rank: int) -> None:
        try:
            results[rank] = Rank(
                program,
                transport=ThreadTransport(board, rank, is_ordered=is_ordered),
                data=data or RandomData(seed=options.seed),
                options=options,
                device=torch.device("cpu"),
            ).run()
        except BaseException as error:
            results[rank] = error
            board.fail()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(program.num_ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [result for result in results if isinstance(result, BaseException)]
    for error in sorted(errors, key=lambda e: "nothing came" in str(e) or isinstance(e, threading.BrokenBarrierError)):
        raise error
    assert not board.slots
    return RunResult(program, task_graph, tuple(results))
