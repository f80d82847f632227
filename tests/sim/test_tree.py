"""Exact search: branch and bound and enumeration find what pricing every strategy finds."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy
from tiny_problems import all_prices, flat, tiny_choice

from sim import topologies
from sim.additive_bounds import AdditiveBounds
from sim.kernels.tree import find_digits
from sim.mixtures import even, mixtures
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import Strategy
from sim.symmetries import automorphisms, symmetries
from sim.topology import load_topology
from sim.tree import Branching, Choice, Enumeration, SearchTree, Walk, listed_configs

seeds = st.integers(0, 2**32 - 1)
NOTHING_KNOWN = (2**62, 2**62)


def last_strategy(choice: Choice) -> Strategy:
    return Strategy(choice.problem.graph, choice.problem.topology, [own[-1] for own in choice.configs])


def run(walk: Walk, count: int = 7) -> tuple[int, int]:
    """Overflow and cost of the best strategy, priced again."""
    while not walk.is_done:
        walk.walk(count)
    problem = walk.choice.problem
    simulation = problem.simulation(Strategy(problem.graph, problem.topology, walk.best_configs))

    assert walk.best_ns == simulation.cost_ns

    return simulation.overflow_bytes, simulation.cost_ns


@settings(max_examples=150)
@given(seeds)
def test_branch_and_bound_finds_the_best_of_all_strategies(seed: int) -> None:
    choice = tiny_choice(Random(seed))
    start = last_strategy(choice)
    walk = Branching(SearchTree(choice, rounds=5), choice.problem.simulation(start), NOTHING_KNOWN, start.configs)

    assert run(walk) == min(all_prices(choice))


@settings(max_examples=60)
@given(seeds)
def test_branch_and_bound_with_an_incumbent_finds_the_best_of_all_strategies(seed: int) -> None:
    choice = tiny_choice(Random(seed))
    start = last_strategy(choice)
    simulation = choice.problem.simulation(start)
    best = simulation.overflow_bytes, simulation.cost_ns

    assert run(Branching(SearchTree(choice, rounds=5), simulation, best, start.configs)) == min(all_prices(choice))


@settings(max_examples=80)
@given(seeds)
def test_breaking_symmetries_keeps_the_optimum(seed: int) -> None:
    choice = tiny_choice(Random(seed), is_flat=True)
    start = last_strategy(choice)
    walk = Branching(SearchTree(choice, rounds=2), choice.problem.simulation(start), NOTHING_KNOWN, start.configs)

    # Without O, devices are fixed.
    assert bool(symmetries(choice.problem, choice.configs)) == ("O" in choice.problem.space.dims)
    assert run(walk) == min(all_prices(choice))


@settings(max_examples=60)
@given(seeds, st.integers(1, 4))
def test_the_parts_of_a_tree_and_of_an_enumeration_have_the_optimum_together(seed: int, count: int) -> None:
    choice = tiny_choice(Random(seed))
    start, tree = last_strategy(choice), SearchTree(choice, rounds=3)
    least = min(all_prices(choice))
    simulation = choice.problem.simulation(start)
    common = (simulation.overflow_bytes, simulation.cost_ns), start.configs
    branched = [Branching(tree, choice.problem.simulation(start), *common, (k, count)) for k in range(count)]
    enumerated = [Enumeration(choice, choice.problem.simulation(start), *common, (k, count)) for k in range(count)]

    for walks in (branched, enumerated):
        assert min(run(walk) for walk in walks) == least
    assert sum(walk.nodes for walk in enumerated) == choice.num_strategies


@settings(max_examples=80)
@given(seeds)
def test_a_bound_after_a_stop_is_at_most_the_optimum(seed: int) -> None:
    random = Random(seed)
    choice = tiny_choice(random)
    start, tree = last_strategy(choice), SearchTree(choice, rounds=random.randint(1, 4))
    # The optimum overflows the least; others that overflow more may be faster.
    simulation, (_, least_ns) = choice.problem.simulation(start), min(all_prices(choice))
    walk = Branching(tree, simulation, (simulation.overflow_bytes, simulation.cost_ns), start.configs)
    for _ in range(random.randint(0, 3)):
        walk.walk(1)
    bounds = [bound for bound in (walk.open_ns, walk.best_ns) if bound is not None]

    assert tree.root_ns <= least_ns
    assert min(bounds) <= least_ns


@settings(max_examples=200)
@given(seeds)
def test_every_mean_of_devices_and_paths_is_at_most_the_cost(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategies = [random_strategy(problem, random) for _ in range(3)]
    bounds = AdditiveBounds(problem, [[strategy[o] for strategy in strategies] for o in range(len(problem.graph))])
    choices = [[number] * len(problem.graph) for number in range(3)]
    paths = [bounds.longest_path(choice) for choice in choices]
    parts = [*range(problem.topology.num_devices), *paths]
    means = [even(parts), *(even([part]) for part in parts), *mixtures(bounds, range(len(problem.graph)), rounds=3)]

    for strategy, choice in zip(strategies, choices, strict=True):
        cost_ns = problem.simulation(strategy).cost_ns
        for mean in means:
            assert bounds.value(bounds.network(mean), choice) <= cost_ns << 12


def test_four_devices_joined_alike_have_all_renumberings() -> None:
    problem = Problem(lenet(num_devices=4), flat(4))

    assert len(list(automorphisms(problem))) == 24


def test_nodes_and_their_devices_change_places() -> None:
    topology = load_topology("k80_cluster", num_devices=8)
    problem = Problem(lenet(num_devices=8), topology)

    found = list(automorphisms(problem))

    # Two nodes, two pairs of each, two devices of each pair.
    assert len(found) == 2 * (2 * 2**2) ** 2
    assert all(sorted(renumbering) == list(range(8)) for renumbering in found)


def test_no_renumbering_keeps_the_blocks() -> None:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant="block"))
    configs = [listed_configs(problem.space, operator, 100) or [] for operator in range(len(graph))]

    assert symmetries(problem, configs) == []


def test_an_enumeration_changes_one_operator_at_a_time() -> None:
    choice = tiny_choice(Random(3))
    sizes = [len(choice.configs[o]) for o in choice.order]
    places = int(np.prod(sizes[:-1]))
    digits = np.zeros((places, len(sizes) - 1), np.int64)
    for place in range(places):
        find_digits(choice.options, place, digits[place])

    assert len({tuple(row) for row in digits.tolist()}) == places
    assert (abs(np.diff(digits, axis=0)).sum(axis=1) == 1).all()


def test_the_search_for_symmetries_ends_where_only_the_last_device_tells_the_others_apart() -> None:
    names = [f"d{number}" for number in range(14)]
    topology = topologies.explicit(
        name="one apart",
        devices=[{"name": name, "kind": "p100", "node": 0, "memory_gb": 1} for name in names],
        switches=[],
        connections=[
            {"src": a, "dst": b, "bandwidth_gb_per_s": 1.0, "latency_us": min(i, j) if 13 in (i, j) else 0}
            for i, a in enumerate(names)
            for j, b in enumerate(names)
            if i != j
        ],
    )
    problem = Problem(lenet(num_devices=1, batch_per_device=2), topology)

    assert list(automorphisms(problem)) == [[*range(14)]]
