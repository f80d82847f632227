"""Mdp: the decision process behind the environments, one episode or many at a time."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from envs.config_table import ConfigTable
from envs.decisions import NONE, Decisions
from envs.errors import ActionFormError, IllegalActionError, NoEpisodeError, NotEnumerableError
from envs.meter import Meter
from envs.padding import Padding, Sizes
from envs.reward import Reward
from envs.state import Start, States
from sim.batch import SimulationBatch
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig, Strategy

NS_PER_MS = 1e6


class Mdp:
    """Start, step and masks; what does not depend on how the environments are called.

    Args:
        problem: graph, topology, costs.
        space: the legal configs.
        reward: judges each step.
        meter: pays for pricings; None if nobody needs to.
        padding: sizes that are larger than the problem's own.
        decide: makes the decisions from the number of operators and the sizes.

    Attributes:
        table: the legal configs with what they cost.
        sizes: of observations and actions.
        decisions: what the actions mean.

    Raises:
        NotEnumerableError: the space has no indices.
        MismatchError: the space is one of another graph or topology.
        PaddingError: the padding is smaller than the problem.
    """

    def __init__(
        self,
        problem: Problem,
        space: SoapSpace,
        reward: Reward,
        meter: Meter | None,
        padding: Padding,
        decide: Callable[[int, Sizes], Decisions],
    ) -> None:
        if not space.is_enumerable:
            raise NotEnumerableError(repr(space))
        problem.require_own("space", space)
        self.problem, self.space, self.reward, self._meter = problem, space, reward, meter
        self.table = ConfigTable(problem, space)
        graph = problem.graph
        own = Sizes(
            num_operators=len(graph),
            num_edges=len(graph.edges),
            num_devices=problem.topology.num_devices,
            num_configs=int(self.table.num_configs.max()),
        )
        self.sizes = padding.fitted(own)
        self.decisions = decide(len(graph), self.sizes)
        self._num_legal = np.array([*self.table.num_configs[self.table.operator_class], 0])  # the last is of NONE
        self._start: Start | None = None

    def start(self, strategy: Strategy | None = None) -> Start:
        """Where episodes begin; None is data parallelism, which is priced only once."""
        if strategy is not None:
            return self._priced(strategy)
        if self._start is None:
            self._start = self._priced(self.problem.data_parallel)
        return self._start

    def states(self, start: Start, num_states: int, num_threads: int = 1) -> States:
        """That many episodes before their first decisions, priced on several threads from now on."""
        simulations = SimulationBatch(start.simulation, self.space, num_states, num_threads=num_threads)
        return States(simulations, np.zeros(num_states, np.int64), np.tile(start.choices, (num_states, 1)))

    def step(self, states: States, actions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Make one decision in each episode: price and keep the config that its action names.

        Args:
            states: modified in place.
            actions: (S,) each of a legal config.

        Returns:
            (S,) rewards.

        Raises:
            ActionFormError: they are not one integer for each episode; nothing is changed.
            IllegalActionError: an action is masked; nothing is changed.
            NoEpisodeError: all decisions are made in one of them; nothing is changed.
        """
        operators, indices = self.decode(states, actions)
        before, done, simulations = states.price, 0, states.simulations
        while done < len(states):
            paid = len(states) - done if self._meter is None else self._meter.charge_batch(len(states) - done)
            now = slice(done, done + paid)
            simulations.change(operators, indices, now.start, now.stop)
            states.choices[np.arange(now.start, now.stop), operators[now]] = indices[now]
            states.step[now] += 1
            if self._meter is not None:
                prices = simulations.overflow_bytes[now], simulations.cost_ns[now]
                self._meter.record_batch(*prices, partial(_configs, simulations, done))
            done += paid
        return np.asarray(self.reward(self.problem, before, states.price), np.float64)

    def decode(self, states: States, actions: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(S,) the operators and the indices of the configs that the actions name.

        Raises:
            ActionFormError: they are not one integer for each episode.
            IllegalActionError: an action is masked.
            NoEpisodeError: all decisions are made in one of the episodes.
        """
        if actions.shape != (len(states),) or not np.issubdtype(actions.dtype, np.integer):
            raise ActionFormError(len(states), actions)
        if self.is_over(states).any():
            raise NoEpisodeError
        actions = actions.astype(np.int64, copy=False)
        is_action = (actions >= 0) & (actions < self.decisions.num_actions)
        blocks, indices = np.divmod(np.where(is_action, actions, 0), self.sizes.num_configs)
        operators = self.open_operators(states)[np.arange(len(states)), blocks]
        is_legal = is_action & (indices < self._num_legal[operators])
        if not is_legal.all():
            number = int(np.argmin(is_legal))
            self._refuse(int(actions[number]), int(operators[number]))
        return operators, indices

    def _refuse(self, action: int, operator: int) -> None:
        if not 0 <= action < self.decisions.num_actions:
            raise IllegalActionError(action, f"actions are 0 to {self.decisions.num_actions - 1}")
        block, index = divmod(action, self.sizes.num_configs)
        if operator == NONE:
            num_operators = len(self.problem.graph)
            raise IllegalActionError(action, f"it names operator {block}, but the graph has {num_operators}")
        name, last = self.problem.graph.operators[operator].name, self._num_legal[operator] - 1
        reason = f"it names config {index} of operator '{name}', which has configs 0 to {last}"
        raise IllegalActionError(action, reason)

    def open_operators(self, states: States) -> NDArray[np.int64]:
        """(S, K) the operators that each state's actions may change."""
        return self.decisions.open_operators(states.step)

    def masks(self, states: States) -> NDArray[np.bool_]:
        """(S, num_actions) which actions are legal."""
        num_legal = self._num_legal[self.open_operators(states)]
        is_legal: NDArray[np.bool_] = np.arange(self.sizes.num_configs) < num_legal[..., None]
        return is_legal.reshape(len(states), -1)

    def is_over(self, states: States) -> NDArray[np.bool_]:
        """(S,) whether all decisions are made."""
        over: NDArray[np.bool_] = states.step >= self.decisions.num_steps
        return over

    def info(self, states: States) -> dict[str, NDArray[np.generic]]:
        """(S,) what the environments report beside the observation."""
        cost_ns = states.simulations.cost_ns
        return {
            "cost_ms": cost_ns / NS_PER_MS,
            "speedup": self.problem.data_parallel_ns / np.maximum(1, cost_ns),
            "fits_memory": states.simulations.overflow_bytes == 0,
            "simulations": states.step.copy(),
        }

    def _priced(self, strategy: Strategy) -> Start:
        if self._meter is not None:
            self._meter.charge_batch(1)
        simulation = self.problem.simulation(strategy)
        if self._meter is not None:
            prices = np.array([simulation.overflow_bytes]), np.array([simulation.cost_ns])
            self._meter.record_batch(*prices, lambda _: list(strategy.configs))
        return Start(simulation, np.array([self.table.number(*pair) for pair in enumerate(strategy.configs)]))


def _configs(simulations: SimulationBatch, first: int, number: int) -> list[ParallelConfig]:
    """Configs of the strategy at ``number`` of those from ``first`` on."""
    return simulations.configs(first + number)
