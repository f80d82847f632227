"""Players: the operators, or groups of them, whose configs a local search changes."""

from functools import cached_property
from typing import TypeAlias

import numpy as np

from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.strategy import ParallelConfig

Player: TypeAlias = tuple[int, ...]
"""Operators that get the same config."""


class Players:
    """The players of a problem.

    A step of an unrolled layer that moves alone has its weights on devices where the other steps have none, and pays
    for their synchronisation. So operators that share weights are a player too, together.

    Args:
        problem: graph and space.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        graph: OperatorGraph = problem.graph
        self.operators: list[Player] = [(operator,) for operator in range(len(graph))]
        self.groups: list[Player] = [tuple(members) for members in graph.weight_groups.values() if len(members) > 1]
        home = {operator: group for group in self.groups for operator in group}
        self._grouped = [home.get(operator, (operator,)) for operator in range(len(graph))]

    @cached_property
    def grouped(self) -> list[Player]:
        """The groups, and each operator that is in none."""
        return list(dict.fromkeys(self._grouped))

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """Of each operator, those that it reads and that read it."""
        found: list[set[int]] = [set() for _ in self.operators]
        for edge in self.problem.graph.edges:
            found[edge.src].add(edge.dst)
            found[edge.dst].add(edge.src)
        return [sorted(near) for near in found]

    def grow(self, operator: int, count: int, rng: np.random.Generator, *, is_grouped: bool) -> list[Player]:
        """A connected set of up to ``count`` players around an operator: groups, or single operators."""
        home = self._grouped if is_grouped else self.operators
        chosen = [home[operator]]
        while len(chosen) < count:
            inside = {member for player in chosen for member in player}
            border = sorted({other for member in inside for other in self.neighbours[member]} - inside)
            if not border:
                break
            chosen.append(home[border[int(rng.integers(len(border)))]])
        return [chosen[number] for number in rng.permutation(len(chosen)).tolist()]

    def drawn(self, player: Player, rng: np.random.Generator) -> dict[int, ParallelConfig]:
        """A random config for a player's operators; those where it is illegal get another one each."""
        space = self.problem.space
        config = space.sample(player[0], rng)
        return {i: config if space.has(i, config) else space.sample(i, rng) for i in player}
