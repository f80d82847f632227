"""PolicyDescent: best responses among the configs that a policy likes, then large neighbourhood search."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from agents.adviser import Adviser, Logits, advised_space
from agents.agent import Agent
from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.large_neighbourhood import LargeNeighbourhood
from agents.ledger import Ledger
from agents.players import Player, Players
from agents.policy_file import open_network
from sim.critical_path import critical_operators
from sim.neighbourhood import Neighbourhood, Scan
from sim.problem import Problem
from sim.simulation import Simulation


class PolicyDescent(Agent):
    """Starts with a policy's own strategy, and improves it where the policy expects most.

    A sweep visits the groups of operators that share weights, then the operators, those on the critical path first, and
    prices for each the ``width`` configs with the highest logits at the strategy that the sweep began with; a group's
    logits are the sums of its members'. When a whole sweep finds nothing, the width doubles. If it reaches all configs
    and still nothing is better, the strategy is 1-opt. Then, or when the width would exceed ``widest``, large
    neighbourhood search goes on from there.

    In a space without indices (free, injective) the descent prices aligned configs only, and nothing is certified.

    Args:
        width: configs of each player that the first sweep prices.
        widest: limit of the width; None goes on to all configs, and so to the certificate.
        aligned_only: the policy judges the aligned configs of the space alone; the others come last, in random order.
        policy: a policy file; None takes an untrained network, which knows candidates by their estimated time.
        network: untrained, made after the seed is set.
        then: makes the large neighbourhood search of a seed; its ``start`` is not used.
        seed: of the network's weights, and of everything drawn.
    """

    def __init__(
        self,
        *,
        width: int,
        widest: int | None,
        aligned_only: bool,
        policy: str | None,
        network: Callable[[], GraphNetwork],
        then: Callable[..., LargeNeighbourhood],
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        if width < 1:
            raise AgentError(f"agent.width must be at least 1, not {width}")
        if widest is not None and widest < width:
            raise AgentError(f"agent.widest={widest} must be at least agent.width={width}")
        self.width, self.widest, self.aligned_only = width, widest, aligned_only
        self.policy, self._network = policy, network
        self._then = then(seed=seed)

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Roll out the policy, descend, then destroy and repair."""
        network = open_network(self.policy, self._network, self.seed)
        rng = np.random.default_rng(self.seed)
        adviser = Adviser(problem, network, advised_space(problem, aligned_only=self.aligned_only), ledger)
        adviser.rollout(ledger.start_strategy("data_parallel", rng))
        whole = Neighbourhood(problem, rng, num_samples=self._then.num_samples)
        near = whole
        if not whole.is_complete:
            near = Neighbourhood(problem, rng, num_samples=self._then.num_samples, space=adviser.space)
        players = Players(problem)
        current = ledger.simulation(ledger.best_strategy)
        is_one_opt = self._descend(ledger, adviser, near, current, players, rng)
        if is_one_opt and whole.is_complete:
            ledger.certify_one_opt(current.configs)
        self._then.destroy_and_repair(ledger, whole, current, players, rng)

    def _descend(
        self,
        ledger: Ledger,
        adviser: Adviser,
        near: Neighbourhood,
        simulation: Simulation,
        players: Players,
        rng: np.random.Generator,
    ) -> bool:
        """Sweep until nothing is better; returns whether all configs were priced."""
        ranks = _Ranks(near, rng)
        width, most = self.width, max(map(near.space.num_configs, range(len(players.operators))))
        limit = most if self.widest is None else min(self.widest, most)
        while True:
            ledger.look("asks the policy")
            logits = adviser.spread(adviser.logits(simulation), near.space)
            is_better = False
            for player in _critical_first(players, simulation):
                candidates = near.candidates(player)
                scan = Scan(simulation, player, candidates, ranks.visits(player, logits)[:width])
                is_better |= ledger.scan(scan)
            if is_better:
                continue
            if width >= limit:
                return width >= most
            width = min(2 * width, limit)


class _Ranks:
    """Orders the candidates of players by logits."""

    def __init__(self, near: Neighbourhood, rng: np.random.Generator) -> None:
        self._near, self._rng = near, rng
        self._indices: dict[Player, list[NDArray[np.int64]]] = {}

    def visits(self, player: Player, logits: Logits) -> NDArray[np.int64]:
        """The candidates, best first; equal ones in random order."""
        if len(player) == 1:
            scores = logits[player[0]]
        else:
            pairs = zip(player, self._indices_of(player), strict=True)
            scores = np.sum([logits[i][indices] for i, indices in pairs], axis=0)
        shuffled = self._rng.permutation(len(scores))
        visits: NDArray[np.int64] = shuffled[np.argsort(-scores[shuffled], kind="stable")]
        return visits

    def _indices_of(self, player: Player) -> list[NDArray[np.int64]]:
        """For each member, the indices of the candidates."""
        if player not in self._indices:
            space, rows = self._near.space, self._near.problem.rows
            candidates = self._near.candidates(player)
            self._indices[player] = [
                np.array(
                    [
                        space.index(i, rows.config(i, int(row), devices[:parts]))
                        for row, parts, devices in zip(own, candidates.parts, candidates.devices, strict=True)
                    ],
                    np.int64,
                )
                for i, own in zip(player, candidates.rows, strict=True)
            ]
        return self._indices[player]


def _critical_first(players: Players, simulation: Simulation) -> list[Player]:
    """Groups before operators, and of each those on the critical path first."""
    critical = set(critical_operators(simulation))
    return [
        player
        for pool in (players.groups, players.operators)
        for player in sorted(pool, key=lambda player: critical.isdisjoint(player))
    ]
