"""States: strategies under construction, one for each episode."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from envs.reward import Price
from sim.batch import SimulationBatch
from sim.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Start:
    """Where episodes begin.

    Attributes:
        simulation: of the strategy.
        choices: (N,) number of each operator's config, see ``ConfigTable``.
    """

    simulation: Simulation
    choices: NDArray[np.int64]


@dataclass(slots=True)
class States:
    """Where S episodes stand.

    Attributes:
        simulations: of the current strategies.
        step: (S,) decisions made.
        choices: (S, N) number of each operator's config, see ``ConfigTable``.
    """

    simulations: SimulationBatch
    step: NDArray[np.int64]
    choices: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.step)

    @property
    def price(self) -> Price:
        """(S,) prices of the current strategies."""
        return Price(self.simulations.cost_ns, self.simulations.overflow_bytes)

    def clone(self) -> "States":
        """An independent copy; nothing is priced for it."""
        return States(self.simulations.fork(), self.step.copy(), self.choices.copy())

    def restart(self, chosen: NDArray[np.bool_], start: Start) -> None:
        """Begin the chosen (S,) episodes anew; nothing is priced for it."""
        self.simulations.restart(chosen, start.simulation)
        self.step[chosen] = 0
        self.choices[chosen] = start.choices
