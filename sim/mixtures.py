"""mixtures: weighted means of the times of devices and paths whose least sums are large."""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import linprog

from sim.additive_bounds import WEIGHT_BITS, AdditiveBounds, Network, Path
from sim.cost_to_go import cost_to_go
from sim.degree_bounds import Ints

TOLERANCE = 2e-4
"""The method ends when the least sums are so close to what the linear program hopes for; weights are rounded."""

Mixture = list[tuple[int, int | Path]]
"""Weights, and the devices and paths that have them."""


def mixtures(
    bounds: AdditiveBounds, order: Sequence[int], *, rounds: int, look: Callable[[], None] = lambda: None
) -> list[Mixture]:
    """Means for a search: each device, all together, the paths found, and what cutting planes lead to.

    The greatest least sum over all weights is approached by Kelley's method: a linear program knows the times of the
    choices found so far, and proposes the weights that are best for these; the choice of least sum for the proposed
    weights comes next, and its longest path.

    Args:
        bounds: the times.
        order: of the operators.
        rounds: of the method.
        look: is called often; may raise.
    """
    whole, num_devices = 1 << WEIGHT_BITS, bounds.num_devices
    kept: list[Mixture] = [even([*range(num_devices)])]
    parts: list[int | Path] = [*range(num_devices)]
    choices = [least_choice(bounds.network(kept[0]), order)]
    networks: list[Network] = [bounds.network([(whole, part)]) for part in parts]
    found: list[tuple[float, Mixture]] = []
    for _ in range(rounds):
        look()
        path = bounds.longest_path(choices[-1])
        if path not in parts:
            parts.append(path)
            networks.append(bounds.network([(whole, path)]))
        highest, mixture = _best_weights(bounds, parts, networks, choices)
        network = bounds.network(mixture)
        choice = least_choice(network, order)
        found.append((bounds.value(network, choice) / whole, mixture))
        is_close = max(value for value, _ in found) >= (1 - TOLERANCE) * highest
        if is_close and bounds.longest_path(choice) in parts:
            break
        choices.append(choice)
    found.sort(key=lambda entry: -entry[0])
    kept += [mixture for _, mixture in found]
    kept += [[(whole, part)] for part in parts[num_devices:]]
    return list({tuple(mixture): mixture for mixture in kept}.values())


def even(parts: Sequence[int | Path]) -> Mixture:
    """Equal weights."""
    share, rest = divmod(1 << WEIGHT_BITS, len(parts))
    return [(share + (number < rest), part) for number, part in enumerate(parts) if share + (number < rest)]


def least_choice(network: Network, order: Sequence[int]) -> list[int]:
    """A choice of least sum: what adds nothing, one operator after the other."""
    _, tables = cost_to_go([network], order)
    chosen: list[int] = []
    for depth in range(len(order)):
        added: Ints = sum(
            (
                table.added[tuple(chosen[place] for place in table.scope)][:, 0]
                for table in tables
                if table.depth == depth
            ),
            start=np.zeros(len(network.unary[order[depth]]), np.int64),
        )
        chosen.append(int(added.argmin()))
    choice = [0] * len(order)
    for depth, operator in enumerate(order):
        choice[operator] = chosen[depth]
    return choice


def _best_weights(
    bounds: AdditiveBounds, parts: Sequence[int | Path], networks: Sequence[Network], choices: Sequence[Sequence[int]]
) -> tuple[float, Mixture]:
    """The greatest least sum over some choices, ns, and the weights that reach it, rounded."""
    whole = 1 << WEIGHT_BITS
    times = np.array([[bounds.value(network, choice) / whole for network in networks] for choice in choices])
    scale = max(times.max(), 1.0)
    # Maximise t, where t is at most the mean of each choice's times.
    program = linprog(
        np.array([0.0] * len(parts) + [-1.0]),
        A_ub=np.hstack([-times / scale, np.ones((len(choices), 1))]),
        b_ub=np.zeros(len(choices)),
        A_eq=np.array([[1.0] * len(parts) + [0.0]]),
        b_eq=np.ones(1),
        method="highs",
    )
    exact = np.maximum(program.x[:-1], 0) * whole
    weights = np.floor(exact).astype(np.int64)
    for number in np.argsort(weights - exact)[: whole - int(weights.sum())]:
        weights[number] += 1
    mixture = [(int(weight), part) for weight, part in zip(weights, parts, strict=True) if weight > 0]
    return scale * float(program.x[-1]), mixture
