"""Chain: a Metropolis chain over the strategies of a problem, in compiled code."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sim.kernels import chain as kernel
from sim.kernels.layout import (
    NEED_RANDOM,
    W_BEST_COST,
    W_BEST_OVERFLOW,
    W_CUTOFFS,
    W_DRAWN,
    W_IDLE,
    W_IMPROVEMENTS,
    W_SIMULATIONS,
    W_TASKS,
    WALK_ENTRIES,
)
from sim.simulation import Simulation
from sim.strategy import ParallelConfig, Strategy

NO_PATIENCE = np.iinfo(np.int64).max
NUM_UNIFORMS = 4096


class Improvement(NamedTuple):
    """A new best of a chain.

    Attributes:
        simulations: proposals of the same call that led to it, itself included.
        cost_ns: its iteration time.
        overflow_bytes: memory that it needs beyond what the devices have.
    """

    simulations: int
    cost_ns: int
    overflow_bytes: int


class Steps(NamedTuple):
    """What one call of ``Chain.walk`` did.

    Attributes:
        simulations: proposals priced, those cut off included.
        cutoffs: how many of them were cut off.
        simulated_tasks: tasks that pricing dequeued, summed over the proposals; the others kept their times.
        improvements: new bests, in order.
    """

    simulations: int
    cutoffs: int
    simulated_tasks: int
    improvements: tuple[Improvement, ...]


class Chain:
    """Proposes, prices, accepts and rejects without coming back to Python (FlexFlow, section 6).

    A proposal draws an operator and a config for it from the problem's space: uniformly where configs have indices,
    else degrees first and devices second. It is accepted with probability min(1, exp((cost - cost*) / temperature)).
    One that overflows memory more than the current strategy is rejected, one that overflows less is accepted.

    Args:
        simulation: where the chain starts; it belongs to the chain from now on.
        rng: draws proposals and acceptances.
        temperature_ns: 1 / beta.
        has_cutoff: let pricing stop when rejection is certain; the chain is the same.

    Attributes:
        temperature_ns: may be changed between walks.
    """

    def __init__(
        self, simulation: Simulation, rng: np.random.Generator, *, temperature_ns: float, has_cutoff: bool = True
    ) -> None:
        problem = simulation.problem
        self.simulation, self._rng = simulation, rng
        self.temperature_ns, self._has_cutoff = float(temperature_ns), has_cutoff
        self._choices = problem.choices
        self._uniforms = np.zeros(max(NUM_UNIFORMS, 2 * problem.topology.num_devices))
        self._walked = np.zeros(WALK_ENTRIES, np.int64)
        self._walked[W_DRAWN] = len(self._uniforms)
        self._walked[[W_BEST_COST, W_BEST_OVERFLOW]] = simulation.cost_ns, simulation.overflow_bytes
        self._best_rows = np.zeros(len(problem.graph), np.int64)
        self._best_devices = np.zeros((len(problem.graph), problem.topology.num_devices), np.int32)
        self._best_configs = [simulation.config(i) for i in range(len(problem.graph))]

    @property
    def idle(self) -> int:
        """Proposals since the last new best."""
        return int(self._walked[W_IDLE])

    def walk(self, count: int, patience: int = NO_PATIENCE) -> Steps:
        """Make up to ``count`` proposals; stop when ``patience`` in a row, over all calls, found no new best."""
        walked = self._walked
        walked[[W_SIMULATIONS, W_CUTOFFS, W_TASKS, W_IMPROVEMENTS]] = 0
        improvements = np.zeros((count, 3), np.int64)
        best = (walked, improvements, self._best_rows, self._best_devices)
        options = (float(self.temperature_ns), count, patience, self._has_cutoff)
        while self.simulation.run_kernel(kernel.walk, self._choices, self._uniforms, *options, *best) == NEED_RANDOM:
            # Numbers instead of the generator: a Ctrl-C while numba takes a generator apart kills the process.
            self._rng.random(out=self._uniforms)
            walked[W_DRAWN] = 0
        found = tuple(Improvement(*row) for row in improvements[: walked[W_IMPROVEMENTS]].tolist())
        if found:
            rows = self.simulation.problem.rows
            self._best_configs = [
                rows.config(operator, row, self._best_devices[operator])
                for operator, row in enumerate(self._best_rows.tolist())
            ]
        return Steps(int(walked[W_SIMULATIONS]), int(walked[W_CUTOFFS]), int(walked[W_TASKS]), found)

    def offer(self, changes: Mapping[int, ParallelConfig]) -> bool:
        """Propose these new configs of several operators, by the same rule; returns whether it is a new best."""
        simulation, walked = self.simulation, self._walked
        overflow = simulation.overflow_bytes
        highest_ns = simulation.cost_ns + math.floor(-math.log(1 - self._rng.random()) * self.temperature_ns)
        has_cutoff = self._has_cutoff and overflow == 0
        proposal = simulation.propose_together(changes, highest_ns if has_cutoff else None)
        walked[W_IDLE] += 1
        price = proposal.overflow_bytes, proposal.cost_ns
        if proposal.is_cutoff or price > (overflow, highest_ns):
            simulation.reject()
            return False
        simulation.accept()
        if price >= (walked[W_BEST_OVERFLOW], walked[W_BEST_COST]):
            return False
        walked[[W_BEST_OVERFLOW, W_BEST_COST]] = price
        walked[W_IDLE] = 0
        self._best_configs = list(simulation.configs)
        return True

    def return_to_best(self) -> None:
        """Go on from the best strategy so far, which is priced once more."""
        problem = self.simulation.problem
        self.simulation.restart(Strategy(problem.graph, problem.topology, self._best_configs))

    @property
    def best_configs(self) -> list[ParallelConfig]:
        """Configs of the best strategy that the chain accepted, its start included."""
        return list(self._best_configs)
