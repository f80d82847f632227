"""Lower bounds: below the cost of every strategy, tight where they can be, and what would not have been a bound."""

import math
import time
from collections.abc import Iterator, Sequence
from itertools import product
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy

from sim import topologies
from sim.bounds import Bounds, lower_bound_ns, partial_bound_ns
from sim.chains import Chains, every_element_is_read, readers_of
from sim.costs.table import TableCost
from sim.errors import UnknownNameError
from sim.flows import needed_box, volume
from sim.graph_builder import GraphBuilder
from sim.models.inception_v3 import inception_v3
from sim.models.nmt import nmt
from sim.operator_graph import WHOLE, OperatorGraph, Weight
from sim.operator_writer import VECTOR, OperatorWriter, dimensions, same_windows
from sim.problem import Problem
from sim.space import SoapSpace, Variant
from sim.strategy import ParallelConfig, Strategy
from sim.sync import SCHEMES, Sync
from sim.task_graph import Key, TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.topology import DeviceTopology, load_topology

seeds = st.integers(0, 2**32 - 1)


class Row(NamedTuple):
    """An operator of 2 samples: which operators it reads, its devices (one part for each), its times."""

    reads: tuple[int, ...]
    devices: tuple[int, ...]
    forward_ns: int
    backward_ns: int


def joined_pairs(num_devices: int) -> DeviceTopology:
    """Devices with a connection of 8 bytes/ns for each pair: 1 ns for a sample of up to two elements."""
    names = [f"d{d}" for d in range(num_devices)]
    return topologies.explicit(
        name="pairs",
        devices=[{"name": name, "kind": "p100", "node": 0, "memory_gb": 1} for name in names],
        switches=[],
        connections=[
            {"src": a, "dst": b, "bandwidth_gb_per_s": 8.0, "latency_us": 0} for a in names for b in names if a != b
        ],
        reading="routed",
    )


def graph_of(rows: Sequence[Row]) -> OperatorGraph:
    writer = OperatorWriter("rows")
    tensors = []
    for number, row in enumerate(rows):
        reads = [(tensors[read], same_windows(2)) for read in row.reads]
        tensors.append(writer.append(f"operator{number}", "custom", dimensions(VECTOR, (2, 1), "S-"), reads))
    return writer.build()


def problem_of(rows: Sequence[Row], *, variant: Variant = "free") -> Problem:
    """Two devices; each operator has a time for the degrees of its row alone, so only these are open."""
    graph, topology = graph_of(rows), joined_pairs(2)
    times = {
        f"operator{number}": {(len(row.devices), 1): (row.forward_ns, row.backward_ns)}
        for number, row in enumerate(rows)
    }
    return Problem(graph, topology, cost=TableCost(times=times), space=SoapSpace(graph, topology, variant=variant))


def cost_ns(problem: Problem, configs: Sequence[ParallelConfig]) -> int:
    return build_task_graph(problem, Strategy(problem.graph, problem.topology, configs)).simulate()


def configs_of(rows: Sequence[Row]) -> list[ParallelConfig]:
    return [ParallelConfig((len(row.devices), 1), row.devices) for row in rows]


def all_configs(problem: Problem) -> list[list[ParallelConfig]]:
    space = problem.space
    return [
        [space.config(operator, index) for index in range(space.num_configs(operator))]
        for operator in range(len(problem.graph))
    ]


def tiny_problem(random: Random) -> Problem:
    """A random problem with at most 300 strategies."""
    while True:
        problem = random_problem(random, max_operators=3, max_devices=3, variant=random.choice(["block", "aligned"]))
        if math.prod(map(len, all_configs(problem))) <= 300:
            return problem


def completions(problem: Problem, configs: dict[int, ParallelConfig]) -> Iterator[tuple[ParallelConfig, ...]]:
    """All strategies that keep these configs."""
    options = [
        [configs[operator]] if operator in configs else open_configs
        for operator, open_configs in enumerate(all_configs(problem))
    ]
    return product(*options)


# They are bounds


@settings(max_examples=150)
@given(seeds)
def test_no_random_strategy_is_faster_than_the_bound_of_its_space(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    bound = lower_bound_ns(problem)

    assert all(bound <= build_task_graph(problem, random_strategy(problem, random)).simulate() for _ in range(4))


@settings(max_examples=40)
@given(seeds)
def test_the_optimum_of_a_tiny_space_is_no_less_than_its_bound(seed: int) -> None:
    problem = tiny_problem(Random(seed))

    assert lower_bound_ns(problem) <= min(cost_ns(problem, configs) for configs in completions(problem, {}))


@settings(max_examples=40)
@given(seeds)
def test_no_completion_is_faster_than_the_bound_of_what_is_decided(seed: int) -> None:
    random = Random(seed)
    problem = tiny_problem(random)
    strategy = random_strategy(problem, random)
    num_decided = random.randint(0, len(problem.graph))
    decided = {operator: strategy[operator] for operator in random.sample(range(len(problem.graph)), num_decided)}

    assert partial_bound_ns(problem, decided) <= min(
        cost_ns(problem, configs) for configs in completions(problem, decided)
    )


@settings(max_examples=100)
@given(seeds)
def test_bounds_rise_to_at_most_the_cost_as_operators_are_decided(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategy, bounds = random_strategy(problem, random), Bounds(problem)
    order = random.sample(range(len(problem.graph)), len(problem.graph))
    rising = [
        bounds.partial_ns({operator: strategy[operator] for operator in order[:count]})
        for count in range(len(order) + 1)
    ]

    assert rising == sorted(rising)
    assert rising[-1] <= build_task_graph(problem, strategy).simulate()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("variant", ["block", "free"])
def test_no_random_strategy_of_nmt_is_faster_than_the_bound(scheme: str, overlap: bool, variant: Variant) -> None:
    graph, topology = nmt(num_devices=8, batch_per_device=8), load_topology("k80_cluster", num_devices=8)
    sync = Sync(scheme=scheme, overlap=overlap)  # type: ignore[arg-type]
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant=variant), sync=sync)
    random = Random(5)

    assert all(
        lower_bound_ns(problem) <= problem.simulation(random_strategy(problem, random)).cost_ns for _ in range(5)
    )


# Each of their ingredients is one, which is far sharper than the whole


def true_paths(task_graph: TaskGraph) -> dict[Key, tuple[int, int]]:
    """The longest path to each task and behind it."""
    heads, tails = dict.fromkeys(range(len(task_graph.tasks)), 0), dict.fromkeys(range(len(task_graph.tasks)), 0)
    order = sorted(task_graph.tasks, key=lambda task: task.key)
    for task in order:
        ends = [heads[pre] + task_graph.tasks[pre].exe_time for pre in task.in_tasks]
        heads[task.id] = max(ends, default=0)
    for task in reversed(order):
        for pre in task.in_tasks:
            tails[pre] = max(tails[pre], task.exe_time + tails[task.id])
    return {task.key: (heads[task.id], tails[task.id]) for task in order}


@settings(max_examples=300)
@given(seeds)
def test_partial_paths_are_no_longer_than_those_of_a_completion(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategy, size = random_strategy(problem, random), len(problem.graph)
    decided = {operator: strategy[operator] for operator in random.sample(range(size), random.randint(0, size))}
    partial = Bounds(problem).partial_task_graph(decided)
    paths = true_paths(build_task_graph(problem, strategy))
    open_phases = {
        phase: operator
        for operator in range(size)
        if operator not in decided
        for phase in (2 * operator + 1, 4 * size - 2 * operator - 2)
    }

    for key, head, tail in zip(partial.keys, *partial.heads_and_tails(), strict=True):
        parts = strategy[open_phases[key[0]]].num_tasks if key[0] in open_phases else 0
        for same in [(key[0], 0, part, 0) for part in range(parts)] or [key]:
            assert head <= paths[same][0]
            assert tail <= paths[same][1]


@settings(max_examples=300)
@given(seeds)
def test_chains_are_no_longer_than_paths(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategy, bounds = random_strategy(problem, random), Bounds(problem)
    choices = bounds.choices(dict(enumerate(strategy.configs)))
    paths = true_paths(build_task_graph(problem, strategy))
    heads = bounds.chain_ns([int(choice.forward[0]) for choice in choices])
    tails = bounds.chain_ns([int(choice.backward[0]) for choice in choices])

    for operator, config in enumerate(strategy.configs):
        for part in range(config.num_tasks):
            assert heads[operator] <= paths[2 * operator + 1, 0, part, 0][0]
            if problem.training:
                phase = 4 * len(problem.graph) - 2 * operator - 2
                assert max(tails[operator], choices[operator].ending[0]) <= paths[phase, 0, part, 0][1]


@settings(max_examples=300)
@given(seeds)
@pytest.mark.parametrize("is_decided", [True, False])
def test_least_work_is_no_more_than_that_of_any_strategy(is_decided: bool, seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategy = random_strategy(problem, random)
    choices = Bounds(problem).choices(dict(enumerate(strategy.configs)) if is_decided else {})
    tasks = build_task_graph(problem, strategy).tasks
    of_kind = {
        kinds: sum(task.exe_time for task in tasks if task.kind in kinds)
        for kinds in [("forward", "backward"), ("update",), ("sync", "update")]
    }

    assert sum(int(choice.work.min()) for choice in choices) <= of_kind["forward", "backward"]
    assert sum(int(choice.updates.min()) for choice in choices) <= of_kind["update",]
    assert sum(int(choice.serial.min()) for choice in choices) <= of_kind["sync", "update"]


@settings(max_examples=300)
@given(seeds)
def test_least_exchanges_are_no_longer_than_the_true_ones(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategy = random_strategy(problem, random)
    choices = Bounds(problem).choices(dict(enumerate(strategy.configs)))
    task_graph = build_task_graph(problem, strategy)
    for task in task_graph.tasks:
        operator = task.key[0] // 2
        if task.key[0] < 2 * len(problem.graph) and task.kind == "forward":
            behind = [
                after.exe_time for after in task_graph.tasks if task.id in after.in_tasks and after.kind == "exchange"
            ]

            assert choices[operator].forward[0] <= task.exe_time + sum(behind)


def test_an_update_has_no_backward_task_behind_it() -> None:
    writer = OperatorWriter("late update")
    first = writer.append("first", "custom", dimensions(VECTOR, (2, 1), "S-"), [])
    weight = Weight("weights", WHOLE, 1)
    writer.append("second", "custom", dimensions(VECTOR, (2, 1), "S-"), [(first, same_windows(2))], weight=weight)
    graph, topology = writer.build(), joined_pairs(2)
    cost = TableCost(times={"first": {(1, 1): (1, 20)}, "second": {(1, 1): (1, 1)}}, update_launch_ns=10)
    problem = Problem(graph, topology, cost=cost)
    apart = [ParallelConfig((1, 1), (0,)), ParallelConfig((1, 1), (1,))]

    assert lower_bound_ns(problem) <= cost_ns(problem, apart) == 25


def test_a_server_updates_the_finest_common_shard() -> None:
    writer = OperatorWriter("shared")
    for name in ("whole", "halves"):
        writer.append(name, "custom", dimensions(VECTOR, (1, 2), "SP"), [], weight=Weight("weights", 1, 100))
    graph, topology = writer.build(), joined_pairs(2)
    times = {name: {(1, 1): (1, 1), (1, 2): (1, 1)} for name in ("whole", "halves")}
    cost = TableCost(times=times, update_ns_per_byte=1)
    problem = Problem(graph, topology, cost=cost, sync=Sync(scheme="parameter_server"))
    configs = [ParallelConfig((1, 1), (0,)), ParallelConfig((1, 2), (0, 1))]
    choices, paths = (
        Bounds(problem).choices(dict(enumerate(configs))),
        true_paths(build_task_graph(problem, Strategy(graph, topology, configs))),
    )

    assert choices[0].ending[0] <= paths[6, 0, 0, 0][1]


# They are tight


def test_the_bound_of_a_chain_without_transfers_is_its_optimum() -> None:
    rows = [Row((), (0,), 3, 4), Row((0,), (0,), 5, 6), Row((1,), (0,), 7, 8)]
    problem = problem_of(rows)

    assert lower_bound_ns(problem) == cost_ns(problem, configs_of(rows)) == 33


def test_the_bound_of_independent_operators_is_their_work_over_the_devices() -> None:
    rows = [Row((), (0,), 3, 4), Row((), (1,), 5, 2), Row((), (0,), 1, 5), Row((), (1,), 4, 2)]
    problem = problem_of(rows)

    assert lower_bound_ns(problem) == cost_ns(problem, configs_of(rows)) == 13


def test_splitting_that_adds_work_is_weighed_against_the_path_that_it_shortens() -> None:
    rows = [Row((), (0,), 10, 0), Row((), (1,), 8, 0)]
    problem = problem_of(rows)
    problem.cost.times["operator0"][2, 1] = (9, 0)  # type: ignore[attr-defined]
    critical_path_ns, work_ns = 9, (10 + 8) // 2

    assert max(critical_path_ns, work_ns) < lower_bound_ns(problem) == cost_ns(problem, configs_of(rows)) == 10


def test_all_decided_on_one_device_is_bounded_by_its_cost() -> None:
    rows = [Row((), (0, 0), 1, 2), Row((), (0, 0), 3, 4), Row((0, 1), (0, 0), 5, 6)]
    problem = problem_of(rows)

    assert partial_bound_ns(problem, dict(enumerate(configs_of(rows)))) == cost_ns(problem, configs_of(rows)) == 42


def test_transfers_between_decided_operators_count() -> None:
    rows = [Row((), (0,), 3, 4), Row((0,), (1,), 5, 6), Row((1,), (0,), 7, 8)]
    problem = problem_of(rows)
    decided = dict(enumerate(configs_of(rows)[:2]))

    assert partial_bound_ns(problem, decided) == 33 + 2


def test_what_a_connection_carries_between_decided_operators_is_a_bound() -> None:
    producers = [Row((), (0,), 0, 0)] * 5
    rows = [*producers, *(Row((read,), (1,), 0, 0) for read in range(5))]
    problem = problem_of(rows)

    # Nothing takes time but transfers: five one after another, and the last gradient's way back.
    assert partial_bound_ns(problem, dict(enumerate(configs_of(rows)))) == cost_ns(problem, configs_of(rows)) == 6


def test_no_connection_must_carry_anything_while_nothing_is_decided() -> None:
    problem = problem_of([Row((), (0,), 0, 0), Row((0,), (1,), 0, 0)])

    assert lower_bound_ns(problem) == 0


def test_serial_synchronisation_is_added_to_the_bound() -> None:
    graph = nmt(num_devices=4)
    topology = load_topology("p100_cluster", num_devices=4)
    without = Problem(graph, topology, sync=Sync(overlap=True))
    serial = Problem(graph, topology, sync=Sync(overlap=False))

    assert lower_bound_ns(without) < lower_bound_ns(serial) <= serial.data_parallel_ns


# What is no bound (REFERENCE 2.9)


PREFIX = (
    Row((), (0, 1), 4, 3),
    Row((0,), (1, 1), 3, 2),
    Row((), (0, 1), 1, 6),
    Row((2,), (0,), 3, 4),
)
"""The whole takes less time than without its last operator."""


def test_simulating_a_partial_strategy_is_no_bound() -> None:
    prefix, whole = PREFIX[:-1], PREFIX
    simulated_ns = cost_ns(problem_of(prefix), configs_of(prefix))

    assert simulated_ns == 25 > cost_ns(problem_of(whole), configs_of(whole)) == 24


def test_the_bound_of_that_partial_strategy_holds() -> None:
    decided = dict(enumerate(configs_of(PREFIX[:-1])))

    assert partial_bound_ns(problem_of(PREFIX), decided) <= 24


GRAHAM = (Row((), (1, 0), 2, 4), Row((0,), (1, 1), 2, 6), Row((0,), (0, 1), 4, 1))
"""The iteration takes longer if the forward tasks of the second operator take 1 ns instead of 2."""


def test_simulating_faster_tasks_is_no_bound() -> None:
    faster = (GRAHAM[0], GRAHAM[1]._replace(forward_ns=1), GRAHAM[2])

    assert cost_ns(problem_of(faster), configs_of(faster)) > cost_ns(problem_of(GRAHAM), configs_of(GRAHAM))


# Chains


@settings(max_examples=100)
@given(seeds)
def test_readers_are_the_elements_whose_windows_meet_the_box(seed: int) -> None:
    random = Random(seed)
    graph = random_problem(random).graph
    for edge in graph.edges:
        producer, consumer = graph.operators[edge.src], graph.operators[edge.dst]
        box = tuple(sorted(random.sample(range(size + 1), 2)) for size in producer.sizes)
        tensor = producer.outputs[edge.output]
        written = [(0, n) if dim < 0 else box[dim] for n, dim in zip(tensor.sizes, tensor.dims, strict=True)]
        readers = readers_of(graph, edge, tuple((low, high) for low, high in box))
        for element in product(*(range(size) for size in consumer.sizes)):
            needed = needed_box(graph, edge, tuple((index, index + 1) for index in element))
            meets = all(max(a, c) < min(b, d) for (a, b), (c, d) in zip(needed, written, strict=True))

            assert meets == all(low <= i < high for i, (low, high) in zip(element, readers, strict=True))


@settings(max_examples=100)
@given(seeds)
def test_every_element_is_read_if_each_alone_has_readers(seed: int) -> None:
    graph = random_problem(Random(seed)).graph
    for edge in graph.edges:
        producer = graph.operators[edge.src]
        alone = product(*([(i, i + 1) for i in range(size)] for size in producer.sizes))

        assert every_element_is_read(graph, edge) == all(volume(readers_of(graph, edge, box)) for box in alone)


def test_what_reads_a_concat_waits_for_each_of_its_inputs() -> None:
    graph = inception_v3(num_devices=2)
    chains = Chains(graph)
    concat = next(i for i, operator in enumerate(graph.operators) if operator.kind == "concat")
    before = {
        chains.links[number].operator
        for link in chains.links
        if link.operator == concat and link.box != chains.links[chains.whole[concat]].box
        for number in link.before
    }

    assert len(before) == len(graph.operators[concat].inputs) == 4


def test_a_part_of_a_concat_need_not_wait_for_the_slower_input() -> None:
    builder = GraphBuilder("concat")
    slow, fast = builder.relu("slow", (2, 4)), builder.relu("fast", (2, 4))
    builder.concat("both", [slow, fast])
    graph = builder.build()
    bounds = Bounds(Problem(graph, joined_pairs(2)))

    assert bounds.chain_ns([100, 1, 0]).tolist() == [0, 0, 0]


def test_what_reads_all_of_a_concat_waits_for_the_slower_input() -> None:
    builder = GraphBuilder("concat")
    slow, fast = builder.relu("slow", (2, 4)), builder.relu("fast", (2, 4))
    builder.linear("all", builder.concat("both", [slow, fast]), 2)
    bounds = Bounds(Problem(builder.build(), joined_pairs(2)))

    assert bounds.chain_ns([100, 1, 5, 0]).tolist() == [0, 0, 0, 105]


# Refusal and speed


def test_a_cost_source_without_any_time_of_an_operator_is_refused() -> None:
    problem = problem_of([Row((), (0,), 1, 1)])
    problem.cost.times["operator0"].clear()  # type: ignore[attr-defined]

    with pytest.raises(UnknownNameError):
        lower_bound_ns(problem)


def test_inception_on_16_devices_is_bounded_in_less_than_a_second() -> None:
    problem = Problem(inception_v3(num_devices=16), load_topology("p100_cluster"))
    started = time.process_time()
    lower_bound_ns(problem)

    assert time.process_time() - started < 1
