"""ConfigNetwork: the additive cost as a graph of variables, each of which takes one of some configs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.errors import AgentError
from sim.additive import AdditiveCost
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig, Strategy

Ints: TypeAlias = NDArray[np.int64]
Placements: TypeAlias = Literal["same", "aligned", "all"]
"""Configs to choose from, by devices: ``same``: those of the space whose parts are on devices 0, 1, 2, ..., as in
OptCNN; ``aligned``: the aligned ones of the space; ``all``: all of it."""


@dataclass(frozen=True, slots=True)
class ConfigNetwork:
    """Minimise the sum of one cost for each variable and one for each pair of variables that share an edge.

    Attributes:
        problem: what it belongs to.
        members: for each variable, the operators that take its config.
        configs: for each variable, what it may take.
        unary: for each variable, (C,) ns.
        pairs: for variables u < v, (C of u, C of v) ns; parallel edges are added up.
    """

    problem: Problem
    members: tuple[tuple[int, ...], ...]
    configs: tuple[tuple[ParallelConfig, ...], ...]
    unary: tuple[Ints, ...]
    pairs: dict[tuple[int, int], Ints]

    def __len__(self) -> int:
        return len(self.unary)

    def cost_ns(self, choice: Sequence[int]) -> int:
        """The additive cost if each variable takes the config of this number."""
        total = sum(int(costs[c]) for costs, c in zip(self.unary, choice, strict=True))
        return total + sum(int(costs[choice[u], choice[v]]) for (u, v), costs in self.pairs.items())

    def strategy(self, choice: Sequence[int]) -> Strategy:
        """The strategy that gives each variable the config of this number."""
        configs: dict[int, ParallelConfig] = {}
        for members, own, c in zip(self.members, self.configs, choice, strict=True):
            configs |= dict.fromkeys(members, own[c])
        graph = self.problem.graph
        return Strategy(graph, self.problem.topology, [configs[operator] for operator in range(len(graph))])


def make_network(
    problem: Problem, *, placements: Placements, fuse_shared: bool, look: Callable[[str], None]
) -> ConfigNetwork:
    """Price the operators and edges of a problem.

    Args:
        problem: graph, topology, costs, space and synchronisation.
        placements: which configs of the space to choose from.
        fuse_shared: operators that share weights take one config, as OptCNN has it for unrolled recurrent steps; they
            must have a config in common. Else each bears its share of their synchronisation.
        look: is called often, with a text that says how far the pricing is; may raise.

    Raises:
        AgentError: the space has no such configs.
    """
    space = _restricted(problem.space, placements)
    graph = problem.graph
    known: dict[object, list[ParallelConfig]] = {}
    configs = []
    for position, operator in enumerate(graph.operators):
        labels = tuple(dim.label for dim in operator.dims)
        if (operator.sizes, labels) not in known:
            indices = range(space.num_configs(position))
            known[operator.sizes, labels] = [space.config(position, index) for index in indices]
        configs.append(known[operator.sizes, labels])
    members: list[tuple[int, ...]] = [(position,) for position in range(len(graph))]
    if fuse_shared:
        alone = [own for own, operator in zip(members, graph.operators, strict=True) if operator.weight is None]
        members = sorted([*alone, *graph.weight_groups.values()])
        for group in members:
            shared = set(configs[group[0]]).intersection(*(configs[member] for member in group))
            if not shared:
                raise AgentError(
                    f"operators {_names(problem, group)} share weights, but have no config in common; "
                    "choose agent.fuse_shared=false"
                )
            common = [config for config in configs[group[0]] if config in shared]
            for member in group:
                configs[member] = common
    return _network(AdditiveCost(problem, configs, look), members, fuse_shared)


def _names(problem: Problem, operators: Sequence[int]) -> str:
    return ", ".join(f"'{problem.graph.operators[operator].name}'" for operator in operators)


def _restricted(space: SoapSpace, placements: Placements) -> SoapSpace:
    if placements not in ("same", "aligned", "all"):
        raise AgentError(f"agent.placements must be same, aligned or all, not {placements}")
    if placements == "aligned":
        return space.aligned
    if placements == "all":
        return space
    dims = space.dims.replace("O", "")
    if not dims:
        reason = "leaves nothing to choose in space.dims=O, where each operator is whole"
        raise AgentError(f"agent.placements=same {reason}; choose aligned or all")
    return SoapSpace(space.graph, space.topology, variant=space.variant, dims=dims)


def _network(cost: AdditiveCost, members: Sequence[tuple[int, ...]], fuse_shared: bool) -> ConfigNetwork:
    """Add up what concerns the same variables."""
    variable_of = {operator: number for number, group in enumerate(members) for operator in group}
    unary: list[Ints] = []
    for group in members:
        if fuse_shared:
            total = cost.sync_ns[group[0]] + sum(cost.compute_ns[operator] for operator in group)
        else:
            total = cost.operator_ns(group[0]).copy()
        unary.append(total)
    pairs: dict[tuple[int, int], Ints] = {}
    for edge, times in zip(cost.problem.graph.edges, cost.transfer_ns, strict=True):
        src, dst = variable_of[edge.src], variable_of[edge.dst]
        if src == dst:
            unary[src] = unary[src] + np.diagonal(times)
            continue
        pair, matrix = ((src, dst), times) if src < dst else ((dst, src), times.T)
        pairs[pair] = pairs[pair] + matrix if pair in pairs else matrix
    configs = tuple(cost.configs[group[0]] for group in members)
    return ConfigNetwork(cost.problem, tuple(members), configs, tuple(unary), pairs)
