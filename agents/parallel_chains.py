"""Parallel chains: several searches at the same time, which share one budget."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress

import numpy as np

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import REPORT_INTERVAL_S, BudgetExhausted, Ledger
from sim.problem import Problem


class ParallelChains(Agent):
    """Runs several searches that differ in their seeds on threads of their own; the best strategy of all counts.

    Compiled code releases the interpreter's lock, so the searches use as many cores. Each has an equal share of the
    simulations, and all of the seconds. With a budget of simulations the result does not depend on ``num_threads``.

    Args:
        search: makes one of the searches of its seed.
        num_chains: how many there are.
        num_threads: how many of them run at the same time.
        seed: of the searches' seeds.
    """

    def __init__(self, *, search: Callable[..., Agent], num_chains: int, num_threads: int, seed: int) -> None:
        super().__init__(seed=seed)
        for name, count in (("num_chains", num_chains), ("num_threads", num_threads)):
            if count < 1:
                raise AgentError(f"agent.{name} must be at least 1, not {count}")
        self.search_of_seed, self.num_chains, self.num_threads = search, num_chains, num_threads

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """All searches, and then what they found."""
        _make_shared(problem)
        parts = ledger.split(self.num_chains, rounds=-(-self.num_chains // self.num_threads))
        seeds = np.random.SeedSequence(self.seed).generate_state(len(parts)).tolist()
        agents = [self.search_of_seed(seed=seed) for seed in seeds]
        with ThreadPoolExecutor(self.num_threads) as pool:
            running = [pool.submit(_run, *both, problem) for both in zip(agents, parts, strict=True)]
            try:
                _wait(running, ledger, parts)
            finally:
                for part in parts:
                    part.stop()
                wait(running)
                ledger.merge(parts)


def _make_shared(problem: Problem) -> None:
    """What all searches read, and would otherwise make at the same time."""
    for cached in (problem.tables, problem.rows, problem.choices, problem.data_parallel, problem.data_parallel_ns):
        assert cached is not None


def _run(agent: Agent, ledger: Ledger, problem: Problem) -> None:
    ledger.start()
    with suppress(BudgetExhausted):
        agent.run(problem, ledger)


def _wait(running: Sequence[Future[None]], ledger: Ledger, parts: Sequence[Ledger]) -> None:
    """Report the progress until all are done; raises what one of them raised."""
    left = set(running)
    while left:
        done, left = wait(left, timeout=REPORT_INTERVAL_S, return_when=FIRST_EXCEPTION)
        for future in done:
            future.result()
        ledger.report_with(parts)
