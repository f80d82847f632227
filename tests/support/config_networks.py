"""Networks of configs with random costs, which belong to no problem."""

from collections.abc import Iterable
from random import Random
from typing import cast

import numpy as np

from agents.config_network import ConfigNetwork
from sim.problem import Problem
from sim.strategy import ParallelConfig


def silent(stage: str) -> None:
    """Nobody looks."""


def network_of(
    sizes: Iterable[int], pairs: Iterable[tuple[int, int]], random: Random, *, most: int | None = None
) -> ConfigNetwork:
    """Random costs; few values, so that ties are many."""
    rng, own = np.random.default_rng(random.randrange(2**32)), tuple(sizes)
    most = random.choice([2, 10, 1000]) if most is None else most
    return ConfigNetwork(
        problem=cast(Problem, None),
        members=tuple((variable,) for variable in range(len(own))),
        configs=tuple(tuple(ParallelConfig((1,), (number,)) for number in range(size)) for size in own),
        unary=tuple(rng.integers(most, size=size) for size in own),
        pairs={(u, v): rng.integers(most, size=(own[u], own[v])) for u, v in pairs},
    )
