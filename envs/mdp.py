"""Mdp: the decision process behind the environments, one episode or many at a time."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.config_table import ConfigTable
from envs.decisions import NONE, Decisions
from envs.errors import IllegalActionError, NoEpisodeError, NotEnumerableError
from envs.padding import Padding, Sizes
from envs.reward import Price, Reward
from envs.state import State
from sim.problem import Problem
from sim.simulation import Simulation
from sim.space import SoapSpace
from sim.strategy import Strategy

NS_PER_MS = 1e6


class Mdp:
    """Start, step and masks; what does not depend on how the environments are called.

    Args:
        problem: graph, topology, costs.
        space: the legal configs.
        reward: judges each step.
        simulate: prices a strategy; None stands for data parallelism.
        padding: sizes that are larger than the problem's own.
        decide: makes the decisions from the number of operators and the sizes.

    Attributes:
        table: the legal configs with what they cost.
        sizes: of observations and actions.
        decisions: what the actions mean.

    Raises:
        NotEnumerableError: the space has no indices.
        PaddingError: the padding is smaller than the problem.
    """

    def __init__(
        self,
        problem: Problem,
        space: SoapSpace,
        reward: Reward,
        simulate: Callable[[Strategy | None], Simulation],
        padding: Padding,
        decide: Callable[[int, Sizes], Decisions],
    ) -> None:
        if not space.is_enumerable:
            raise NotEnumerableError(repr(space))
        self.problem, self.space, self.reward, self._simulate = problem, space, reward, simulate
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
        self._start: State | None = None

    def start(self, strategy: Strategy | None = None) -> State:
        """The state before the first decision; None starts from data parallelism, which is priced only once."""
        if strategy is not None:
            return self._state(strategy)
        if self._start is None:
            self._start = self._state(None)
        return self._start.clone()

    def step(self, state: State, action: int) -> float:
        """Make one decision: price and keep the config that ``action`` names.

        Args:
            state: modified in place; unchanged if an exception is raised.
            action: of a legal config.

        Returns:
            The reward.

        Raises:
            IllegalActionError: the action is masked.
            NoEpisodeError: all decisions are made.
        """
        if state.step >= self.decisions.num_steps:
            raise NoEpisodeError
        operator, index = self.decode(state, action)
        number = self.table.operator_class[operator]
        proposal = state.simulation.propose(operator, self.table.configs[number][index])
        state.simulation.accept()
        before, state.price = state.price, Price(proposal.cost_ns, proposal.overflow_bytes)
        state.choices[operator] = index
        state.features[operator] = self.table.features[number, index]
        state.busy[operator] = self.table.busy[number, :, index]
        state.memory[operator] = self.table.memory[number, :, index]
        state.step += 1
        return self.reward(self.problem, before, state.price)

    def decode(self, state: State, action: int) -> tuple[int, int]:
        """The operator and the index of the config that an action names.

        Raises:
            IllegalActionError: the action is masked.
        """
        if not 0 <= action < self.decisions.num_actions:
            raise IllegalActionError(action, f"actions are 0 to {self.decisions.num_actions - 1}")
        block, index = divmod(action, self.sizes.num_configs)
        operator = int(self.decisions.open_operators(state.step)[block])
        if operator == NONE:
            num_operators = len(self.problem.graph)
            raise IllegalActionError(action, f"it names operator {block}, but the graph has {num_operators}")
        num_configs = self.table.num_configs[self.table.operator_class[operator]]
        if index >= num_configs:
            name = self.problem.graph.operators[operator].name
            reason = f"it names config {index} of operator '{name}', which has configs 0 to {num_configs - 1}"
            raise IllegalActionError(action, reason)
        return operator, index

    def open_operators(self, states: Sequence[State]) -> NDArray[np.int64]:
        """(B, K) the operators that each state's actions may change."""
        return np.stack([self.decisions.open_operators(state.step) for state in states])

    def masks(self, states: Sequence[State]) -> NDArray[np.bool_]:
        """(B, num_actions) which actions are legal."""
        num_legal = self.table.num_configs[self.table.operator_class[self.open_operators(states)]]
        is_legal: NDArray[np.bool_] = np.arange(self.sizes.num_configs) < num_legal[..., None]
        return is_legal.reshape(len(states), -1)

    def is_over(self, state: State) -> bool:
        """Whether all decisions are made."""
        return state.step >= self.decisions.num_steps

    def info(self, state: State) -> dict[str, Any]:
        """What the environments report beside the observation."""
        return {
            "cost_ms": state.price.cost_ns / NS_PER_MS,
            "speedup": self.problem.data_parallel_ns / max(1, state.price.cost_ns),
            "fits_memory": state.price.overflow_bytes == 0,
            "simulations": state.step,
        }

    def _state(self, strategy: Strategy | None) -> State:
        simulation = self._simulate(strategy)
        configs = [simulation.config(operator) for operator in range(len(self.problem.graph))]
        choices = [self.table.index(operator, config) for operator, config in enumerate(configs)]
        return State.of(simulation, choices, [self.table.row(*pair) for pair in enumerate(configs)])
