"""without_dominated: drops configs that some strategy of least additive cost can do without."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.config_network import ConfigNetwork, Ints

Kept: TypeAlias = NDArray[np.intp]


def without_dominated(network: ConfigNetwork, *, look: Callable[[str], None]) -> ConfigNetwork:
    """The same network, where no config can be replaced by another at no cost, whatever the neighbours choose.

    Replacing a by b adds at most cost(b) - cost(a), plus, for each neighbour, the greatest difference that its choice
    can make. Where that is not positive, a is dropped. What is dropped may make others superfluous, so it is repeated
    until nothing changes. The least cost stays the same.

    Args:
        network: the costs.
        look: is called often, with a text that says what is done; may raise.
    """
    kept: list[Kept] = [np.arange(len(costs)) for costs in network.unary]
    neighbours: list[list[tuple[int, Ints]]] = [[] for _ in kept]
    for (u, v), costs in network.pairs.items():
        neighbours[u].append((v, costs))
        neighbours[v].append((u, costs.T))
    is_changing = True
    while is_changing:
        is_changing = False
        for variable, own in enumerate(kept):
            look("dropping dominated configs")
            near = [costs[np.ix_(own, kept[other])] for other, costs in neighbours[variable]]
            needed = _needed(network.unary[variable][own], near)
            kept[variable] = own[needed]
            is_changing = is_changing or len(kept[variable]) < len(own)
    return ConfigNetwork(
        problem=network.problem,
        members=network.members,
        configs=tuple(tuple(own[c] for c in kept[v]) for v, own in enumerate(network.configs)),
        unary=tuple(costs[kept[v]] for v, costs in enumerate(network.unary)),
        pairs={(u, v): costs[np.ix_(kept[u], kept[v])] for (u, v), costs in network.pairs.items()},
    )


def _needed(costs: Ints, near: list[Ints]) -> NDArray[np.bool_]:
    """Which configs of a variable no other one that is needed can replace."""
    is_needed = np.ones(len(costs), dtype=bool)
    for config in range(len(costs)):
        added = costs - costs[config] + sum((table - table[config]).max(axis=1) for table in near)
        is_needed[config] = False
        is_needed[config] = not (is_needed & (added <= 0)).any()
    return is_needed
