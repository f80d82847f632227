"""Laws that hold for every strategy: what may never overlap, bounds, symmetries, and that the right data moves."""

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mover import Mover, region
from random_problems import random_graph, random_problem, random_strategy, random_times
from snapshot import recomputed, simulated

from sim import topologies
from sim.flows import weight_interval
from sim.operator_graph import BYTES_PER_ELEMENT
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig, Strategy
from sim.sync import SCHEMES, Sync
from sim.task_graph import TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.topology import DeviceTopology, load_topology

seeds = st.integers(0, 2**32 - 1)
examples = settings(max_examples=100)


def random_case(seed: int, *, is_training: bool | None = None) -> tuple[Problem, Strategy, TaskGraph]:
    """A random problem, strategy and its simulated task graph."""
    random = Random(seed)
    problem = random_problem(random, is_training=is_training)
    strategy = random_strategy(problem, random)
    task_graph = build_task_graph(problem, strategy)
    task_graph.simulate()
    return problem, strategy, task_graph


# Time


@examples
@given(seeds)
def test_nothing_overlaps_on_a_device_or_connection(seed: int) -> None:
    _, _, task_graph = random_case(seed)
    for device in range(len(task_graph.device_names)):
        runs = sorted((task.start_time, task.end_time) for task in task_graph.tasks if device in task.devices)

        assert all(end <= start for (_, end), (start, _) in pairwise(runs))


@examples
@given(seeds)
def test_a_task_is_ready_when_the_last_of_its_predecessors_ends(seed: int) -> None:
    _, _, task_graph = random_case(seed)
    for task in task_graph.tasks:
        ends = [task_graph.tasks[pre].end_time for pre in task.in_tasks]

        assert task.ready_time == max(ends, default=0) <= task.start_time == task.end_time - task.exe_time


@examples
@given(seeds)
def test_tasks_run_in_the_order_in_which_they_are_ready(seed: int) -> None:
    _, _, task_graph = random_case(seed)
    for device in range(len(task_graph.device_names)):
        tasks = sorted(
            (task for task in task_graph.tasks if device in task.devices), key=lambda task: (task.ready_time, task.key)
        )

        assert [task.start_time for task in tasks] == sorted(task.start_time for task in tasks)


@examples
@given(seeds)
def test_the_makespan_is_at_least_the_critical_path(seed: int) -> None:
    _, _, task_graph = random_case(seed)
    longest: dict[int, int] = {}
    for task in sorted(task_graph.tasks, key=lambda task: task.key):
        longest[task.id] = task.exe_time + max((longest[pre] for pre in task.in_tasks), default=0)

    assert task_graph.makespan >= max(longest.values())


@examples
@given(seeds)
def test_the_makespan_is_at_least_the_time_of_the_busiest_device_or_connection(seed: int) -> None:
    _, _, task_graph = random_case(seed)
    busy_ns = [
        sum(task.exe_time for task in task_graph.tasks if device in task.devices)
        for device in range(len(task_graph.device_names))
    ]

    assert task_graph.makespan >= max(busy_ns)


@examples
@given(seeds, st.integers(0, 5))
def test_scaling_all_durations_by_an_integer_scales_the_timeline(seed: int, factor: int) -> None:
    _, _, task_graph = random_case(seed)
    before = [(task.ready_time, task.start_time, task.end_time) for task in task_graph.tasks]
    for task in task_graph.tasks:
        task.exe_time *= factor
    task_graph.simulate()

    assert [(task.ready_time, task.start_time, task.end_time) for task in task_graph.tasks] == [
        (factor * ready, factor * start, factor * end) for ready, start, end in before
    ]


# Keys


@examples
@given(seeds)
def test_keys_are_unique(seed: int) -> None:
    _, _, task_graph = random_case(seed)

    assert len({task.key for task in task_graph.tasks}) == len(task_graph.tasks)


@examples
@given(seeds)
def test_keys_grow_along_every_edge_of_the_task_graph(seed: int) -> None:
    _, _, task_graph = random_case(seed)

    assert all(task_graph.tasks[pre].key < task.key for task in task_graph.tasks for pre in task.in_tasks)


@examples
@given(seeds)
def test_the_order_in_which_tasks_were_added_does_not_matter(seed: int) -> None:
    _, _, task_graph = random_case(seed)
    times = [(task.ready_time, task.start_time) for task in task_graph.tasks]
    order = Random(seed).sample(range(len(times)), len(times))
    place = {old: new for new, old in enumerate(order)}
    shuffled = TaskGraph(task_graph.device_names, task_graph.num_compute_devices)
    for old in order:
        task = task_graph.tasks[old]
        in_tasks = [place[pre] for pre in task.in_tasks]
        shuffled.add(task.name, task.kind, task.devices, task.exe_time, task.key, in_tasks)
    shuffled.simulate()

    assert [(shuffled.tasks[place[i]].ready_time, shuffled.tasks[place[i]].start_time) for i in place] == [
        times[i] for i in place
    ]


# Symmetry


def flat(num_devices: int, reading: str) -> DeviceTopology:
    """One node whose devices are all joined alike: every renumbering keeps it."""
    names = [f"d{d}" for d in range(num_devices)]
    return topologies.explicit(
        name="flat",
        devices=[{"name": name, "kind": "p100", "node": 0, "memory_gb": 1e-6} for name in names],
        switches=[],
        connections=[
            {"src": a, "dst": b, "bandwidth_gb_per_s": 3.0, "latency_us": 0.002} for a in names for b in names if a != b
        ],
        reading=reading,
    )


def automorphism(topology: DeviceTopology, random: Random) -> list[int]:
    """A renumbering that keeps nodes of equal size together: nodes change places, and devices inside each."""
    nodes: dict[int, list[int]] = {}
    for position, device in enumerate(topology.devices):
        nodes.setdefault(device.node, []).append(position)
    numbers = [0] * topology.num_devices
    targets = random.sample(list(nodes.values()), len(nodes))
    for members, target in zip(nodes.values(), targets, strict=True):
        for member, place in zip(members, random.sample(target, len(target)), strict=True):
            numbers[member] = place
    return numbers


def renumbered(strategy: Strategy, topology: DeviceTopology, numbers: list[int]) -> Strategy:
    configs = [
        ParallelConfig(config.degrees, tuple(numbers[device] for device in config.devices))
        for config in strategy.configs
    ]
    return Strategy(strategy.graph, topology, configs)


SYMMETRIC = [
    *(flat(4, reading) for reading in ("routed", "pairwise")),
    *(load_topology("p100_cluster", num_devices=8, reading=reading) for reading in ("routed", "pairwise")),
    load_topology("dgx_h100", num_devices=4),
]


@pytest.mark.parametrize("topology", SYMMETRIC, ids=repr)
@settings(max_examples=40)
@given(seeds)
def test_renumbering_equal_devices_keeps_the_timeline(topology: DeviceTopology, seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random)
    scheme = random.choice(SCHEMES)
    sync = Sync(scheme=scheme, overlap=random.random() < 0.7)  # type: ignore[arg-type]
    cost = random_times(random, graph, topology.num_devices)
    problem = Problem(graph, topology, cost=cost, space=SoapSpace(graph, topology, variant="free"), sync=sync)
    strategy, numbers = random_strategy(problem, random), automorphism(topology, random)
    before = problem.simulation(strategy)

    after = problem.simulation(renumbered(strategy, topology, numbers))

    assert (after.cost_ns, after.timeline()) == (before.cost_ns, before.timeline())


@pytest.mark.parametrize("reading", ["routed", "pairwise"])
@settings(max_examples=40)
@given(seeds)
def test_devices_that_nobody_uses_change_nothing(reading: str, seed: int) -> None:
    random = Random(seed)
    graph, small, large = random_graph(random), flat(3, reading), flat(5, reading)
    cost = random_times(random, graph, 3)
    problems = [Problem(graph, topology, cost=cost) for topology in (small, large)]
    strategy = random_strategy(problems[0], random)
    fewer, more = problems[0].simulation(strategy), problems[1].simulation(renumbered(strategy, large, [0, 1, 2]))

    assert (more.cost_ns, more.timeline()) == (fewer.cost_ns, fewer.timeline())


@examples
@given(seeds)
def test_training_begins_with_the_forward_pass_alone(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random, is_training=False)
    strategy = random_strategy(problem, random)
    forward = recomputed(problem, strategy)
    keys = 2 * len(problem.graph)
    problem.training = True

    # A backward task may delay a forward one on the same device, so only the tasks are compared.
    assert {key for key in recomputed(problem, strategy).timeline if key[0] < keys} == set(forward.timeline)


@examples
@given(seeds)
def test_the_order_of_the_phases_of_one_part_is_forward_then_backward(seed: int) -> None:
    problem, strategy, task_graph = random_case(seed, is_training=True)
    num_operators, by_key = len(problem.graph), {task.key: task for task in task_graph.tasks}
    for position in range(num_operators):
        for part in range(strategy[position].num_tasks):
            forward = by_key[2 * position + 1, 0, part, 0]
            backward = by_key[4 * num_operators - 2 * position - 2, 0, part, 0]

            assert forward.end_time <= backward.start_time


# Data


@examples
@given(seeds)
def test_every_part_ends_with_exactly_the_boxes_that_it_needs(seed: int) -> None:
    mover = Mover(*random_case(seed))
    mover.move_forward()

    assert all((arrived == mover.needed(*key)).all() for key, arrived in mover.parts.items())


@examples
@given(seeds)
def test_every_element_gets_one_gradient_from_each_part_that_read_it(seed: int) -> None:
    mover = Mover(*random_case(seed, is_training=True))
    mover.move_backward()
    for (src, output, part), arrived in mover.gradients.items():
        expected = sum(
            (mover.needed(edge, reader) > 0) & (mover.written(edge, part) > 0)
            for edge, reader in mover.parts
            if (edge.src, edge.output) == (src, output)
        )

        assert (arrived == expected).all()


@examples
@given(seeds)
def test_a_transfer_counts_each_element_once(seed: int) -> None:
    mover = Mover(*random_case(seed))
    for is_backward in (False, True):
        for edge, task in mover.transfers(backward=is_backward):
            assert task.flow is not None
            is_moved = np.zeros(mover.tensor(edge).shape, bool)
            for box in task.flow.boxes:
                is_moved[region(box)] = True

            assert task.num_bytes == BYTES_PER_ELEMENT * is_moved.sum()


@examples
@given(seeds)
def test_a_device_receives_each_part_of_a_tensor_in_one_transfer(seed: int) -> None:
    mover = Mover(*random_case(seed))
    sent = [
        (edge, task.flow.src_part, task.flow.dst_device)
        for edge, task in mover.transfers(backward=False)
        if task.flow is not None
    ]

    assert len(sent) == len(set(sent))


@examples
@given(seeds)
def test_memory_is_what_the_devices_hold_and_received(seed: int) -> None:
    problem, strategy, task_graph = random_case(seed, is_training=False)
    expected = [0] * problem.topology.num_devices
    for operator, config in zip(problem.graph.operators, strategy.configs, strict=True):
        for device in config.devices:
            expected[device] += problem.saved_bytes(operator, config.degrees)
    for members in problem.graph.weight_groups.values():
        first, held = problem.graph.operators[members[0]], set()
        for m in members:
            for part, device in enumerate(strategy[m].devices):
                units = range(*weight_interval(problem.graph.operators[m], strategy[m], part))
                held |= {(device, unit) for unit in units}
        for device, _ in held:
            expected[device] += BYTES_PER_ELEMENT * first.num_weight_elements // first.num_weight_units
    for task in task_graph.tasks:
        if task.flow is not None:
            expected[task.flow.dst_device] += task.num_bytes

    assert simulated(problem.simulation(strategy)).memory_bytes == expected
