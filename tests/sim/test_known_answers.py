"""Numbers that are known without a simulator: figure 7b of FlexFlow, closed forms of synchronisation."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy
from sync_problems import BANDWIDTH, LATENCY_NS, WEIGHT_BYTES, pairs, star, sync_problem

from sim.collectives import all_gather_ns, ring_all_reduce_ns, ring_through, transfer_ns, tree_all_reduce_ns
from sim.costs.table import TableCost
from sim.errors import UnknownNameError
from sim.flows import weight_interval
from sim.models.alexnet import alexnet
from sim.models.nmt import nmt
from sim.operator_graph import BYTES_PER_ELEMENT
from sim.problem import Problem
from sim.strategies import STRATEGY_NAMES, expert, named_strategy, one_weird_trick
from sim.strategy import Strategy
from sim.sync import SCHEMES, Sync
from sim.task_graph_builder import build_task_graph
from sim.topology import DeviceTopology, load_topology

GIB = 2**30
K80 = load_topology("k80_cluster")
P100 = load_topology("p100_cluster")
SYNCS = [
    Sync(),
    Sync(scheme="parameter_server"),
    Sync(overlap=False),
    Sync(scheme="parameter_server", overlap=False),
]


# Figure 7b (REFERENCE 3.2)


def nmt_bytes(strategy_name: str, state_handoff: str) -> int:
    """Communication of one iteration of NMT on 64 devices."""
    problem = Problem(nmt(num_devices=64, state_handoff=state_handoff), K80)
    strategy = {"data_parallel": problem.data_parallel, "expert": expert(problem)}[strategy_name]
    return problem.simulation(strategy).communication_bytes


@pytest.mark.parametrize("state_handoff", ["exact", "code2018"])
def test_data_parallel_nmt_moves_the_gibibytes_of_figure_7b(state_handoff: str) -> None:
    num_bytes = nmt_bytes("data_parallel", state_handoff)

    assert num_bytes == 70_684_508_160
    assert round(num_bytes / GIB, 2) == 65.83


def test_expert_nmt_moves_the_gibibytes_of_figure_7b_if_states_count_as_in_2018() -> None:
    assert round(nmt_bytes("expert", "code2018") / GIB, 1) == 24.2


def test_expert_nmt_truly_moves_less_than_figure_7b() -> None:
    assert round(nmt_bytes("expert", "exact") / GIB, 1) == 23.3


def test_states_counted_as_in_2018_add_seven_steps_of_them() -> None:
    # h and c of two layers of 64 * 64 samples, 1024 units, forward and back, where the exact count has one step.
    handed_over = 2 * 2 * 2 * 64 * 64 * 1024 * BYTES_PER_ELEMENT

    assert nmt_bytes("expert", "code2018") - nmt_bytes("expert", "exact") == 7 * handed_over


def test_expert_nmt_on_64_devices_is_slower_than_data_parallelism_as_in_figure_7a() -> None:
    problem = Problem(nmt(num_devices=64), K80)

    assert problem.simulation(expert(problem)).cost_ns > problem.data_parallel_ns


# One weird trick


@pytest.mark.parametrize("sync", SYNCS, ids=repr)
@pytest.mark.parametrize("reading", ["routed", "pairwise"])
def test_one_weird_trick_beats_data_parallelism_on_alexnet(reading: str, sync: Sync) -> None:
    topology = load_topology("p100_cluster", num_devices=4, reading=reading)
    problem = Problem(alexnet(num_devices=4), topology, sync=sync)

    assert problem.simulation(one_weird_trick(problem)).cost_ns < problem.data_parallel_ns


# Named strategies


@pytest.mark.parametrize("name", STRATEGY_NAMES)
def test_a_named_strategy_is_legal_and_has_a_price(name: str) -> None:
    problem = Problem(nmt(num_devices=16), P100)
    strategy = named_strategy(name, problem, np.random.default_rng(0))

    assert problem.simulation(strategy).cost_ns > 0


def test_an_unknown_strategy_name_is_refused() -> None:
    problem = Problem(alexnet(num_devices=4), P100)
    with pytest.raises(UnknownNameError) as caught:
        named_strategy("dataparallel", problem, np.random.default_rng(0))

    assert str(caught.value) == f"unknown strategy 'dataparallel'; choose one of {', '.join(STRATEGY_NAMES)}"


# Closed forms on an idle network: p holders, latency a, bandwidth b, N bytes (REFERENCE 2.14)


@pytest.mark.parametrize("p", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("overlap", [True, False])
def test_a_ring_takes_two_p_minus_one_steps_of_a_pth_of_the_bytes(p: int, overlap: bool) -> None:
    problem = sync_problem(pairs(p), Sync(overlap=overlap))

    assert problem.data_parallel_ns == round(2 * (p - 1) * (LATENCY_NS + WEIGHT_BYTES / (p * BANDWIDTH)))


@pytest.mark.parametrize("p", [2, 3, 4, 6])
def test_a_ring_through_a_switch_takes_the_latency_of_both_ports(p: int) -> None:
    problem = sync_problem(star(p), Sync())

    assert problem.data_parallel_ns == round(2 * (p - 1) * (2 * LATENCY_NS + WEIGHT_BYTES / (p * BANDWIDTH)))


def test_rings_on_the_same_connections_follow_one_another() -> None:
    one, three = (sync_problem(pairs(4), Sync(), num_layers=n).data_parallel_ns for n in (1, 3))

    assert three == 3 * one


@pytest.mark.parametrize("p", [2, 3, 4, 6])
def test_a_parameter_server_with_a_connection_to_each_holder_takes_one_push_and_one_pull(p: int) -> None:
    problem = sync_problem(pairs(p), Sync(scheme="parameter_server"))

    assert problem.data_parallel_ns == 2 * round(LATENCY_NS + WEIGHT_BYTES / BANDWIDTH)


@pytest.mark.parametrize("p", [2, 3, 4, 6])
def test_a_parameter_server_behind_one_port_takes_all_pushes_and_pulls_one_after_another(p: int) -> None:
    problem = sync_problem(star(p), Sync(scheme="parameter_server"))

    assert problem.data_parallel_ns == 2 * (p - 1) * round(2 * LATENCY_NS + WEIGHT_BYTES / BANDWIDTH)


@pytest.mark.parametrize("topology", [pairs(4), star(4)], ids=["pairs", "star"])
def test_a_serial_parameter_server_takes_all_pushes_and_pulls_one_after_another(topology: DeviceTopology) -> None:
    problem = sync_problem(topology, Sync(scheme="parameter_server", overlap=False))

    assert problem.data_parallel_ns == 2 * 3 * transfer_ns(topology, 0, 1, WEIGHT_BYTES)


def test_parameter_servers_are_taken_in_turn() -> None:
    problem = sync_problem(pairs(4), Sync(scheme="parameter_server"), num_layers=4)
    task_graph = build_task_graph(problem, problem.data_parallel)

    assert [task.devices for task in task_graph.tasks if task.kind == "update"] == [(0,), (1,), (2,), (3,)]


def test_an_update_takes_its_launch_and_its_bytes() -> None:
    problem = sync_problem(pairs(1), Sync())
    cost = TableCost(times={"layer0": {(1, 1): (0, 0)}}, update_launch_ns=70.0, update_ns_per_byte=0.25)
    priced = Problem(problem.graph, problem.topology, cost=cost)

    assert priced.data_parallel_ns == 70 + WEIGHT_BYTES // 4


@pytest.mark.parametrize(("p", "steps"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_a_tree_all_reduce_takes_twice_log_p_steps_of_all_bytes(p: int, steps: int) -> None:
    ring = ring_through(pairs(p), range(p))

    assert tree_all_reduce_ns(ring, 1000, 3) == 3 * 2 * steps * (LATENCY_NS + 250)


@pytest.mark.parametrize("p", [2, 4, 5])
def test_an_all_gather_takes_p_minus_one_steps_of_a_pth_of_the_bytes(p: int) -> None:
    ring = ring_through(pairs(p), range(p))

    assert all_gather_ns(ring, 4000 * p, 3) == 3 * (p - 1) * (LATENCY_NS + 1000)


def test_a_ring_crosses_between_two_nodes_once_in_each_direction() -> None:
    alternating = [0, 4, 1, 5, 2, 6, 3, 7]
    ring = ring_through(P100, alternating)

    assert ring.devices == (0, 1, 2, 3, 4, 5, 6, 7)


def test_a_ring_is_as_fast_as_its_narrowest_connection() -> None:
    ring = ring_through(P100, range(8))  # NVLink 18.5 GB/s and 1 us; network cards 10.94; PCIe 12 and 1 us

    assert (ring.bandwidth_gb_per_s, ring.latency_ns) == (10.94, 2 * 1000 + 2 * 507)
    assert ring_all_reduce_ns(ring, 10**9) == round(14 * (3014 + 10**9 / (8 * 10.94)))


# Volumes


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_synchronisation_moves_twice_each_weight_for_every_further_holder(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random, is_training=True)
    strategy = random_strategy(problem, random)
    task_graph = build_task_graph(problem, strategy)

    assert sum(task.num_bytes for task in task_graph.tasks if task.kind == "sync") == sync_bytes(problem, strategy)


def sync_bytes(problem: Problem, strategy: Strategy) -> int:
    """2 (|D| - 1) |W|, unit by unit.

    ZeRO's third stage has half as much again; BytePS 2 |W| more to and from machines between nodes.
    """
    total = 0
    for members in problem.graph.weight_groups.values():
        first = problem.graph.operators[members[0]]
        assert first.weight is not None
        for unit in range(first.num_weight_units):
            holders = {
                device
                for member in members
                for part, device in enumerate(strategy[member].devices)
                if unit in range(*weight_interval(problem.graph.operators[member], strategy[member], part))
            }
            copies = 2 * (len(holders) - 1)
            if problem.sync.scheme == "byteps" and len({problem.topology.devices[d].node for d in holders}) > 1:
                copies += 2
            if problem.sync.scheme == "zero":
                copies = (1 + problem.sync.num_gathers) * (len(holders) - 1)
            total += copies * BYTES_PER_ELEMENT * first.weight.elements_per_unit
    return total


# Serial synchronisation, as in 2018


@settings(max_examples=100)
@given(st.integers(0, 2**32 - 1))
def test_serial_synchronisation_is_added_to_the_makespan_without_it(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random, is_training=True)
    problem.sync = replace(problem.sync, overlap=False)
    strategy = random_strategy(problem, random)
    task_graph = build_task_graph(problem, strategy)
    task_graph.simulate()
    makespan = max(task.end_time for task in task_graph.tasks if task.kind not in ("sync", "update"))
    added = sum(task.exe_time for task in task_graph.tasks if task.kind in ("sync", "update"))

    assert problem.simulation(strategy).cost_ns == makespan + added


@pytest.mark.parametrize("scheme", SCHEMES)
def test_serial_synchronisation_moves_as_much_as_overlapped(scheme: str) -> None:
    graph = alexnet(num_devices=4)
    overlapped, serial = (
        Problem(graph, P100, sync=Sync(scheme=scheme, overlap=overlap))  # type: ignore[arg-type]
        for overlap in (True, False)
    )

    assert serial.simulation().communication_bytes == overlapped.simulation().communication_bytes
