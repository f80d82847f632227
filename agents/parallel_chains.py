"""Parallel chains: several searches at the same time, which share one budget."""

from collections.abc import Callable
from functools import partial

import numpy as np

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import Ledger
from agents.threads import run_on_threads
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

    is_anytime = False  # chains divide the budget

    def __init__(self, *, search: Callable[..., Agent], num_chains: int, num_threads: int, seed: int) -> None:
        super().__init__(seed=seed)
        for name, count in (("num_chains", num_chains), ("num_threads", num_threads)):
            if count < 1:
                raise AgentError(f"agent.{name} must be at least 1, not {count}")
        self.search_of_seed, self.num_chains, self.num_threads = search, num_chains, num_threads

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """All searches, and then what they found.

        Raises:
            AgentError: searches of this kind cannot run at the same time.
        """
        parts = ledger.split(self.num_chains, rounds=-(-self.num_chains // self.num_threads))
        seeds = np.random.SeedSequence(self.seed).generate_state(len(parts)).tolist()
        agents = [self.search_of_seed(seed=seed) for seed in seeds]
        if self.num_threads > 1 and agents[0].draws_globally:
            raise AgentError(
                f"{type(agents[0]).__name__} draws from the random numbers of the whole process, so searches of it at "
                "the same time would not repeat themselves; choose agent.num_threads=1"
            )
        searches = [partial(agent.run, problem) for agent in agents]
        run_on_threads(searches, parts, ledger, num_threads=self.num_threads)
