"""StrategyEnv: what the two environments share; a thin shell around ``Mdp``."""

import copy
from collections.abc import Callable
from typing import Any, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envs.errors import EnvError, NoEpisodeError
from envs.legal_actions import LegalActions
from envs.mdp import Mdp
from envs.observation import Arrays, Observation
from envs.state import States
from envs.viewer import render
from sim.problem import Problem
from sim.strategy import Strategy

_Self = TypeVar("_Self", bound="StrategyEnv")


class StrategyEnv(gymnasium.Env[Arrays, np.int64]):
    """One episode at a time. Not registered: see ``SoapEnv`` and ``SoapImproveEnv``.

    Args:
        mdp: the process.
        observation: makes the observation from it.
        render_mode: None or "ansi".
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 1}
    action_space: LegalActions

    def __init__(self, mdp: Mdp, observation: Callable[[Mdp], Observation], render_mode: str | None) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise EnvError(f"render_mode must be None or 'ansi', not {render_mode!r}")
        self.render_mode = render_mode
        self.mdp, self.observation = mdp, observation(mdp)
        self.observation_space = cast("spaces.Space[Arrays]", self.observation.space)
        self.action_space = LegalActions(mdp.decisions.num_actions)
        self._states: States | None = None

    @property
    def states(self) -> States:
        """Where the episode stands, as the only one of a batch."""
        if self._states is None:
            raise NoEpisodeError
        return self._states

    @property
    def problem(self) -> Problem:
        """What is being solved."""
        return self.mdp.problem

    @property
    def strategy(self) -> Strategy:
        """The current strategy."""
        return self.states.simulations.strategy(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Arrays, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of ``np_random``; the environment itself draws nothing.
            options: ``strategy`` to start from, in place of data parallelism.
        """
        super().reset(seed=seed)
        start = self.mdp.start((options or {}).get("strategy"))
        if self._states is None:
            self._states = self.mdp.states(start, 1)
        else:
            self._states.restart(np.ones(1, dtype=bool), start)
        return self._observe(), self._info()

    def step(self, action: np.int64) -> tuple[Arrays, float, bool, bool, dict[str, Any]]:
        """Make one decision.

        Raises:
            IllegalActionError: the action is masked.
            NoEpisodeError: before ``reset`` or after the last decision.
        """
        rewards = self.mdp.step(self.states, np.array([action]))
        return self._observe(), float(rewards[0]), bool(self.mdp.is_over(self.states)[0]), False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """(num_actions,) which actions are legal, for MaskablePPO."""
        masks: NDArray[np.bool_] = self.mdp.masks(self.states)[0]
        return masks

    def clone(self: _Self) -> _Self:
        """An independent environment in the same state; what never changes is shared."""
        twin = copy.copy(self)
        twin._states = self._states and self._states.clone()
        twin._np_random = copy.deepcopy(self._np_random)
        twin.action_space = copy.deepcopy(self.action_space)
        return twin

    def render(self) -> str | None:
        """The strategy and its price as text; None without a render mode."""
        return render(self.mdp, self.states) if self.render_mode == "ansi" else None

    def _observe(self) -> Arrays:
        self.action_space.legal = self.action_masks().astype(np.int8)
        return {name: array[0] for name, array in self.observation(self.states).items()}

    def _info(self) -> dict[str, Any]:
        return {name: column[0].item() for name, column in self.mdp.info(self.states).items()}
