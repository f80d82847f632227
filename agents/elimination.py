"""Elimination: the exact optimum of an additive cost, variable by variable.

Eliminating a variable replaces all costs that know it by one that does not: the minimum of their sum over its configs,
for each choice of its neighbours. The optimum of the rest is the optimum of the whole, and the variable's best config
follows from its neighbours' (OptCNN, theorem 1; Dechter, "Bucket elimination", 1999).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.config_network import ConfigNetwork, Ints
from agents.errors import AgentError

Scope: TypeAlias = tuple[int, ...]

CHUNK_ELEMENTS = 2**21
"""Sums are formed in chunks of about so many elements."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which variables are eliminated one by one, and what that leads to.

    Attributes:
        variables: in the order of their elimination.
        scopes: for each of them, its neighbours at that moment, ascending.
        rest: the other variables, whose choices are enumerated together at the end.
    """

    variables: tuple[int, ...]
    scopes: tuple[Scope, ...]
    rest: Scope


class _Neighbours:
    """Which variables share a cost while others are eliminated."""

    def __init__(self, network: ConfigNetwork) -> None:
        self.sets: dict[int, set[int]] = {variable: set() for variable in range(len(network))}
        for u, v in network.pairs:
            self.sets[u].add(v)
            self.sets[v].add(u)

    def eliminate(self, variable: int) -> Scope:
        """Join the neighbours of a variable and forget it; returns them."""
        own = self.sets.pop(variable)
        for neighbour in own:
            self.sets[neighbour] |= own
            self.sets[neighbour] -= {neighbour, variable}
        return tuple(sorted(own))

    def fill(self, variable: int) -> int:
        """How many pairs of neighbours its elimination would join."""
        return sum(b not in self.sets[a] for a, b in combinations(self.sets[variable], 2))


def node_and_edge_order(network: ConfigNetwork) -> Order:
    """OptCNN's: a node with exactly one edge in and one edge out, as long as there is one.

    Edges lead to later variables. Edge elimination, which adds up parallel edges, leaves no choice and is done at once.
    """
    neighbours, variables, scopes = _Neighbours(network), [], []
    candidates = list(range(len(network)))
    while candidates:
        variable = candidates.pop(0)
        own = neighbours.sets.get(variable, set())
        if len(own) == 2 and min(own) < variable < max(own):
            variables.append(variable)
            scopes.append(neighbours.eliminate(variable))
            candidates += [other for other in scopes[-1] if other not in candidates]
    return Order(tuple(variables), tuple(scopes), tuple(neighbours.sets))


def min_fill_order(network: ConfigNetwork) -> Order:
    """All variables; next comes the one that joins the fewest pairs of neighbours, then that of the smallest table."""
    neighbours, variables, scopes = _Neighbours(network), [], []
    sizes = [len(costs) for costs in network.unary]
    while neighbours.sets:
        variable = min(
            neighbours.sets,
            key=lambda v: (neighbours.fill(v), sizes[v] * math.prod(sizes[u] for u in neighbours.sets[v]), v),
        )
        variables.append(variable)
        scopes.append(neighbours.eliminate(variable))
    return Order(tuple(variables), tuple(scopes), ())


def table_bytes(network: ConfigNetwork, scopes: Iterable[Scope]) -> int:
    """Size of the costs and choices that are kept for some scopes."""
    itemsize = np.dtype(np.int64).itemsize + np.dtype(np.int32).itemsize
    return sum(itemsize * math.prod(len(network.unary[variable]) for variable in scope) for scope in scopes)


def minimise(
    network: ConfigNetwork, order: Order, *, memory_gb: float, look: Callable[[str], None]
) -> tuple[int, list[int]]:
    """A choice of least cost.

    Args:
        network: the costs.
        order: of elimination.
        memory_gb: what the tables may take, in 10**9 bytes.
        look: is called often, with a text that says how far the elimination is; may raise.

    Returns:
        Cost in ns, and the number of each variable's config.

    Raises:
        AgentError: the tables need more memory.
    """
    _check_memory(network, order, memory_gb)
    factors: dict[Scope, Ints] = {(variable,): costs for variable, costs in enumerate(network.unary)}
    factors |= {pair: costs for pair, costs in network.pairs.items()}  # noqa: C416 (mypy: dict is invariant)
    best: list[NDArray[np.int32]] = []
    for number, (variable, scope) in enumerate(zip(order.variables, order.scopes, strict=True)):
        stage = f"eliminating operator {number + 1} of {len(network)}"
        look(stage)
        own = {known: factors.pop(known) for known in list(factors) if variable in known}
        costs, arguments = _minimum(network, own, scope, variable, partial(look, stage))
        best.append(arguments)
        factors[scope] = factors[scope] + costs if scope in factors else costs
    choice = [0] * len(network)
    rest = sum(
        (_spread(costs, known, order.rest) for known, costs in factors.items()),
        start=np.zeros([len(network.unary[variable]) for variable in order.rest], np.int64),
    )
    for variable, c in zip(order.rest, np.unravel_index(int(rest.argmin()), rest.shape), strict=True):
        choice[variable] = int(c)
    for variable, scope, arguments in reversed(list(zip(order.variables, order.scopes, best, strict=True))):
        choice[variable] = int(arguments[tuple(choice[neighbour] for neighbour in scope)])
    return int(rest.min()), choice


def _minimum(
    network: ConfigNetwork, own: dict[Scope, Ints], scope: Scope, variable: int, look: Callable[[], None]
) -> tuple[Ints, NDArray[np.int32]]:
    """Least sum of some costs over a variable's configs and the first config that reaches it, for each choice."""
    shape = [len(network.unary[neighbour]) for neighbour in scope]
    size = len(network.unary[variable])
    aligned = [_spread(costs, known, (*scope, variable)) for known, costs in own.items()]
    costs, arguments = np.empty(shape, np.int64), np.empty(shape, np.int32)
    # Leading axes are walked through, so that what is summed at once stays small.
    lead = 0
    while lead < len(shape) and math.prod(shape[lead:]) * size > CHUNK_ELEMENTS:
        lead += 1
    for index in np.ndindex(*shape[:lead]):
        look()
        total = np.zeros([*shape[lead:], size], np.int64)
        for table in aligned:
            total += table[tuple(i if table.shape[axis] > 1 else 0 for axis, i in enumerate(index))]
        arguments[index] = total.argmin(axis=-1)
        costs[index] = total.min(axis=-1)
    return costs, arguments


def _spread(costs: Ints, known: Scope, scope: Scope) -> Ints:
    """Costs with an axis for each variable of a scope: of length 1 for those that they do not know."""
    order = [known.index(variable) for variable in scope if variable in known]
    shape = [costs.shape[known.index(variable)] if variable in known else 1 for variable in scope]
    return costs.transpose(order).reshape(shape)


def _check_memory(network: ConfigNetwork, order: Order, memory_gb: float) -> None:
    needed = table_bytes(network, [*order.scopes, order.rest])
    if needed <= memory_gb * 1e9:
        return
    scope = max([*order.scopes, order.rest], key=lambda known: table_bytes(network, [known]))
    operators, largest = network.problem.graph.operators, max(len(network.unary[variable]) for variable in scope)
    names = [operators[network.members[variable][0]].name for variable in scope]
    listed = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    raise AgentError(
        f"the elimination keeps a table for {len(names)} operators at once ({listed}) of up to {largest} configs each, "
        f"so it needs {needed / 1e9:.3g} GB, but agent.memory_gb={memory_gb:g}; choose agent.elimination=buckets, "
        "agent.fuse_shared=true or agent.placements=same"
    )
