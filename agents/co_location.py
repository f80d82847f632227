"""Co-location groups: which operators take one decision together, and what may be decided for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.errors import AgentError
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.strategy import ParallelConfig

Grouping: TypeAlias = Literal["none", "chains", "consumers"]
"""``consumers``: a group joins the only group that reads it; ``chains``: if that one reads nothing else."""

Actions: TypeAlias = Literal["devices", "soap"]
"""``devices``: all operators of a group whole on one device; ``soap``: any config that all of them have in common."""

Groups: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What can be decided.

    Attributes:
        groups: operators that take one decision together, in topological order of their first.
        configs: for each group and action, one config for each of its operators; none if the group lacks the action.
    """

    groups: Groups
    configs: tuple[tuple[tuple[ParallelConfig, ...], ...], ...]

    @property
    def mask(self) -> NDArray[np.bool_]:
        """(groups, actions) what may be chosen."""
        return np.array([[bool(own) for own in row] for row in self.configs])

    def chosen(self, actions: Sequence[int]) -> list[ParallelConfig]:
        """Configs of all operators, in the graph's order, given the action of each group."""
        configs: dict[int, ParallelConfig] = {}
        for members, row, action in zip(self.groups, self.configs, actions, strict=True):
            configs |= zip(members, row[action], strict=True)
        return [configs[operator] for operator in range(len(configs))]


def co_location_groups(graph: OperatorGraph, *, rule: Grouping, fuse_shared: bool) -> Groups:
    """Operators that are placed together (Mirhoseini et al. 2017, section 3.3).

    Args:
        graph: whose operators are grouped.
        rule: repeated until nothing more joins, groups in place of operators.
        fuse_shared: operators that share weights are a group to begin with.
    """
    group_of = list(range(len(graph)))
    if fuse_shared:
        for shared in graph.weight_groups.values():
            for operator in shared:
                group_of[operator] = shared[0]
    join = _next_join(graph, group_of, rule)
    while join is not None:
        group, consumer = join
        group_of = [consumer if own == group else own for own in group_of]
        join = _next_join(graph, group_of, rule)
    members: dict[int, list[int]] = {}
    for operator, group in enumerate(group_of):
        members.setdefault(group, []).append(operator)
    return tuple(tuple(own) for own in members.values())


def _next_join(graph: OperatorGraph, group_of: Sequence[int], rule: Grouping) -> tuple[int, int] | None:
    """A group and the one that it joins."""
    if rule == "none":
        return None
    consumers: dict[int, set[int]] = {}
    producers: dict[int, set[int]] = {}
    for edge in graph.edges:
        src, dst = group_of[edge.src], group_of[edge.dst]
        if src != dst:
            consumers.setdefault(src, set()).add(dst)
            producers.setdefault(dst, set()).add(src)
    for group, readers in consumers.items():
        reader = min(readers)
        if len(readers) == 1 and (rule == "consumers" or len(producers[reader]) == 1):
            return group, reader
    return None


def make_catalogue(problem: Problem, groups: Groups, *, actions: Actions, aligned_only: bool) -> Catalogue:
    """What may be decided for each group.

    Args:
        problem: its space is chosen from.
        groups: of its operators.
        actions: kind of decisions.
        aligned_only: of ``soap``, only the aligned configs of the space.

    Raises:
        AgentError: operators cannot be placed in the space, or a group has no config in common.
        SimError: the configs of the space have no indices.
    """
    if actions == "devices":
        return Catalogue(groups, tuple(_placements(problem, members) for members in groups))
    space = problem.space.aligned if aligned_only else problem.space
    shared: list[dict[ParallelConfig, None]] = []
    for members in groups:
        own = [[space.config(i, k) for k in range(space.num_configs(i))] for i in members]
        common = set(own[0]).intersection(*own[1:])
        if not common:
            names = ", ".join(f"'{problem.graph.operators[operator].name}'" for operator in members)
            raise AgentError(
                f"operators {names} are one group, but have no config in common; choose agent.grouping=none"
            )
        shared.append(dict.fromkeys(config for config in own[0] if config in common))
    # One number for each config, whichever operators have it, so that they share what is learned about it.
    numbers = dict.fromkeys(config for configs in shared for config in configs)
    rows = [
        tuple((config,) * len(members) if config in configs else () for config in numbers)
        for members, configs in zip(groups, shared, strict=True)
    ]
    return Catalogue(groups, tuple(rows))


def _placements(problem: Problem, members: Sequence[int]) -> tuple[tuple[ParallelConfig, ...], ...]:
    if "O" not in problem.space.dims:
        raise AgentError(f"whole operators cannot be placed in space.dims={problem.space.dims}, which lacks O")
    dims = [len(problem.graph.operators[operator].dims) for operator in members]
    return tuple(
        tuple(ParallelConfig((1,) * count, (device,)) for count in dims)
        for device in range(problem.topology.num_devices)
    )
