"""ColocRL: a sequence-to-sequence policy learns where to place whole operators."""

import math
from typing import get_args

import numpy as np
import torch
from numpy.typing import NDArray

from agents.agent import Agent
from agents.co_location import Actions, Catalogue, Grouping, Groups, co_location_groups, make_catalogue
from agents.errors import AgentError
from agents.ledger import Ledger, MeteredSimulation
from agents.placement_network import PlacementNetwork
from sim.operator_graph import MAX_AXES, OperatorGraph
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy


class ColocRl(Agent):
    """Operator placement by REINFORCE on an attentional sequence-to-sequence model.

    Paper: Mirhoseini et al., "Device Placement Optimization with Reinforcement Learning", ICML 2017,
    https://arxiv.org/abs/1706.04972.

    The policy reads the co-location groups (type, output shape, adjacency) in topological order and gives each a
    device. R = sqrt(iteration time) is minimised with the gradient of (R - B) log p over a few samples, where B is a
    moving average that starts at the failing signal: the R of placements that do not fit in memory.

    Deviations: times are in units of data parallelism's, which makes the failing signal a number; one learner in place
    of 20 asynchronous ones; a graph of whole layers in place of TensorFlow's, hence other co-location groups
    (``grouping``); the decoder also reads the encoder's state of the group that it decides for. Numbers that the paper
    does not give are those of the successor's released code (decay of the baseline, failing signal, gradient
    clipping) or ours (samples, learning rate, width; smaller, for one CPU core).

    Args:
        actions: ``devices``, the paper's: whole operators, a device each; ``soap``: a config for each group.
        aligned_only: of ``soap``, only the configs of the variant ``aligned``.
        grouping: rule of co-location, see ``agents.co_location``.
        fuse_shared: operators that share weights are in one group.
        samples_per_update: strategies priced between two updates.
        learning_rate: Adam's.
        max_gradient_norm: longer gradients are cut.
        baseline_decay: weight of the old value when the moving average is updated.
        failing_time: of strategies that do not fit in memory, in units of data parallelism's.
        starts_failing: the moving average starts at the failing signal; False: at the first update's mean.
        valid_only_after: updates from which on strategies that do not fit are left out.
        width: of embeddings and LSTM states.
        num_threads: of torch; 1 gives equal results on any number of cores.
        seed: of the network's weights and the samples.

    Attributes:
        update_costs_ms: of the last search, mean iteration time of the strategies of each update: the learning curve.
    """

    def __init__(
        self,
        *,
        actions: Actions,
        aligned_only: bool,
        grouping: Grouping,
        fuse_shared: bool,
        samples_per_update: int,
        learning_rate: float,
        max_gradient_norm: float,
        baseline_decay: float,
        failing_time: float,
        starts_failing: bool,
        valid_only_after: int,
        width: int,
        num_threads: int,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        for name, choice, allowed in (
            ("actions", actions, get_args(Actions)),
            ("grouping", grouping, get_args(Grouping)),
        ):
            if choice not in allowed:
                raise AgentError(f"agent.{name} must be one of {', '.join(allowed)}, not {choice}")
        positive = {
            "samples_per_update": samples_per_update,
            "learning_rate": learning_rate,
            "max_gradient_norm": max_gradient_norm,
            "failing_time": failing_time,
            "width": width,
            "num_threads": num_threads,
        }
        for key, value in positive.items():
            if not value > 0:
                raise AgentError(f"agent.{key} must be positive, not {value}")
        if not 0 <= baseline_decay < 1:
            raise AgentError(f"agent.baseline_decay must be at least 0 and less than 1, not {baseline_decay}")
        self.actions, self.aligned_only, self.grouping, self.fuse_shared = actions, aligned_only, grouping, fuse_shared
        self.samples_per_update, self.learning_rate = samples_per_update, learning_rate
        self.max_gradient_norm, self.baseline_decay = max_gradient_norm, baseline_decay
        self.failing_time, self.starts_failing, self.valid_only_after = failing_time, starts_failing, valid_only_after
        self.width, self.num_threads = width, num_threads
        self.update_costs_ms: list[float] = []

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Learn until the ledger ends it."""
        groups = co_location_groups(problem.graph, rule=self.grouping, fuse_shared=self.fuse_shared)
        catalogue = make_catalogue(problem, groups, actions=self.actions, aligned_only=self.aligned_only)
        ledger.note("groups", len(groups))
        num_threads = torch.get_num_threads()
        torch.set_num_threads(self.num_threads)
        try:
            self._learn(problem, ledger, catalogue)
        finally:
            torch.set_num_threads(num_threads)

    def _learn(self, problem: Problem, ledger: Ledger, catalogue: Catalogue) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        features = torch.from_numpy(group_features(problem.graph, catalogue.groups))
        mask = torch.from_numpy(catalogue.mask)
        network = PlacementNetwork(features, mask, width=self.width, generator=generator)
        optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate)
        failing = math.sqrt(self.failing_time)
        baseline = failing if self.starts_failing else None
        pricing = _Pricing(problem, ledger, catalogue)
        self.update_costs_ms = []
        while True:
            actions = network.sample(self.samples_per_update, generator)
            prices = [pricing.price(own) for own in actions.tolist()]
            self.update_costs_ms.append(sum(cost for cost, _ in prices) / len(prices) / 1e6)
            signals = torch.tensor(
                [math.sqrt(cost / problem.data_parallel_ns) if fits else failing for cost, fits in prices]
            )
            if len(self.update_costs_ms) > self.valid_only_after:
                is_valid = torch.tensor([fits for _, fits in prices])
                signals, actions = signals[is_valid], actions[is_valid]
            if len(signals):
                mean = float(signals.mean())
                baseline = mean if baseline is None else baseline
                optimizer.zero_grad()
                ((signals - baseline) * network.log_prob(actions)).mean().backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(network.parameters(), self.max_gradient_norm)
                optimizer.step()
                baseline = self.baseline_decay * baseline + (1 - self.baseline_decay) * mean
            ledger.look("learning")


class _Pricing:
    """Prices one strategy after the other through the ledger, by full or by delta simulation."""

    def __init__(self, problem: Problem, ledger: Ledger, catalogue: Catalogue) -> None:
        self._problem, self._ledger, self._catalogue = problem, ledger, catalogue
        self._simulation: MeteredSimulation | None = None

    def price(self, actions: list[int]) -> tuple[int, bool]:
        """Iteration time, ns, and whether it fits in memory."""
        configs = self._catalogue.chosen(actions)
        if self._simulation is None:
            self._simulation = self._ledger.simulation(self._strategy(configs))
            return self._simulation.cost_ns, self._simulation.overflow_bytes == 0
        simulation = self._simulation
        changes = {i: new for i, (old, new) in enumerate(zip(simulation.configs, configs, strict=True)) if old != new}
        # With more changes than that a full simulation is faster (Inception-v3 and NMT on 4 devices).
        if 0 < len(changes) <= len(configs) // 2:
            simulation.propose_together(changes)
            simulation.accept()
        else:
            simulation.restart(self._strategy(configs))
        return simulation.cost_ns, simulation.overflow_bytes == 0

    def _strategy(self, configs: list[ParallelConfig]) -> Strategy:
        return Strategy(self._problem.graph, self._problem.topology, configs)


def group_features(graph: OperatorGraph, groups: Groups) -> NDArray[np.float32]:
    """(groups, F) what the policy knows of each group.

    For each: how many operators of each kind it has (the first layer is the embedding of types), the sizes of
    the last operator's output as logarithms, and the groups that it reads and that read it, one entry for each.
    """
    kinds = sorted({operator.kind for operator in graph.operators})
    group_of = {operator: group for group, members in enumerate(groups) for operator in members}
    types = np.zeros((len(groups), len(kinds)), np.float32)
    shapes = np.zeros((len(groups), MAX_AXES), np.float32)
    links = np.zeros((2, len(groups), len(groups)), np.float32)
    for group, members in enumerate(groups):
        for member in members:
            types[group, kinds.index(graph.operators[member].kind)] += 1
        sizes = graph.operators[members[-1]].outputs[0].sizes
        shapes[group, : len(sizes)] = np.log2(sizes) / 10
    for edge in graph.edges:
        src, dst = group_of[edge.src], group_of[edge.dst]
        links[0, dst, src] = links[1, src, dst] = src != dst
    return np.concatenate([types, shapes, *links], axis=1)
