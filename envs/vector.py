"""The natively vectorised environments: many states of one problem, observed together."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias, Unpack

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envs.arguments import Arguments, make_mdp
from envs.decisions import Improve, Visit
from envs.errors import EnvError
from envs.legal_actions import LegalActions
from envs.mdp import Mdp
from envs.observation import Arrays, GraphObservation, Observation
from envs.state import State

Infos: TypeAlias = dict[str, Any]


class StrategyVectorEnv(VectorEnv[Arrays, NDArray[np.int64], NDArray[Any]]):
    """B episodes of one process in step. Not registered: see ``SoapVectorEnv`` and ``SoapImproveVectorEnv``.

    Ended episodes start anew within the same step: ``infos["final_obs"]`` and ``infos["final_info"]`` hold what the
    single environment would have returned, as in Gymnasium's SyncVectorEnv.

    Measured on NMT, 16 P100s, 16 episodes, one core: 4,300 steps/s against 2,490 of Stable-Baselines3's DummyVecEnv
    where all steps keep data parallelism, 2,970 against 1,550 where they are random; a simulation takes most of both.

    Args:
        mdp: the process.
        observation: makes the observation from it.
        num_envs: B.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, mdp: Mdp, observation: Callable[[Mdp], Observation], num_envs: int) -> None:
        if num_envs < 1:
            raise EnvError(f"num_envs must be at least 1, not {num_envs}")
        self.mdp, self.observation, self.num_envs = mdp, observation(mdp), num_envs
        self.single_observation_space = self.observation.space
        self.single_action_space = LegalActions(mdp.decisions.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.states: list[State] = []
        self._options: dict[str, Any] = {}

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, Infos]:
        """Start B episodes; see ``SoapEnv.reset``."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        self._options = options or {}
        self.states = [self._start() for _ in range(self.num_envs)]
        return self.observation(self.states), self._infos(self.states)

    def step(self, actions: NDArray[np.int64]) -> tuple[Arrays, NDArray[Any], NDArray[Any], NDArray[Any], Infos]:
        """Make one decision in each episode; see ``SoapEnv.step``."""
        rewards = np.array([self.mdp.step(*pair) for pair in zip(self.states, map(int, actions), strict=True)])
        is_over = np.array([self.mdp.is_over(state) for state in self.states])
        final: Infos = {}
        if is_over.any():
            final = self._final(is_over)
            pairs = zip(self.states, is_over, strict=True)
            self.states = [self._start() if over else state for state, over in pairs]
        infos = {**self._infos(self.states), **final}
        return self.observation(self.states), rewards, is_over, np.zeros_like(is_over), infos

    def action_masks(self) -> NDArray[np.bool_]:
        """(B, num_actions) which actions are legal."""
        return self.mdp.masks(self.states)

    def _start(self) -> State:
        return self.mdp.start(self._options.get("strategy"))

    def _infos(self, states: Sequence[State]) -> Infos:
        """Columns of the single environments' infos, each with its mask, as Gymnasium wants them."""
        rows = [self.mdp.info(state) for state in states]
        infos: Infos = {}
        for name in rows[0]:
            infos[name] = np.array([row[name] for row in rows])
            infos[f"_{name}"] = np.ones(len(rows), dtype=bool)
        return infos

    def _final(self, is_over: NDArray[np.bool_]) -> Infos:
        batch = self.observation(self.states)
        final_obs = np.empty(self.num_envs, dtype=object)
        for position in np.flatnonzero(is_over):
            final_obs[position] = {name: array[position] for name, array in batch.items()}
        final_info = {
            name: column & is_over if name.startswith("_") else column
            for name, column in self._infos(self.states).items()
        }
        return {
            "final_obs": final_obs,
            "_final_obs": is_over.copy(),
            "final_info": final_info,
            "_final_info": is_over.copy(),
        }


class SoapVectorEnv(StrategyVectorEnv):
    """Soap-v0, ``num_envs`` episodes at a time; see ``SoapEnv`` for the arguments."""

    def __init__(
        self,
        *,
        num_envs: int,
        observation: Callable[[Mdp], Observation] = GraphObservation,
        **arguments: Unpack[Arguments],
    ) -> None:
        super().__init__(make_mdp(Visit, arguments), observation, num_envs)


class SoapImproveVectorEnv(StrategyVectorEnv):
    """SoapImprove-v0, ``num_envs`` episodes at a time; see ``SoapImproveEnv`` for the arguments."""

    def __init__(
        self,
        *,
        num_envs: int,
        num_steps: int | None = None,
        observation: Callable[[Mdp], Observation] = GraphObservation,
        **arguments: Unpack[Arguments],
    ) -> None:
        super().__init__(make_mdp(partial(Improve, num_steps=num_steps), arguments), observation, num_envs)
