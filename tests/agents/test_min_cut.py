"""Min-cut: balanced pieces, few links between them."""

from random import Random

import numpy as np
import pytest
from config_networks import silent
from hypothesis import given
from hypothesis import strategies as st

from agents.budget import Budget
from agents.errors import AgentError
from agents.min_cut import MinCut, bisect, partition
from sim.models.nmt import nmt
from sim.problem import Problem
from sim.topology import load_topology


def two_cliques(order: list[int]) -> np.ndarray:
    """Vertices 0 to 3 and 4 to 7, all joined within, one weak link between; renumbered."""
    links = np.kron(np.eye(2), np.ones((4, 4))) - np.eye(8)
    links[0, 4] = links[4, 0] = 0.5
    return links[np.ix_(order, order)]


@given(st.permutations(range(8)))
def test_two_cliques_are_parted_whatever_their_order(order: list[int]) -> None:
    is_left = bisect(np.ones(8), two_cliques(order), 0.5, imbalance=0.3)

    assert {frozenset(v for v, left in zip(order, is_left, strict=True) if left == side) for side in (True, False)} == {
        frozenset(range(4)),
        frozenset(range(4, 8)),
    }


@given(st.integers(0, 2**32 - 1))
def test_halves_have_their_share_but_for_the_heaviest_vertex(seed: int) -> None:
    random = Random(seed)
    count, share = random.randint(1, 12), random.choice([0.25, 0.5])
    rng = np.random.default_rng(seed)
    links = rng.integers(0, 5, size=(count, count)).astype(float)
    weights = rng.integers(1, 10, size=count).astype(float)
    is_left = bisect(weights, links + links.T, share, imbalance=0.05)

    assert abs(weights @ np.array(is_left) - share * weights.sum()) <= max(weights.max(), 0.05 * weights.sum())


def test_a_chain_is_cut_into_runs() -> None:
    links = np.eye(12, k=1) + np.eye(12, k=-1)

    parts = partition(np.ones(12), links, 3, imbalance=0.0, look=silent)

    assert parts == [0] * 4 + [1] * 4 + [2] * 4


def test_more_parts_than_vertices_leave_some_empty() -> None:
    assert sorted(partition(np.ones(2), np.zeros((2, 2)), 4, imbalance=0.05, look=silent)) in ([0, 2], [1, 3], [1, 2])


def test_nmt_is_spread_over_all_devices() -> None:
    problem = Problem(nmt(num_devices=4), load_topology("p100_cluster", num_devices=4))
    result = MinCut(imbalance=0.05, seed=0).search(problem, Budget(simulations=1))

    assert {config.devices for config in result.strategy.configs} == {(0,), (1,), (2,), (3,)}
    assert result.simulations == 1


def test_a_negative_imbalance_is_refused() -> None:
    with pytest.raises(AgentError) as error:
        MinCut(imbalance=-0.1, seed=0)

    assert str(error.value) == "agent.imbalance must not be negative, not -0.1"
