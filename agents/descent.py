"""descent: sweeps of best responses, until no player has a better one."""

from collections.abc import Iterator, Sequence

import numpy as np

from agents.ledger import Ledger
from agents.players import Player
from sim.neighbourhood import Neighbourhood
from sim.simulation import Simulation


def descend(
    ledger: Ledger,
    near: Neighbourhood,
    simulation: Simulation,
    rng: np.random.Generator,
    *stages: Sequence[Player],
) -> None:
    """Sweep over the players until none has a better response to the others.

    Args:
        ledger: pays.
        near: knows the candidates.
        simulation: what is improved.
        rng: draws the order of the players.
        stages: players; those of a stage come before the next one's, each stage in random order.

    Raises:
        BudgetExhausted: nothing is left.
    """
    num_players = sum(map(len, stages))
    settled: set[Player] = set()
    while len(settled) < num_players:
        for player in _ordered(stages, rng):
            if player in settled:
                continue
            if ledger.scan(near.scan(simulation, player)):
                settled.clear()
            settled.add(player)


def _ordered(stages: Sequence[Sequence[Player]], rng: np.random.Generator) -> Iterator[Player]:
    for players in stages:
        for number in rng.permutation(len(players)).tolist():
            yield players[number]
