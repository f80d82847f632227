"""Adviser: what a policy says of the configs of a problem's operators."""

import math
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from agents.graph_network import GraphNetwork, Tensors, tensors
from agents.ledger import Ledger
from agents.torch_threads import torch_threads
from envs.decisions import Improve
from envs.mdp import Mdp
from envs.observation import Arrays, GraphObservation
from envs.padding import Padding
from envs.reward import CostReduction
from envs.state import Start
from sim.problem import Problem
from sim.simulation import Simulation
from sim.space import BlockTable, SoapSpace
from sim.strategy import Strategy

Logits: TypeAlias = list[NDArray[np.float64]]
"""Of each operator, those of all its configs, by index."""


class Adviser:
    """A policy for Soap-v0, asked about all operators of a strategy at once.

    Each operator is shown as Soap-v0 shows it when it is its turn, while all others have configs already.

    Args:
        problem: what is searched.
        network: the policy.
        space: its configs are judged; enumerable.
        ledger: pays for what ``rollout`` prices.
    """

    def __init__(self, problem: Problem, network: GraphNetwork, space: SoapSpace, ledger: Ledger) -> None:
        self.problem, self.space, self._network = problem, space, network
        decide = partial(Improve, num_steps=len(problem.graph))
        self._mdp = Mdp(problem, space, CostReduction(), ledger, Padding(), decide)
        self._observation = GraphObservation(self._mdp, has_static=False)
        with torch_threads(1), torch.no_grad():
            self._encoding = network.encode(tensors(self._observation.static))

    def logits(self, simulation: Simulation) -> Logits:
        """What the policy thinks of every operator's configs, the others being as they are."""
        numbers = [self._mdp.table.number(*pair) for pair in enumerate(simulation.configs)]
        states = self._mdp.states(Start(simulation, np.array(numbers)), 1)
        found = self._judge(self._observation(states), np.arange(len(self.problem.graph)))
        return [own[: self.space.num_configs(i)] for i, own in enumerate(found)]

    def spread(self, logits: Logits, space: SoapSpace) -> Logits:
        """The same logits by the indices of a larger space; those of configs that the policy does not know are -inf."""
        if space is self.space:
            return logits
        return [_spread(own, self.space.table(i), space.table(i)) for i, own in enumerate(logits)]

    def rollout(self, strategy: Strategy) -> Strategy:
        """The configs that the policy likes best, operator after operator; each step is priced.

        If that is slower than the strategy that it started from, or needs more memory, this is what it returns.

        Args:
            strategy: to start from, priced too.

        Raises:
            BudgetExhausted: nothing is left.
        """
        start = self._mdp.start(strategy)
        states = self._mdp.states(start, 1)
        for operator in range(len(self.problem.graph)):
            logits = self._judge(self._observation(states), np.array([operator]))
            action = operator * self._mdp.sizes.num_configs + int(logits[0].argmax())
            self._mdp.step(states, np.array([action]))
        price = states.simulations.overflow_bytes[0], states.simulations.cost_ns[0]
        if price > (start.simulation.overflow_bytes, start.simulation.cost_ns):
            return start.simulation.strategy
        return states.simulations.strategy(0)

    def _judge(self, observation: Arrays, operators: NDArray[np.int64]) -> NDArray[np.float64]:
        """(len(operators), configs) logits; the observation is of one state of SoapImprove-v0."""
        # One thread gives equal results on any number of cores.
        with torch_threads(1), torch.no_grad():
            logits, _ = self._network(self._encoding, self._turns(observation, operators))
        found: NDArray[np.float64] = logits.double().numpy()
        return found

    def _turns(self, observation: Arrays, operators: NDArray[np.int64]) -> Tensors:
        """The observations of Soap-v0 in which it is the turn of each of these operators."""
        count, num_operators = len(operators), self._mdp.sizes.num_operators
        states = np.repeat(observation["operator_states"].reshape(1, num_operators, -1), count, axis=0)
        states[:, :, 0] = np.arange(num_operators) == operators[:, None]
        progress = np.repeat(observation["progress"], count, axis=0)
        progress[:, 0] = operators / len(self.problem.graph)
        turns = {
            "operator_states": states.reshape(count, -1),
            "device_states": np.repeat(observation["device_states"], count, axis=0),
            "candidates": observation["candidates"].reshape(num_operators, -1)[operators],
            "action_mask": observation["action_mask"].reshape(num_operators, -1)[operators],
            "progress": progress,
        }
        return tensors(turns)


def advised_space(problem: Problem, *, aligned_only: bool) -> SoapSpace:
    """The part of the problem's space that a policy judges; where configs have no indices, the aligned ones."""
    space = problem.space
    if space.is_enumerable and not (aligned_only and space.variant == "block"):
        return space
    return space.aligned


def _spread(logits: NDArray[np.float64], aligned: BlockTable, block: BlockTable) -> NDArray[np.float64]:
    """Logits of aligned configs by their indices among all blocks."""
    rows = {key: row for row, key in enumerate(_row_keys(block))}
    found = np.full(int(block.offsets[-1]), -np.inf)
    for row, key in enumerate(_row_keys(aligned)):
        degrees, _, stride = key
        first, end = aligned.offsets[row : row + 2]
        window, shift = np.divmod(np.arange(end - first), stride)
        found[block.offsets[rows[key]] + window * stride * math.prod(degrees) + shift] = logits[first:end]
    return found


def _row_keys(table: BlockTable) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    degrees = map(tuple, table.degrees.tolist())
    return list(zip(degrees, table.orders, table.strides.tolist(), strict=True))
