"""Decisions: what the actions of an episode decide. Each of the two environments has its class."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from envs.errors import EnvError
from envs.padding import Sizes
from sim.kernels.observation import NOTHING

NONE = NOTHING
"""In place of an operator's position: there is no operator."""


class Decisions(Protocol):
    """How an action names an operator and one of its configs.

    The actions are blocks of ``sizes.num_configs``, one block for each open operator.

    Attributes:
        num_steps: of an episode.
        num_actions: legal or not.
    """

    num_steps: int
    num_actions: int

    def open_operators(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """(S, K) the operator of each block of actions after so many steps, (S,); NONE for a block without one."""
        ...


class Visit:
    """Soap-v0: step t decides operator t.

    Args:
        num_operators: of the graph, hence steps.
        sizes: of the padded arrays.
    """

    def __init__(self, num_operators: int, sizes: Sizes) -> None:
        self.num_steps, self.num_actions = num_operators, sizes.num_configs

    def open_operators(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """The one operator of this step."""
        return np.where(steps < self.num_steps, steps, NONE)[:, None]


class Improve:
    """SoapImprove-v0: every step decides any operator.

    Args:
        num_operators: of the graph.
        sizes: of the padded arrays.
        num_steps: of an episode; None takes two for each operator.

    Raises:
        EnvError: ``num_steps`` is not positive.
    """

    def __init__(self, num_operators: int, sizes: Sizes, *, num_steps: int | None) -> None:
        if num_steps is not None and num_steps < 1:
            raise EnvError(f"num_steps must be at least 1, not {num_steps}")
        self.num_steps = 2 * num_operators if num_steps is None else num_steps
        self.num_actions = sizes.num_operators * sizes.num_configs
        blocks = np.arange(sizes.num_operators)
        self._operators = np.where(blocks < num_operators, blocks, NONE)

    def open_operators(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """All operators; none after the last step."""
        return np.where((steps < self.num_steps)[:, None], self._operators, NONE)
