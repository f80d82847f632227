"""CostToGo: what each choice adds to a sum at least, if the operators choose one after the other."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.additive_bounds import Network
from sim.degree_bounds import Ints

MAX_ENTRIES = 2**20
"""Of a table; costs that together need a larger one are minimised apart, which weakens the bound."""

Scope = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """What the choice of one operator adds to the bounds.

    Attributes:
        depth: place of the operator in the order.
        scope: places of earlier operators, ascending, whose choices matter.
        added: (C of each of the scope, C of the operator, K), nowhere negative, and 0 for some choice.
    """

    depth: int
    scope: Scope
    added: Ints


def cost_to_go(networks: Sequence[Network], order: Sequence[int]) -> tuple[Ints, list[Table]]:
    """Bounds of all networks that rise as operators choose (bucket elimination; Dechter 1999).

    The last operator of the order is eliminated first: the minimum over its choices of all that it costs is a table
    over earlier operators, and what a choice costs beyond that is what it adds. So the least sum, plus what is added
    by the choices made, is the least sum of all that agree with these choices. Tables that would be too large are
    split (mini-buckets); then it is at most that.

    Args:
        networks: K sums over the same operators.
        order: positions of the operators in the order of their choices.

    Returns:
        The least sums (K,) and what is added.
    """
    place = {operator: depth for depth, operator in enumerate(order)}
    buckets: list[dict[Scope, Ints]] = [{} for _ in order]
    root = np.zeros(len(networks), np.int64)

    def put(scope: Scope, costs: Ints) -> None:
        bucket = buckets[scope[-1]]
        bucket[scope] = bucket[scope] + costs if scope in bucket else costs

    for depth, operator in enumerate(order):
        put((depth,), np.stack([network.unary[operator] for network in networks], axis=-1))
    for u, v in dict.fromkeys(pair for network in networks for pair in network.pairs):
        known = next(network.pairs[u, v] for network in networks if (u, v) in network.pairs)
        costs = np.stack([network.pairs.get((u, v), np.zeros_like(known)) for network in networks], axis=-1)
        put((place[u], place[v]) if place[u] < place[v] else (place[v], place[u]), _ordered(costs, place[u], place[v]))
    sizes = [len(networks[0].unary[operator]) for operator in order]
    tables = []
    for depth in reversed(range(len(order))):
        for scope, factors in _mini_buckets(buckets[depth], sizes, len(networks)):
            total = sum(_spread(costs, known, scope) for known, costs in factors)
            assert isinstance(total, np.ndarray)
            least = total.min(axis=-2)
            tables.append(Table(depth, scope[:-1], total - least[..., None, :]))
            if len(scope) > 1:
                put(scope[:-1], least)
            else:
                root += least
    return root, tables[::-1]


def _ordered(costs: Ints, first: int, second: int) -> Ints:
    return costs if first < second else costs.swapaxes(0, 1)


def _mini_buckets(
    bucket: dict[Scope, Ints], sizes: Sequence[int], num_networks: int
) -> list[tuple[Scope, list[tuple[Scope, Ints]]]]:
    """Groups of a bucket's costs that are minimised together, and what they know."""
    groups: list[tuple[Scope, list[tuple[Scope, Ints]]]] = []
    for scope, costs in sorted(bucket.items(), key=lambda item: (-len(item[0]), item[0])):
        for number, (known, members) in enumerate(groups):
            joint = tuple(sorted({*known, *scope}))
            if joint == known or num_networks * math.prod(sizes[depth] for depth in joint) <= MAX_ENTRIES:
                groups[number] = joint, [*members, (scope, costs)]
                break
        else:
            groups.append((scope, [(scope, costs)]))
    return groups


def _spread(costs: Ints, known: Scope, scope: Scope) -> Ints:
    """Costs with an axis for each place of a scope: of length 1 for those that they do not know."""
    shape = [costs.shape[known.index(depth)] if depth in known else 1 for depth in scope]
    return costs.reshape(*shape, costs.shape[-1])
