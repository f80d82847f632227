"""serve: what runs in each process that ``runtime.launch`` spawns."""

import os
import signal
from contextlib import suppress
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import distributed as dist

from runtime.background_threads import background_threads
from runtime.host_memory import keep_freed_memory
from runtime.initial_state import DataSource
from runtime.options import RankOptions, RunOptions
from runtime.program import Program
from runtime.rank import Rank
from runtime.result import RankResult, Report
from runtime.transport import DistributedTransport


def serve(rank: int, num_ranks: int, folder: Path, options: RankOptions, connection: Connection) -> None:
    """Join the other ranks, then run the programs that come through the connection until it closes.

    Answers are pairs: ``ready`` and None, ``done`` and a RankResult, ``failed`` and a sentence; before ``done``, if
    that is asked for, ``iterated`` and a number, loss and time of each iteration.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends this process
    try:
        settle(rank, options)
        with background_threads():
            dist.init_process_group(
                options.backend,
                init_method=f"file://{folder / 'rendezvous'}",
                rank=rank,
                world_size=num_ranks,
                timeout=timedelta(seconds=options.timeout_seconds),
            )
        connection.send(("ready", None))
        with suppress(EOFError):
            while (job := connection.recv()) is not None:
                *what, is_reporting = job
                report = partial(_tell, connection) if is_reporting else None
                connection.send(("done", run_job(*what, options=options, local_rank=rank, report=report)))
        dist.destroy_process_group()
    except Exception as error:
        with suppress(OSError):
            connection.send(("failed", f"{type(error).__name__}: {error}"))
        # Skips destructors that would wait for ranks which may be gone.
        os._exit(1)


def _tell(connection: Connection, iteration: int, loss: float, wall_ms: float) -> None:
    connection.send(("iterated", (iteration, loss, wall_ms)))


def settle(local_rank: int, options: RankOptions) -> None:
    """Take a CPU of one's own and as many threads, or a GPU; for all that this process does from now on."""
    keep_freed_memory()
    if options.is_pinned:
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[local_rank % len(cpus)]})
    if options.num_threads:
        torch.set_num_threads(options.num_threads)
    if options.backend == "nccl":
        torch.cuda.set_device(local_rank)
        # PyTorch rounds the factors of convolutions to tf32 unless told otherwise; a rank computes in fp32.
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def run_job(
    program: Program,
    data: DataSource,
    run_options: RunOptions,
    *,
    options: RankOptions,
    local_rank: int,
    report: Report | None = None,
) -> RankResult:
    """Run a program on this rank; all ranks of the default process group do."""
    transport = DistributedTransport(rank_sets=program.rank_sets, timeout=timedelta(seconds=options.timeout_seconds))
    try:
        device = options.device(local_rank)
        return Rank(program, transport=transport, data=data, options=run_options, device=device).run(report)
    finally:
        transport.close()
