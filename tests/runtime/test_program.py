"""The order of steps, what is sent, and what is refused."""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_generator, random_graph, random_topology
from thread_ranks import run_in_threads

from runtime.boxes import disjoint_cover
from runtime.errors import TooFewRanksError, UnsupportedOperatorError, UnsupportedSyncError
from runtime.options import RunOptions
from runtime.program import build_program
from runtime.steps import TransferStep
from sim.flows import intersection, union_volume, volume
from sim.graph_builder import GraphBuilder
from sim.models.lenet import lenet
from sim.operator_graph import Weight
from sim.operator_writer import dimensions
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import Strategy
from sim.sync import SCHEMES, Sync
from sim.topology import load_topology


def random_run(random: Random) -> tuple[Problem, Strategy]:
    graph = random_graph(random, has_custom=False)
    topology = random_topology(random, max_devices=4)
    space = SoapSpace(graph, topology, variant="free")
    sync = Sync(scheme=random.choice(SCHEMES), overlap=random.random() < 0.7)
    return Problem(graph, topology, space=space, sync=sync), space.sample_strategy(random_generator(random))


@settings(max_examples=50, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_every_step_comes_behind_all_that_it_waits_for(random: Random) -> None:
    problem, strategy = random_run(random)

    program, task_graph = build_program(problem, strategy)

    position = {task: step.number for step in program.steps for task in step.task_ids}
    for task in task_graph.tasks:
        for pre in task.in_tasks:
            if task.id in position and pre in position:
                assert position[pre] <= position[task.id]
    assert [step.number for step in program.steps] == list(range(len(program.steps)))


@settings(max_examples=50, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_every_task_is_a_step_but_what_zero_gathers_and_pushes_of_one_holder(random: Random) -> None:
    problem, strategy = random_run(random)

    program, task_graph = build_program(problem, strategy)

    done = {task for step in program.steps for task in step.task_ids}
    left = [task for task in task_graph.tasks if task.id not in done]
    assert all("all-gather" in task.name or (not problem.sync.overlap and task.kind == "update") for task in left)


@settings(max_examples=100, derandomize=True)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=2, max_size=2), min_size=1, max_size=4)
)
def test_what_is_sent_is_the_union_of_boxes_once(intervals: list[list[tuple[int, int]]]) -> None:
    boxes = [tuple((low, low + length) for low, length in box) for box in intervals]

    cover = disjoint_cover(boxes)

    assert sum(map(volume, cover)) == union_volume(boxes)
    assert all(volume(intersection(a, b)) == 0 for a in cover for b in cover if a is not b)
    assert all(sum(volume(intersection(box, piece)) for piece in cover) == volume(box) for box in boxes)


@settings(max_examples=25, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_bytes_sent_are_those_of_the_transfer_tasks_between_each_pair(random: Random) -> None:
    graph = random_graph(random, has_custom=False)
    topology = random_topology(random, max_devices=4)
    space = SoapSpace(graph, topology, variant="free")
    problem = Problem(graph, topology, space=space)

    result = run_in_threads(problem, space.sample_strategy(random_generator(random)))

    expected: Counter[tuple[int, int]] = Counter()
    for step in result.program.steps:
        if isinstance(step, TransferStep):
            expected[step.ranks] += result.task_graph.tasks[step.task_ids[0]].num_bytes
    assert {(rank.rank, to): n for rank in result.ranks for to, n in rank.sent_bytes.items()} == expected


def test_a_parameter_server_sends_what_its_tasks_do() -> None:
    builder = GraphBuilder("g")
    builder.softmax("softmax", (4, 6), 4)
    problem = Problem(builder.build(), load_topology("cpu_host", num_devices=2), sync=Sync(scheme="parameter_server"))

    result = run_in_threads(problem, problem.data_parallel)

    expected = sum(task.num_bytes for task in result.task_graph.tasks if task.kind == "sync")
    assert sum(sum(rank.sent_bytes.values()) for rank in result.ranks) == expected == 2 * 28 * 4


def test_too_few_ranks_are_refused() -> None:
    builder = GraphBuilder("g")
    builder.softmax("softmax", (4, 6), 4)
    problem = Problem(builder.build(), load_topology("cpu_host", num_devices=4))

    with pytest.raises(TooFewRanksError) as error:
        build_program(problem, problem.data_parallel, num_ranks=3)

    assert (error.value.num_needed, error.value.num_ranks) == (4, 3)


def test_an_operator_of_an_unknown_kind_is_refused() -> None:
    builder = GraphBuilder("g")
    builder.append("fft", "fourier", dimensions(("sample",), (4,), "S"), [])
    problem = Problem(builder.build(), load_topology("cpu_host", num_devices=1))
    strategy = problem.space.sample_strategy(random_generator(Random(0)))

    with pytest.raises(UnsupportedOperatorError) as error:
        build_program(problem, strategy)

    assert str(error.value).startswith("operator 'fft' cannot be run: kind 'fourier' is none of add, attention, ")


def test_weights_shared_in_two_layouts_are_refused() -> None:
    builder = GraphBuilder("g")
    builder.linear("linear", (4, 5), 4, bias=False, group="shared")
    builder.append(
        "words",
        "embedding",
        dimensions(("sample", "step", "channel"), (4, 1, 4), "S-P"),
        [],
        weight=Weight("shared", 2, 5),
        attributes={"vocabulary": 5},
    )
    problem = Problem(builder.build(), load_topology("cpu_host", num_devices=1))
    strategy = problem.space.sample_strategy(random_generator(Random(0)))

    with pytest.raises(UnsupportedOperatorError) as error:
        build_program(problem, strategy)

    assert str(error.value) == "operator 'words' cannot be run: it shares weights with 'linear' of another layout"


def test_the_forward_pass_alone_gives_the_loss() -> None:
    builder = GraphBuilder("g")
    builder.softmax("softmax", builder.linear("linear", (4, 6), 8), 4)
    graph, topology = builder.build(), load_topology("cpu_host", num_devices=2)
    training = Problem(graph, topology)
    inference = Problem(graph, topology, training=False)

    losses = [run_in_threads(p, p.data_parallel, options=RunOptions()).losses for p in (training, inference)]

    assert losses[0] == losses[1]


def test_gradient_buckets_are_refused() -> None:
    problem = Problem(lenet(num_devices=2), load_topology("cpu_host", num_devices=2), sync=Sync(bucket_mb=25.0))

    with pytest.raises(UnsupportedSyncError) as error:
        build_program(problem, problem.data_parallel)

    assert str(error.value) == "the runtime does not synchronise gradients in buckets (sync.bucket_mb)"
