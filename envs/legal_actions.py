"""LegalActions: the action space whose ``sample()`` draws legal actions."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class LegalActions(spaces.Discrete):
    """A Discrete space that knows which of its actions are legal in the environment's current state.

    ``sample()`` without a mask draws one of these, so that code which knows no masks (Gymnasium's and
    Stable-Baselines3's checkers, a random agent) plays legal episodes. Otherwise it is a Discrete.

    Args:
        num_actions: actions, legal or not.
    """

    def __init__(self, num_actions: int) -> None:
        super().__init__(num_actions)
        self.legal: NDArray[np.int8] = np.ones(num_actions, dtype=np.int8)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """A random action; see ``gymnasium.spaces.Discrete.sample``."""
        if mask is None and probability is None:
            mask = self.legal
        return super().sample(mask=mask, probability=probability)
