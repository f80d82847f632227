"""Decisions: what the actions of an episode decide. Each of the two environments has its class."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""In place of an operator's position: there is no operator."""


class Decisions(Protocol):
    """How an action names an operator and one of its configs.

    The actions are K blocks of ``num_configs``, one for each open operator.

    Attributes:
        num_steps: of an episode.
        num_actions: legal or not.
    """

    num_steps: int
    num_actions: int

    def open_operators(self, step: int) -> NDArray[np.int64]:
        """(K,) the operator of each block of actions; NONE for a block without one."""
        ...


class Visit:
    """Soap-v0: step t decides operator t.

    Args:
        num_operators: of the graph, hence steps.
        num_configs: actions.
    """

    def __init__(self, num_operators: int, num_configs: int) -> None:
        self.num_steps, self.num_actions = num_operators, num_configs

    def open_operators(self, step: int) -> NDArray[np.int64]:
        """The one operator of this step."""
        return np.array([step if step < self.num_steps else NONE])


class Improve:
    """SoapImprove-v0: every step may decide any operator.

    Args:
        num_operators: of the graph.
        num_blocks: the same, padded.
        num_configs: of each operator, padded.
        num_steps: of an episode.
    """

    def __init__(self, num_operators: int, num_blocks: int, num_configs: int, num_steps: int) -> None:
        self.num_steps, self.num_actions = num_steps, num_blocks * num_configs
        blocks = np.arange(num_blocks)
        self._operators = np.where(blocks < num_operators, blocks, NONE)

    def open_operators(self, step: int) -> NDArray[np.int64]:
        """All operators; none after the last step."""
        return self._operators if step < self.num_steps else np.full_like(self._operators, NONE)
