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
from envs.errors import EnvError, NoEpisodeError
from envs.legal_actions import LegalActions
from envs.mdp import Mdp
from envs.observation import Arrays, GraphObservation, Observation
from envs.state import Start, States
from sim.strategy import Strategy

Infos: TypeAlias = dict[str, Any]


class StrategyVectorEnv(VectorEnv[Arrays, NDArray[np.int64], NDArray[Any]]):
    """B episodes of one process in step. Not registered: see ``SoapVectorEnv`` and ``SoapImproveVectorEnv``.

    Ended episodes start anew within the same step: ``infos["final_obs"]`` and ``infos["final_info"]`` hold what the
    single environment would have returned, as in Gymnasium's SyncVectorEnv.

    How fast they are: ``experiments/benchmark_environment.py``.

    Args:
        mdp: the process.
        observation: makes the observation from it.
        num_envs: B.
        num_threads: that price and observe at the same time; results do not depend on it.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(self, mdp: Mdp, observation: Callable[[Mdp], Observation], *, num_envs: int, num_threads: int) -> None:
        for name, count in (("num_envs", num_envs), ("num_threads", num_threads)):
            if count < 1:
                raise EnvError(f"{name} must be at least 1, not {count}")
        self.mdp, self.observation, self.num_envs, self.num_threads = mdp, observation(mdp), num_envs, num_threads
        self.single_observation_space = self.observation.space
        self.single_action_space = LegalActions(mdp.decisions.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._start: Start | None = None
        self._states: States | None = None

    @property
    def states(self) -> States:
        """Where the episodes stand."""
        if self._states is None:
            raise NoEpisodeError
        return self._states

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Arrays, Infos]:
        """Start B episodes; see ``SoapEnv.reset``. A start strategy is also that of all later episodes."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        self._start = self.mdp.start((options or {}).get("strategy"))
        if self._states is None:
            self._states = self.mdp.states(self._start, self.num_envs, self.num_threads)
        else:
            self._states.restart(np.ones(self.num_envs, dtype=bool), self._start)
        return self.observation(self._states), self._infos()

    def step(self, actions: NDArray[np.int64]) -> tuple[Arrays, NDArray[Any], NDArray[Any], NDArray[Any], Infos]:
        """Make one decision in each episode; see ``SoapEnv.step``."""
        states = self.states
        rewards = self.mdp.step(states, np.asarray(actions))
        is_over = self.mdp.is_over(states)
        final: Infos = {}
        if is_over.any():
            assert self._start is not None, "reset comes before step"
            final = self._final(is_over)
            states.restart(is_over, self._start)
        return self.observation(states), rewards, is_over, np.zeros_like(is_over), {**self._infos(), **final}

    def start_from(self, strategy: Strategy) -> None:
        """Let episodes begin with this strategy from now on; those under way go on, and the strategy is priced."""
        self._start = self.mdp.start(strategy)

    def action_masks(self) -> NDArray[np.bool_]:
        """(B, num_actions) which actions are legal."""
        return self.mdp.masks(self.states)

    def _infos(self) -> Infos:
        """Columns of the single environments' infos, each with its mask, as Gymnasium wants them."""
        infos: Infos = {}
        for name, column in self.mdp.info(self.states).items():
            infos[name], infos[f"_{name}"] = column, np.ones(self.num_envs, dtype=bool)
        return infos

    def _final(self, is_over: NDArray[np.bool_]) -> Infos:
        batch = self.observation(self.states)
        final_obs = np.empty(self.num_envs, dtype=object)
        for position in np.flatnonzero(is_over):
            final_obs[position] = {name: array[position] for name, array in batch.items()}
        final_info = {
            name: column & is_over if name.startswith("_") else column for name, column in self._infos().items()
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
        num_threads: int = 1,
        observation: Callable[[Mdp], Observation] = GraphObservation,
        **arguments: Unpack[Arguments],
    ) -> None:
        super().__init__(make_mdp(Visit, arguments), observation, num_envs=num_envs, num_threads=num_threads)


class SoapImproveVectorEnv(StrategyVectorEnv):
    """SoapImprove-v0, ``num_envs`` episodes at a time; see ``SoapImproveEnv`` for the arguments."""

    def __init__(
        self,
        *,
        num_envs: int,
        num_threads: int = 1,
        num_steps: int | None = None,
        observation: Callable[[Mdp], Observation] = GraphObservation,
        **arguments: Unpack[Arguments],
    ) -> None:
        mdp = make_mdp(partial(Improve, num_steps=num_steps), arguments)
        super().__init__(mdp, observation, num_envs=num_envs, num_threads=num_threads)
