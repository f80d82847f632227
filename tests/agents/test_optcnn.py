"""OptCNN: elimination is exact, reduces what the paper says, and finds what the paper found."""

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any, cast

import numpy as np
import pytest
from config_networks import network_of, silent
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from random_problems import random_problem

from agents.budget import Budget
from agents.config_network import ConfigNetwork, make_network
from agents.elimination import Order, min_fill_order, minimise, node_and_edge_order
from agents.errors import AgentError
from agents.optcnn import OptCnn
from sim.graph_builder import GraphBuilder
from sim.models.alexnet import alexnet
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.models.resnet101 import resnet101
from sim.models.resnet101_linear import resnet101_linear
from sim.models.rnntc import rnntc
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategies import one_weird_trick
from sim.sync import Sync
from sim.topology import load_topology

seeds = st.integers(0, 2**32 - 1)
Orderer = Callable[[ConfigNetwork], Order]


def optcnn(**options: Any) -> OptCnn:
    defaults: dict[str, Any] = {
        "placements": "same",
        "fuse_shared": True,
        "elimination": "buckets",
        "memory_gb": 1.0,
        "seed": 0,
    }
    return OptCnn(**(defaults | options))


def problem_of(graph: OperatorGraph, num_devices: int, **options: Any) -> Problem:
    return Problem(graph, load_topology("p100_cluster", num_devices=num_devices), **options)


def brute_force_ns(network: ConfigNetwork) -> int:
    return min(map(network.cost_ns, product(*(range(len(costs)) for costs in network.unary))))


@pytest.mark.parametrize("orderer", [node_and_edge_order, min_fill_order])
@settings(max_examples=200, deadline=None)
@given(seed=seeds)
def test_elimination_finds_the_optimum_of_brute_force(orderer: Orderer, seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 7)
    pairs = [(u, v) for v in range(count) for u in range(v) if random.random() < 0.5]
    network = network_of([random.randint(1, 4) for _ in range(count)], pairs, random)
    cost_ns, choice = minimise(network, orderer(network), memory_gb=1.0, look=silent)

    assert cost_ns == network.cost_ns(choice) == brute_force_ns(network)


@pytest.mark.parametrize("fuse_shared", [True, False])
@settings(max_examples=60, deadline=None)
@given(seed=seeds)
def test_it_finds_the_cheapest_strategy_of_a_problem(fuse_shared: bool, seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random, max_operators=4, max_devices=3, variant="aligned")
    same = problem.space.dims != "O"
    try:
        network = make_network(problem, placements="same" if same else "aligned", fuse_shared=fuse_shared, look=silent)
    except AgentError:  # random operators may share weights and have no config in common
        reject()
    while np.prod([len(costs) for costs in network.unary], dtype=float) > 3000:
        problem = random_problem(random, max_operators=2, max_devices=2, variant="aligned")
        network = make_network(problem, placements="aligned", fuse_shared=False, look=silent)
    cost_ns, _ = minimise(network, min_fill_order(network), memory_gb=1.0, look=silent)

    assert cost_ns == brute_force_ns(network)


def test_sums_formed_in_chunks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    network = network_of([4] * 7, [(u, v) for v in range(7) for u in range(v)], Random(0))
    whole = minimise(network, min_fill_order(network), memory_gb=1.0, look=silent)
    monkeypatch.setattr("agents.elimination.CHUNK_ELEMENTS", 20)

    assert minimise(network, min_fill_order(network), memory_gb=1.0, look=silent) == whole


@pytest.mark.parametrize("model", [alexnet, inception_v3, resnet101, resnet101_linear])
def test_two_operators_of_a_convolutional_network_are_left(model: Callable[..., OperatorGraph]) -> None:
    graph = model(num_devices=1)
    pairs = {(edge.src, edge.dst) for edge in graph.edges}

    assert len(node_and_edge_order(network_of([1] * len(graph), pairs, Random(0))).rest) == 2


@pytest.mark.parametrize(("steps", "left"), [(2, 4), (5, 13)])
def test_a_grid_of_three_lstm_layers_hardly_reduces(steps: int, left: int) -> None:
    up = [(3 * t + layer, 3 * t + layer + 1) for t in range(steps) for layer in range(2)]
    on = [(3 * t + layer, 3 * t + layer + 3) for t in range(steps - 1) for layer in range(3)]

    assert len(node_and_edge_order(network_of([1] * 3 * steps, up + on, Random(0))).rest) == left


def test_buckets_of_a_grid_are_as_wide_as_its_layers() -> None:
    up = [(3 * t + layer, 3 * t + layer + 1) for t in range(40) for layer in range(2)]
    on = [(3 * t + layer, 3 * t + layer + 3) for t in range(39) for layer in range(3)]
    order = min_fill_order(network_of([1] * 120, up + on, Random(0)))

    assert max(len(scope) for scope in order.scopes) == 3


@pytest.mark.parametrize("scheme", ["ring", "parameter_server"])
def test_alexnet_becomes_one_weird_trick(scheme: Any) -> None:
    problem = problem_of(alexnet(num_devices=4), 4, sync=Sync(scheme=scheme, overlap=False))
    result = optcnn().search(problem, Budget(simulations=1))

    assert result.strategy == one_weird_trick(problem)


@pytest.mark.parametrize("model", [resnet101, resnet101_linear])
def test_resnet_becomes_data_parallel_but_for_its_softmax(model: Callable[..., OperatorGraph]) -> None:
    problem = problem_of(model(num_devices=4), 4)
    result = optcnn().search(problem, Budget(simulations=1))

    assert result.strategy == one_weird_trick(problem)


def test_unrolled_steps_take_one_config_if_fused() -> None:
    problem = problem_of(nmt(num_devices=16), 16)
    result = optcnn().search(problem, Budget(simulations=1))

    for group in problem.graph.weight_groups.values():
        assert len({result.strategy[member] for member in group}) == 1


def test_both_eliminations_find_the_same_cost_for_nmt() -> None:
    problem = problem_of(nmt(num_devices=4), 4)
    notes = [optcnn(elimination=name).search(problem, Budget(simulations=1)).notes for name in ("nodes", "buckets")]

    assert notes[0]["additive_ms"] == notes[1]["additive_ms"]


def test_more_freedom_never_costs_more() -> None:
    problem = problem_of(rnntc(num_devices=4), 4, sync=Sync(scheme="parameter_server"))
    costs = [
        cast(float, optcnn(**options).search(problem, Budget(simulations=1)).notes["additive_ms"])
        for options in ({}, {"placements": "aligned"}, {"placements": "all"})
    ]

    assert costs == sorted(costs, reverse=True)


def test_a_search_out_of_time_ends_with_data_parallelism() -> None:
    optcnn().search(problem_of(lenet(num_devices=2), 2), Budget(simulations=1))  # compiles
    problem = problem_of(resnet101(num_devices=16), 16)
    result = optcnn().search(problem, Budget(seconds=0.02))

    assert (result.simulations, result.cost_ns) == (0, problem.data_parallel_ns)
    assert result.seconds < 5


def test_tables_beyond_the_memory_are_refused() -> None:
    problem = problem_of(rnntc(num_devices=4), 4)

    with pytest.raises(AgentError) as error:
        optcnn(elimination="nodes", fuse_shared=False).search(problem, Budget(simulations=1))

    assert str(error.value) == (
        "the elimination keeps a table for 25 operators at once (embed_0, embed_1, embed_2, ...) of up to 6 configs "
        "each, so it needs 2.84e+11 GB, but agent.memory_gb=1; choose agent.elimination=buckets, "
        "agent.fuse_shared=true or agent.placements=same"
    )


def test_operators_that_share_weights_but_no_config_cannot_be_fused() -> None:
    builder = GraphBuilder("shared")
    builder.softmax("classes", builder.linear("words", (4, 2, 6), 6, group="table"), 6, group="table")
    builder.linear("vector", (4, 6), 6, group="table")

    with pytest.raises(AgentError) as error:
        optcnn().search(problem_of(builder.build(), 2), Budget(simulations=1))

    assert str(error.value) == (
        "operators 'words', 'classes', 'vector' share weights, but have no config in common; "
        "choose agent.fuse_shared=false"
    )


def test_a_space_of_whole_operators_has_nothing_to_choose_on_the_same_devices() -> None:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, dims="O"))

    with pytest.raises(AgentError) as error:
        optcnn().search(problem, Budget(simulations=1))

    assert str(error.value) == (
        "agent.placements=same leaves nothing to choose in space.dims=O, where each operator is whole; "
        "choose aligned or all"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"elimination": "none"}, "agent.elimination must be nodes or buckets, not none"),
        ({"memory_gb": 0.0}, "agent.memory_gb must be positive, not 0.0"),
        ({"placements": "here"}, "agent.placements must be same, aligned or all, not here"),
    ],
)
def test_useless_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(AgentError) as error:
        optcnn(**options).search(problem_of(lenet(num_devices=2), 2), Budget(simulations=1))

    assert str(error.value) == message
