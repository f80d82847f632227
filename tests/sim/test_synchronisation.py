"""Closed forms of the schemes of synchronisation on an idle network (REFERENCE 2.14), and their bytes.

p holders, q nodes, g devices in each, N bytes.
"""

import math
from dataclasses import replace
from typing import Any

import pytest
from sync_problems import BANDWIDTH, LATENCY_NS, WEIGHT_BYTES, pairs, star, sync_problem

from sim.collectives import halving_doubling_ns, hierarchical_ns, hierarchy_through, ring_through
from sim.costs.table import TableCost
from sim.errors import SimError
from sim.operator_graph import WHOLE, Dimension, Operator, OperatorGraph, Output, Weight
from sim.problem import Problem
from sim.sync import SCHEMES, Sync
from sim.task_graph_builder import build_task_graph
from sim.topology import DeviceTopology, load_topology

NVLINK, CARD = 18.5, 10.94
"""GB/s within and between nodes of p100_cluster, which have four devices and one network card."""
INNER_NS, OUTER_NS = 1000, 2 * 1000 + 2 * 507
SIZES = [1, 2, 3, 4, 6, 12]
OVERLAP = pytest.mark.parametrize("overlap", [True, False])


def cluster(num_nodes: int, *, reading: str = "routed") -> DeviceTopology:
    return load_topology("p100_cluster", num_devices=4 * num_nodes, reading=reading)


# Halving and doubling


@OVERLAP
@pytest.mark.parametrize("p", [1, 2, 4])
def test_halving_doubling_takes_two_log_p_steps_and_as_many_bytes_as_a_ring(p: int, overlap: bool) -> None:
    problem = sync_problem(pairs(p), Sync(scheme="halving_doubling", overlap=overlap))
    expected = 2 * math.log2(p) * LATENCY_NS + 2 * (p - 1) / p * WEIGHT_BYTES / BANDWIDTH

    assert problem.data_parallel_ns == round(expected)


@OVERLAP
@pytest.mark.parametrize(("p", "q"), [(3, 2), (6, 4), (12, 8)])
def test_halving_doubling_folds_further_holders_into_the_first(p: int, q: int, overlap: bool) -> None:
    problem = sync_problem(pairs(p), Sync(scheme="halving_doubling", overlap=overlap))
    expected = 2 * math.log2(q) * LATENCY_NS + 2 * (q - 1) / q * WEIGHT_BYTES / BANDWIDTH
    expected += 2 * (LATENCY_NS + WEIGHT_BYTES / BANDWIDTH)

    assert problem.data_parallel_ns == round(expected)


def test_halving_doubling_beats_the_ring_by_its_latencies() -> None:
    ring = ring_through(pairs(16), range(16))

    assert halving_doubling_ns(ring, 16 * 4) == 2 * 4 * LATENCY_NS + 2 * 15


@pytest.mark.parametrize("scheme", ["halving_doubling", "hierarchical"])
@pytest.mark.parametrize("p", SIZES)
def test_an_all_reduce_moves_as_much_as_a_ring(scheme: str, p: int) -> None:
    problem = sync_problem(star(p), Sync(scheme=scheme))  # type: ignore[arg-type]

    assert problem.simulation().communication_bytes == 2 * (p - 1) * WEIGHT_BYTES


# Hierarchies


def in_nodes(width: int, latency_ns: int = INNER_NS, bandwidth: float = NVLINK) -> float:
    """Reduce-scatter and all-gather within the nodes."""
    return 2 * ((width - 1) * latency_ns + (width - 1) / width * WEIGHT_BYTES / bandwidth)


@OVERLAP
@pytest.mark.parametrize("q", [1, 3])
def test_hierarchical_rings_share_the_network_card_of_their_node(q: int, overlap: bool) -> None:
    problem = sync_problem(cluster(q), Sync(scheme="hierarchical", overlap=overlap))
    across = 2 * (q - 1) * OUTER_NS + 2 * (q - 1) / q * (WEIGHT_BYTES / 4) / CARD * 4

    assert problem.data_parallel_ns == round(in_nodes(4) + across)


def test_hierarchical_rings_with_connections_of_their_own_run_side_by_side() -> None:
    topology, q = cluster(3, reading="pairwise"), 3
    problem = sync_problem(topology, Sync(scheme="hierarchical"))
    across = 2 * (q - 1) * OUTER_NS + 2 * (q - 1) / q * (WEIGHT_BYTES / 4) / CARD

    assert problem.data_parallel_ns == round(in_nodes(4) + across)


@pytest.mark.parametrize("p", SIZES)
def test_a_hierarchy_of_one_node_is_a_ring(p: int) -> None:
    hierarchical = sync_problem(star(p), Sync(scheme="hierarchical"))

    assert hierarchical.data_parallel_ns == sync_problem(star(p), Sync()).data_parallel_ns


def test_a_hierarchy_of_single_devices_is_a_ring() -> None:
    topology = cluster(3)
    hierarchy, ring = hierarchy_through(topology, [0, 4, 8]), ring_through(topology, [0, 4, 8])

    assert hierarchy.connections == ring.connections
    assert hierarchical_ns(hierarchy, 10**9) == round(4 * (OUTER_NS + 10**9 / (3 * CARD)))


def test_a_smaller_node_takes_part_in_every_ring_across() -> None:
    hierarchy = hierarchy_through(cluster(2), [0, 1, 2, 4])

    assert (hierarchy.width, hierarchy.outer_bandwidth_gb_per_s) == (3, CARD / 3)


def test_hierarchical_takes_fewer_latencies_than_a_ring() -> None:
    few_bytes = 48

    assert hierarchical_ns(hierarchy_through(cluster(3), range(12)), few_bytes) < 2 * 11 * INNER_NS


# BytePS


def byteps_factor(n: int, k: int) -> float:
    """Time over M / B with n GPU machines and k CPU machines (BytePS, section 4)."""
    return 2 * n * (n - 1) / (n**2 + k * n - 2 * k)


@OVERLAP
def test_byteps_with_a_cpu_machine_per_node_takes_its_optimum(overlap: bool) -> None:
    problem = sync_problem(cluster(3), Sync(scheme="byteps", overlap=overlap))
    across = 2 * OUTER_NS + byteps_factor(3, 3) * WEIGHT_BYTES / CARD

    assert problem.data_parallel_ns == round(in_nodes(4) + across)


def test_byteps_in_one_node_is_a_ring() -> None:
    byteps = sync_problem(star(4), Sync(scheme="byteps"))

    assert byteps.data_parallel_ns == sync_problem(star(4), Sync()).data_parallel_ns


def test_byteps_sends_all_bytes_of_each_node_to_spare_machines_and_back() -> None:
    problem = sync_problem(cluster(3), Sync(scheme="byteps"))

    assert problem.simulation().communication_bytes == (2 * (12 - 3) + 2 * 3) * WEIGHT_BYTES


# ZeRO


STAGES = pytest.mark.parametrize("stage", [1, 2, 3])


@OVERLAP
@STAGES
@pytest.mark.parametrize("p", SIZES)
def test_zero_scatters_once_and_gathers_once_or_in_stage_3_twice(p: int, stage: int, overlap: bool) -> None:
    problem = sync_problem(pairs(p), Sync(scheme="zero", zero_stage=stage, overlap=overlap))  # type: ignore[arg-type]
    passes = 3 if stage == 3 else 2
    simulation = problem.simulation()

    # Each of the two collectives is rounded.
    assert abs(simulation.cost_ns - passes * (p - 1) * (LATENCY_NS + WEIGHT_BYTES / (p * BANDWIDTH))) <= 1
    assert simulation.communication_bytes == passes * (p - 1) * WEIGHT_BYTES


@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_the_first_stages_of_zero_take_the_time_of_a_ring(p: int, stage: int) -> None:
    problem = sync_problem(star(p), Sync(scheme="zero", zero_stage=stage))  # type: ignore[arg-type]

    assert problem.data_parallel_ns == sync_problem(star(p), Sync()).data_parallel_ns


@OVERLAP
def test_zero_updates_a_pth_of_the_weights_between_its_collectives(overlap: bool) -> None:
    problem = sync_problem(pairs(4), Sync(scheme="zero", overlap=overlap))
    cost = TableCost(times={"layer0": {(4, 1): (0, 0)}}, update_launch_ns=70.0, update_ns_per_byte=0.25)
    slower = Problem(problem.graph, problem.topology, cost=cost, sync=problem.sync)

    assert slower.data_parallel_ns - problem.data_parallel_ns == 70 + WEIGHT_BYTES // 4 // 4


def weight_memory(num_elements: int, p: int, sync: Sync) -> int:
    """Memory that each of p holders of a weight without parts needs for it."""
    weight, dims = Weight("w", WHOLE, num_elements), (Dimension("sample", p, "S"),)
    operator = Operator("o", "custom", dims, (Output("output", (p,), (0,)),), weight=weight)
    cost = TableCost(times={"o": {(p,): (0, 0)}})
    problem = Problem(OperatorGraph([operator], name="one"), pairs(p), cost=cost, sync=sync)
    kept = problem.simulation().memory_bytes.tolist()
    assert kept == build_task_graph(problem, problem.data_parallel).memory_bytes == [kept[0]] * p
    return kept[0] - problem.saved_bytes(operator, (p,))


@OVERLAP
@STAGES
@pytest.mark.parametrize(("optimizer", "copies"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_each_stage_of_zero_splits_the_memory_of_one_more_kind(
    p: int, optimizer: str, copies: int, stage: int, overlap: bool
) -> None:
    sync = Sync(scheme="zero", zero_stage=stage, optimizer_copies=copies, overlap=overlap)  # type: ignore[arg-type]
    count = 1200
    # In bytes for each weight, all of it in fp32: weight 4, gradient 4, optimizer 4 K.
    per_weight = {1: 8 + 4 * copies / p, 2: 4 + (4 + 4 * copies) / p, 3: (8 + 4 * copies) / p}[stage]

    assert weight_memory(count, p, sync) == per_weight * count


def test_zero_with_sgd_needs_as_much_memory_as_a_ring_in_its_first_stage() -> None:
    sync = Sync(scheme="zero", zero_stage=1)

    assert weight_memory(1200, 4, sync) == weight_memory(1200, 4, replace(sync, scheme="ring"))


def test_zero_splits_weights_of_many_gigabytes() -> None:
    sync = Sync(scheme="zero", zero_stage=3, optimizer_copies=2)

    assert weight_memory(20 * 10**9, 2, sync) == 16 * 10 * 10**9


def test_pieces_of_zero_are_whole_elements() -> None:
    assert weight_memory(10, 4, Sync(scheme="zero", zero_stage=3)) == 2 * 4 * 3


@pytest.mark.parametrize("stage", [0, 4])
def test_an_unknown_stage_of_zero_is_refused(stage: int) -> None:
    with pytest.raises(SimError) as caught:
        Sync(scheme="zero", zero_stage=stage)  # type: ignore[arg-type]

    assert str(caught.value) == f"sync.zero_stage must be 1, 2 or 3, not {stage}"


@pytest.mark.parametrize("copies", [-1, 1.5, "2"])
def test_copies_that_cannot_be_counted_are_refused(copies: Any) -> None:
    with pytest.raises(SimError) as caught:
        Sync(optimizer_copies=copies)
    assert str(caught.value) == f"sync.optimizer_copies must be a whole number from 0 on, not {copies!r}"


# Summing


@OVERLAP
@pytest.mark.parametrize("p", [1, 2, 4])
@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme != "parameter_server"])
def test_every_holder_sums_what_it_receives_of_all_other_holders(scheme: Any, p: int, overlap: bool) -> None:
    without, with_sums = (
        sync_problem(pairs(p, reduce_ns_per_byte=price), Sync(scheme=scheme, overlap=overlap)) for price in (0.0, 0.5)
    )

    added = (p - 1) / p * WEIGHT_BYTES * 0.5
    assert abs(with_sums.data_parallel_ns - without.data_parallel_ns - added) <= 1
