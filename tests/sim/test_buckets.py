"""Gradient buckets: what is in them, what is synchronised together, and when; equality with the oracle is in
``test_delta``.
"""

from collections.abc import Sequence

import pytest
from snapshot import recomputed, simulated
from sync_problems import BANDWIDTH, LATENCY_NS, WEIGHT_BYTES, pairs, star, sync_problem

from sim import tables
from sim.bounds import lower_bound_ns
from sim.buckets import weight_buckets
from sim.costs.table import TableCost
from sim.errors import SimError
from sim.models.inception_v3 import inception_v3
from sim.operator_graph import WHOLE, Dimension, Input, Operator, OperatorGraph, Output, Weight, Window
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.sync import SCHEMES, Sync
from sim.task_graph import Task
from sim.task_graph_builder import build_task_graph
from sim.topology import load_topology

OVERLAP = pytest.mark.parametrize("overlap", [True, False])
SCHEME = pytest.mark.parametrize("scheme", SCHEMES)
DIMS, OUTPUTS = (Dimension("sample", 4, "S"),), (Output("output", (4,), (0,)),)
MIB = 2**20


def chain(*weights_mib: float) -> OperatorGraph:
    """Operators that read each other, with so many MiB of weights."""
    operators = []
    for number, size in enumerate(weights_mib):
        reads = (Input(operators[-1].name, 0, (Window(0),)),) if operators else ()
        weight = Weight(f"weight{number}", WHOLE, int(size * MIB) // 4)
        operators.append(Operator(f"o{number}", "custom", DIMS, OUTPUTS, reads, weight))
    return OperatorGraph(operators, name="chain")


def chain_problem(sync: Sync, *, num_operators: int = 3, num_devices: int = 4) -> Problem:
    """Operators of 1 MiB of weights, whose tasks take 1 ms."""
    graph = chain(*[1.0] * num_operators)
    times = {operator.name: {(n,): (10**6, 10**6) for n in (1, 2, 4)} for operator in graph.operators}
    cost = TableCost(times={**times}, update_launch_ns=100, update_ns_per_byte=1)
    return Problem(graph, pairs(num_devices), cost=cost, sync=sync)


def tasks_of(problem: Problem, configs: Sequence[Sequence[int]], kind: str) -> list[Task]:
    """Simulated tasks of one kind; operators are split into as many samples as they have devices."""
    parts = [ParallelConfig((len(devices),), tuple(devices)) for devices in configs]
    task_graph = build_task_graph(problem, Strategy(problem.graph, problem.topology, parts))
    task_graph.simulate()
    return [task for task in task_graph.tasks if task.kind == kind]


# What is in a bucket


def test_without_buckets_each_group_is_alone() -> None:
    assert weight_buckets(chain(1, 2, 3), None) == ((0,), (1,), (2,))


def test_buckets_are_filled_from_the_last_layer_on() -> None:
    assert weight_buckets(chain(1, 1, 1, 1, 1), 2) == ((4, 3), (2, 1), (0,))


def test_a_bucket_may_be_full_to_the_last_byte() -> None:
    assert weight_buckets(chain(0.5, 1.5), 2) == ((1, 0),)


def test_a_group_larger_than_a_bucket_is_alone() -> None:
    assert weight_buckets(chain(1, 5, 1, 1), 2) == ((3, 2), (1,), (0,))


def test_shared_weights_are_complete_with_the_gradient_of_their_first_operator() -> None:
    weights = [Weight("embedding", WHOLE, 1), Weight("layer", WHOLE, 1), Weight("embedding", WHOLE, 1)]
    operators = [Operator(f"o{i}", "custom", DIMS, OUTPUTS, (), weight) for i, weight in enumerate(weights)]

    assert weight_buckets(OperatorGraph(operators, name="tied"), 1e-6) == ((1,), (0,))


# Closed forms on an idle network: N bytes in each of three layers, p holders


@OVERLAP
@pytest.mark.parametrize("p", [1, 2, 4, 6])
def test_a_bucket_is_one_ring_with_the_bytes_of_all(p: int, overlap: bool) -> None:
    problem = sync_problem(pairs(p), Sync(overlap=overlap, bucket_mb=25), num_layers=3)
    expected = 2 * (p - 1) * LATENCY_NS + 2 * (p - 1) / p * 3 * WEIGHT_BYTES / BANDWIDTH

    assert problem.data_parallel_ns == round(expected)


@OVERLAP
@pytest.mark.parametrize("p", [1, 2, 4, 6])
def test_a_bucket_of_zero_is_scattered_and_gathered_once(p: int, overlap: bool) -> None:
    problem = sync_problem(pairs(p), Sync(scheme="zero", overlap=overlap, bucket_mb=25), num_layers=3)
    expected = 2 * round((p - 1) * LATENCY_NS + (p - 1) / p * 3 * WEIGHT_BYTES / BANDWIDTH)

    assert problem.data_parallel_ns == expected


def test_a_bucket_has_one_server_for_its_holders() -> None:
    problem = sync_problem(pairs(4), Sync(scheme="parameter_server", bucket_mb=25), num_layers=3)

    # Holders have connections of their own, so all push, then pull, at the same time.
    assert problem.data_parallel_ns == 2 * round(LATENCY_NS + 3 * WEIGHT_BYTES / BANDWIDTH)


@OVERLAP
@pytest.mark.parametrize("scheme", ["ring", "halving_doubling", "hierarchical", "byteps", "zero"])
def test_layers_in_a_bucket_take_as_long_as_one_of_their_size(scheme: str, overlap: bool) -> None:
    topology = load_topology("p100_cluster", num_devices=12)
    alone = sync_problem(topology, Sync(scheme=scheme, overlap=overlap), num_layers=1)  # type: ignore[arg-type]
    twice = sync_problem(topology, Sync(scheme=scheme, overlap=overlap), num_layers=2)  # type: ignore[arg-type]
    bucket = Sync(scheme=scheme, overlap=overlap, bucket_mb=25)  # type: ignore[arg-type]
    saved_ns = [
        num_layers * alone.data_parallel_ns - sync_problem(topology, bucket, num_layers=num_layers).data_parallel_ns
        for num_layers in (1, 2, 3)
    ]

    assert twice.data_parallel_ns == 2 * alone.data_parallel_ns
    # The latencies of each further layer.
    assert saved_ns[0] == 0 < saved_ns[1]
    assert abs(saved_ns[2] - 2 * saved_ns[1]) <= 4


@OVERLAP
@SCHEME
def test_buckets_change_neither_bytes_nor_memory(scheme: str, overlap: bool) -> None:
    topology = load_topology("p100_cluster", num_devices=4)
    simulations = [
        Problem(
            inception_v3(num_devices=4, batch_per_device=1),
            topology,
            sync=Sync(scheme=scheme, overlap=overlap, optimizer_copies=2, zero_stage=3, bucket_mb=size),  # type: ignore[arg-type]
        ).simulation()
        for size in (None, 25)
    ]
    kept = [(s.communication_bytes, s.memory_bytes.tolist()) for s in simulations]

    assert kept[0] == kept[1]
    assert simulations[0].num_tasks > (simulations[1].num_tasks if overlap else 0)


# What is synchronised together, and when


def test_a_bucket_is_ready_with_the_last_of_its_gradients() -> None:
    (sync,) = tasks_of(chain_problem(Sync(bucket_mb=3)), [range(4)] * 3, "sync")

    assert sync.ready_time == 6 * 10**6


def test_an_earlier_bucket_overlaps_with_the_backward_pass() -> None:
    first, second = tasks_of(chain_problem(Sync(bucket_mb=2)), [range(4)] * 3, "sync")

    # Three forward tasks; the bucket of the last two layers, then that of the first one.
    assert (first.ready_time, second.ready_time) == (5 * 10**6, 6 * 10**6)


def test_layers_on_other_devices_are_synchronised_apart() -> None:
    syncs = tasks_of(chain_problem(Sync(bucket_mb=3)), [range(4), (0, 1), range(4)], "sync")

    assert [task.num_bytes for task in syncs] == [2 * 3 * 2 * MIB, 2 * 1 * MIB]


def test_the_order_of_its_holders_is_no_matter() -> None:
    syncs = tasks_of(chain_problem(Sync(bucket_mb=3)), [(0, 1), (1, 0), (0, 1)], "sync")

    assert [task.num_bytes for task in syncs] == [2 * 1 * 3 * MIB]


def test_a_device_updates_all_of_a_bucket_at_once() -> None:
    updates = tasks_of(chain_problem(Sync(bucket_mb=3)), [range(4), (0, 1), range(4)], "update")

    assert sorted(task.exe_time for task in updates) == [100 + 2 * MIB] * 2 + [100 + 3 * MIB] * 2


@OVERLAP
@pytest.mark.parametrize("scheme", ["ring", "parameter_server"])
def test_the_lower_bound_counts_on_what_a_bucket_saves(scheme: str, overlap: bool) -> None:
    sync = Sync(scheme=scheme, overlap=overlap, bucket_mb=25)  # type: ignore[arg-type]
    free = sync_problem(star(4), sync, num_layers=3)
    cost = TableCost(times={f"layer{i}": {(4, 1): (0, 0)} for i in range(3)}, update_launch_ns=10.0**9)
    problem = Problem(free.graph, free.topology, cost=cost, sync=sync)

    assert 0 < lower_bound_ns(problem) <= problem.data_parallel_ns


# What a new config changes outside of the operator


def two_sinks() -> Problem:
    """``late`` waits for ``slow``; ``early`` has its gradient long before ``late`` begins; both share a bucket."""
    read = Input("slow", 0, (Window(0),))
    operators = [
        Operator("slow", "custom", DIMS, OUTPUTS),
        Operator("late", "custom", DIMS, OUTPUTS, (read,), Weight("late", WHOLE, 5)),
        Operator("early", "custom", DIMS, OUTPUTS, (), Weight("early", WHOLE, 5)),
    ]
    halves: tuple[tuple[int, ...], ...] = ((1,), (2,))
    times = {operator.name: dict.fromkeys(halves, (100 if operator.name == "slow" else 1, 1)) for operator in operators}
    return Problem(OperatorGraph(operators, name="sinks"), star(3), cost=TableCost(times=times), sync=Sync(bucket_mb=1))


@pytest.mark.parametrize(("before", "after"), [((0, 1), (2,)), ((2,), (0, 1))])
def test_who_leaves_or_joins_a_shard_changes_what_came_before_its_own_tasks(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    problem = two_sinks()
    configs = [ParallelConfig((len(devices),), devices) for devices in ((2,), before, (0, 1))]
    simulation = problem.simulation(Strategy(problem.graph, problem.topology, configs))

    simulation.propose(1, ParallelConfig((len(after),), after))
    simulation.accept()

    assert simulated(simulation) == recomputed(problem, simulation.strategy)


# Refusals


@pytest.mark.parametrize("size", [0, -1])
def test_a_bucket_without_room_is_refused(size: float) -> None:
    with pytest.raises(SimError) as caught:
        Sync(bucket_mb=size)

    assert str(caught.value) == f"sync.bucket_mb must be positive, or null for no buckets, not {size}"


def test_a_bucket_of_more_shards_than_keys_can_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MAX_SHARDS", 10)
    problem = sync_problem(star(4), Sync(bucket_mb=25), num_layers=3)

    with pytest.raises(SimError) as caught:
        problem.simulation()

    assert str(caught.value) == (
        "sync.bucket_mb=25 on 4 devices: a bucket may have 12 shards, more than 10; make it smaller"
    )
