"""Chain: a Metropolis chain over the strategies of a problem, in compiled code."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.choices import make_choices
from sim.errors import IllegalConfigError
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
    Proposals,
)
from sim.simulation import Simulation
from sim.space import SoapSpace
from sim.strategy import ParallelConfig, Strategy

NO_PATIENCE = np.iinfo(np.int64).max
NUM_UNIFORMS = 4096
NO_ODDS = np.zeros(0)
UNIFORM = Proposals(np.zeros(1, np.int64), NO_ODDS, NO_ODDS, NO_ODDS, np.zeros(0, np.int64))
OUTSIDE = -1


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
        simulated_tasks: tasks that pricing dequeued, summed over the proposals; the others kept their times or
            were shifted in a stretch.
        improvements: new bests, in order.
    """

    simulations: int
    cutoffs: int
    simulated_tasks: int
    improvements: tuple[Improvement, ...]


class Chain:
    """Proposes, prices, accepts and rejects without coming back to Python (FlexFlow, section 6).

    A proposal draws an operator and a config for it from the space: uniformly where configs have indices, else degrees
    first and devices second, unless ``draw_from`` said otherwise. It is accepted with probability
    min(1, exp((cost - cost*) / temperature)). One that overflows memory more than the current strategy is rejected,
    one that overflows less is accepted.

    Args:
        simulation: where the chain starts; it belongs to the chain from now on.
        rng: draws proposals and acceptances.
        temperature_ns: 1 / beta.
        has_cutoff: let pricing stop when rejection is certain; the chain is the same.
        space: what configs are drawn from; the problem's by default.

    Attributes:
        temperature_ns: may be changed between walks.
    """

    def __init__(
        self,
        simulation: Simulation,
        rng: np.random.Generator,
        *,
        temperature_ns: float,
        has_cutoff: bool = True,
        space: SoapSpace | None = None,
    ) -> None:
        problem = simulation.problem
        self.simulation, self._rng = simulation, rng
        self.temperature_ns, self._has_cutoff = float(temperature_ns), has_cutoff
        self._space = space or problem.space
        is_own = self._space is problem.space
        self._choices = problem.choices if is_own else make_choices(self._space, problem.rows)
        self._proposals, self._has_moved = UNIFORM, False
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

    def draw_from(self, probabilities: Sequence[NDArray[np.float64]], *, hastings: bool) -> None:
        """Draw an operator's config with given probabilities from now on; the space must have indices.

        Args:
            probabilities: for each operator, of all its configs by index, each positive; they add up to 1.
            hastings: accept with probability min(1, exp((cost - cost*) / temperature) q / q*), where q* is the
                probability of the proposed config and q that of the present one, so that the chain visits strategies
                as often as one that draws uniformly. False leaves the factor out: strategies that are proposed more
                often are visited more often. A present config outside the space has the least q of its operator; the
                chain never comes back to it.
        """
        joined = np.concatenate(probabilities)
        log_odds = np.log(joined) if hastings else np.zeros(len(joined))
        first = np.cumsum([0, *map(len, probabilities)])
        cumulative = np.concatenate([np.cumsum(own) for own in probabilities])
        least = np.minimum.reduceat(log_odds, first[:-1])
        self._proposals = Proposals(first, cumulative, log_odds, least, np.full(len(probabilities), OUTSIDE))
        self._has_moved = True

    def walk(self, count: int, patience: int = NO_PATIENCE) -> Steps:
        """Make up to ``count`` proposals; stop when ``patience`` in a row, over all calls, found no new best."""
        walked = self._walked
        walked[[W_SIMULATIONS, W_CUTOFFS, W_TASKS, W_IMPROVEMENTS]] = 0
        improvements = np.zeros((count, 3), np.int64)
        best = (walked, improvements, self._best_rows, self._best_devices)
        if self._has_moved:
            self._find_present()
        options = (float(self.temperature_ns), count, patience, self._has_cutoff)
        drawn_from = (self._choices, self._proposals, self._uniforms)
        while self.simulation.run_kernel(kernel.walk, *drawn_from, *options, *best) == NEED_RANDOM:
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
        self._has_moved = True
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
        self._has_moved = True

    @property
    def best_configs(self) -> list[ParallelConfig]:
        """Configs of the best strategy that the chain accepted, its start included."""
        return list(self._best_configs)

    def _find_present(self) -> None:
        """Look up the indices of the present configs, where the next walk needs them."""
        self._has_moved = False
        for operator in range(len(self._proposals.present)):
            try:
                index = self._space.index(operator, self.simulation.config(operator))
            except IllegalConfigError:
                index = OUTSIDE
            self._proposals.present[operator] = index
