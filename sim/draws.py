"""Draws: random strategies of a problem's space, drawn and priced in compiled code."""

import numpy as np

from sim.chain import Improvement, Steps
from sim.kernels import draws as kernel
from sim.kernels.layout import (
    NEED_RANDOM,
    W_BEST_COST,
    W_BEST_OVERFLOW,
    W_DRAWN,
    W_IMPROVEMENTS,
    W_SIMULATIONS,
    W_TASKS,
    WALK_ENTRIES,
)
from sim.simulation import Simulation
from sim.strategy import ParallelConfig

NUM_STRATEGIES = 16
"""For so many strategies at least, random numbers are drawn at once."""


class Draws:
    """Draws every operator's config independently, as ``SoapSpace.sample`` does, and prices by full simulation.

    Args:
        simulation: its price is the first to beat; it belongs to the draws from now on.
        rng: of the draws.
    """

    def __init__(self, simulation: Simulation, rng: np.random.Generator) -> None:
        self.simulation, self._rng = simulation, rng
        self._choices = simulation.problem.choices
        n, num_devices = len(simulation.problem.graph), simulation.problem.topology.num_devices
        self._uniforms = np.zeros(NUM_STRATEGIES * n * (1 + num_devices))
        self._strategy = (np.zeros(n, np.int64), np.zeros(n + 1, np.int64), np.zeros(n * num_devices, np.int32))
        self._walked = np.zeros(WALK_ENTRIES, np.int64)
        self._walked[W_DRAWN] = len(self._uniforms)
        self._walked[[W_BEST_COST, W_BEST_OVERFLOW]] = simulation.cost_ns, simulation.overflow_bytes
        self._best = (np.zeros(n, np.int64), np.zeros((n, num_devices), np.int32))
        self._best_configs = list(simulation.configs)

    def walk(self, count: int) -> Steps:
        """Draw and price ``count`` strategies."""
        walked = self._walked
        walked[[W_SIMULATIONS, W_TASKS, W_IMPROVEMENTS]] = 0
        improvements = np.zeros((count, 3), np.int64)
        arguments = (self._choices, self._uniforms, count, *self._strategy, walked, improvements, *self._best)
        while self.simulation.run_kernel(kernel.draw, *arguments) == NEED_RANDOM:
            self._rng.random(out=self._uniforms)
            walked[W_DRAWN] = 0
        found = tuple(Improvement(*row) for row in improvements[: walked[W_IMPROVEMENTS]].tolist())
        if found:
            rows, (best_rows, best_devices) = self.simulation.problem.rows, self._best
            self._best_configs = [rows.config(i, row, best_devices[i]) for i, row in enumerate(best_rows.tolist())]
        return Steps(int(walked[W_SIMULATIONS]), 0, int(walked[W_TASKS]), found)

    @property
    def best_configs(self) -> list[ParallelConfig]:
        """Configs of the best strategy so far, the simulation's first one included."""
        return list(self._best_configs)
