"""VectorAdapter: a natively vectorised environment as Stable-Baselines3's VecEnv."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from envs.vector import StrategyVectorEnv
from sim.strategy import Strategy


class VectorAdapter(VecEnv):
    """Stable-Baselines3 refuses Gymnasium's vector environments; this is the thin layer between the two.

    Infos are empty but at the end of an episode, where they are those of its last state.

    Args:
        env: resets ended episodes within the same step.

    Attributes:
        start: the strategy that episodes begin with after the next ``reset``; None is data parallelism.
    """

    def __init__(self, env: StrategyVectorEnv) -> None:
        self.env = env
        self.start: Strategy | None = None
        self._actions: NDArray[np.int64] = np.zeros(env.num_envs, dtype=np.int64)
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> VecEnvObs:
        """Start all episodes."""
        observation, _ = self.env.reset(options={"strategy": self.start})
        return observation

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Remember the actions of the next ``step_wait``."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Make one decision in each episode."""
        observation, rewards, terminated, truncated, infos = self.env.step(self._actions)
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for position in np.flatnonzero(infos.get("_final_obs", ())):
            final = {name: column[position] for name, column in infos["final_info"].items() if name[0] != "_"}
            rows[position] = {**final, "terminal_observation": infos["final_obs"][position]}
        return observation, rewards.astype(np.float32), terminated | truncated, rows

    def close(self) -> None:
        """Close the environment."""
        self.env.close()

    def has_attr(self, attr_name: str) -> bool:
        """Whether the environment has an attribute."""
        return hasattr(self.env, attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """An attribute, which all episodes share."""
        return [getattr(self.env, attr_name) for _ in self._chosen(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set an attribute for all episodes."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: VecEnvIndices = None, **keywords: Any) -> list[Any]:
        """Call a method that returns a row for each episode."""
        rows = getattr(self.env, method_name)(*args, **keywords)
        return [rows[position] for position in self._chosen(indices)]

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        """Never: the episodes are no environments of their own."""
        return [False for _ in self._chosen(indices)]

    def _chosen(self, indices: VecEnvIndices) -> Iterable[int]:
        return self._get_indices(indices)
