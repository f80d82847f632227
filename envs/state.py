"""State: a strategy under construction, and what is known of its configs."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from envs.config_table import ConfigRow, Floats
from envs.reward import Price
from sim.simulation import Simulation


@dataclass(slots=True)
class State:
    """Where an episode stands. Rows of the arrays are operators; the last one, that of NONE, stays zero.

    Attributes:
        simulation: of the current strategy.
        step: decisions made.
        price: of the current strategy.
        choices: (N + 1,) index of each operator's config; -1 where it is not in the space.
        features: (N + 1, F) features of each operator's config, see ``ConfigTable``.
        busy: (N + 1, D) its time on each device.
        memory: (N + 1, D) its share of each device's memory.
    """

    simulation: Simulation
    step: int
    price: Price
    choices: NDArray[np.int64]
    features: Floats
    busy: Floats
    memory: Floats

    @staticmethod
    def of(simulation: Simulation, choices: list[int], rows: list[ConfigRow]) -> "State":
        """The state before the first decision."""

        def stacked(arrays: list[Floats]) -> Floats:
            return np.stack([*arrays, np.zeros_like(arrays[0])])

        return State(
            simulation,
            0,
            Price(simulation.cost_ns, simulation.overflow_bytes),
            np.array([*choices, -1]),
            stacked([row.features for row in rows]),
            stacked([row.busy for row in rows]),
            stacked([row.memory for row in rows]),
        )

    def clone(self) -> "State":
        """An independent copy; nothing is priced for it."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        copies = {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}
        return State(**{**values, **copies, "simulation": self.simulation.fork()})
