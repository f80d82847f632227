"""MinCut: a balanced partition of the operator graph with little communication between its pieces."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from agents.agent import Agent
from agents.errors import AgentError
from agents.ledger import Ledger
from agents.placement import operator_work, placed
from sim.problem import Problem

Weights = NDArray[np.float64]


class MinCut(Agent):
    """Places whole operators by recursive bisection of the operator graph, and prices the one strategy found.

    Paper: Kernighan, Lin, "An Efficient Heuristic Procedure for Partitioning Graphs", Bell System Technical Journal
    1970; Fiduccia, Mattheyses, "A Linear-Time Heuristic for Improving Network Partitions", DAC 1982 (single moves);
    Pellegrini, "Static Mapping by Dual Recursive Bipartitioning of Process and Architecture Graphs", SHPCC 1994
    (operators and devices are halved together, so that the first cuts fall between nodes).

    It is the role of Scotch and MinCut in the tables of Mirhoseini et al. 2017: every device gets about the same work,
    and the messages that cross are few. When anything runs is not considered.

    Deviations: cuts start from halves of the topological order, not from random ones; messages count by the mean
    time of their transfers, forward and mirrored.

    Args:
        imbalance: how far the work of a half may be from its share, as a part of the whole; at least the heaviest
            operator is allowed.
        seed: of nothing: the result is always the same.
    """

    def __init__(self, *, imbalance: float, seed: int) -> None:
        super().__init__(seed=seed)
        if not imbalance >= 0:
            raise AgentError(f"agent.imbalance must not be negative, not {imbalance}")
        self.imbalance = imbalance

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Price operators and messages, partition, and simulate the placement."""
        work = operator_work(problem, ledger.look)
        links = np.zeros((len(problem.graph), len(problem.graph)))
        for (src, dst), delay in zip(work.edges, work.mean_delays.tolist(), strict=True):
            links[src, dst] += delay
            links[dst, src] += delay
        devices = partition(
            work.mean_times, links, problem.topology.num_devices, imbalance=self.imbalance, look=ledger.look
        )
        is_cut = np.asarray(devices)[:, None] != np.asarray(devices)[None, :]
        ledger.note("cut_ms", float((links * is_cut).sum()) / 2 / 1e6)
        ledger.simulation(placed(problem, devices))


def partition(
    weights: Weights, links: Weights, num_parts: int, *, imbalance: float, look: Callable[[str], None]
) -> list[int]:
    """The part of each vertex, by recursive bisection.

    Args:
        weights: (n,) of the vertices, in an order of which neighbours are likely to belong together.
        links: (n, n) symmetric weights of the edges.
        num_parts: how many parts.
        imbalance: see ``MinCut``.
        look: is called often, with a text that says what is done; may raise.
    """
    parts = [0] * len(weights)
    open_pieces = [(list(range(len(weights))), 0, num_parts)]
    while open_pieces:
        vertices, first, count = open_pieces.pop()
        if count == 1 or not vertices:
            for vertex in vertices:
                parts[vertex] = first
            continue
        look("cutting the operator graph")
        half = count // 2
        is_left = bisect(weights[vertices], links[np.ix_(vertices, vertices)], half / count, imbalance=imbalance)
        left = [vertex for vertex, chosen in zip(vertices, is_left, strict=True) if chosen]
        right = [vertex for vertex, chosen in zip(vertices, is_left, strict=True) if not chosen]
        open_pieces += [(left, first, half), (right, first + half, count - half)]
    return parts


def bisect(weights: Weights, links: Weights, share: float, *, imbalance: float) -> Sequence[bool]:
    """Which vertices go left, so that these have about a share of the weight and few links are cut.

    Starts with the first vertices, then moves one at a time, the best first and each once, and keeps the best of
    all states on the way; repeats as long as that helps.
    """
    target, allowed = share * weights.sum(), max(imbalance * weights.sum(), weights.max())
    is_left = np.cumsum(weights) - weights / 2 < target
    while True:
        best, best_cut = is_left, _cut(links, is_left)
        state, is_free = is_left.copy(), np.ones(len(weights), bool)
        for _ in range(len(weights)):
            side = np.where(state, 1.0, -1.0)
            # Moving a vertex saves its links to the other side and cuts those to its own.
            gains = -(links @ side) * side
            excess = np.abs(weights @ state - target - np.where(state, weights, -weights))
            gains[~is_free | (excess > allowed)] = -np.inf
            vertex = int(gains.argmax())
            if gains[vertex] == -np.inf:
                break
            state[vertex], is_free[vertex] = not state[vertex], False
            cut = _cut(links, state)
            if cut < best_cut:
                best, best_cut = state.copy(), cut
        if best is is_left:
            return is_left.tolist()
        is_left = best


def _cut(links: Weights, is_left: NDArray[np.bool_]) -> float:
    """Weight of the links between the two sides."""
    return float(links[np.ix_(is_left, ~is_left)].sum())
