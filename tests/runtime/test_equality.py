"""Any strategy trains like one process: losses, gradients and updated weights."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_generator, random_graph, random_topology
from same_training import assert_same_training
from thread_ranks import run_in_threads

from runtime.options import RunOptions
from runtime.program import build_program
from runtime.steps import ReduceStep
from sim.graph_builder import GraphBuilder
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig
from sim.sync import SCHEMES, Sync
from sim.topology import load_topology

FIRST_TWO = ("first", "second")
OPTIONS = RunOptions(num_iterations=2, is_collecting=True, is_double=True, learning_rate=0.1)


@settings(max_examples=60, derandomize=True)
@given(st.randoms(use_true_random=False))
def test_random_strategies_of_random_models_train_like_one_process(random: Random) -> None:
    graph = random_graph(random, max_operators=7, has_custom=False)
    topology = random_topology(random, max_devices=4)
    space = SoapSpace(graph, topology, variant="free", dims=random.choice(["SOAP", "SOAP", "SAP", "O"]))
    sync = Sync(scheme=random.choice(SCHEMES), overlap=random.random() < 0.7)
    problem = Problem(graph, topology, space=space, sync=sync)
    strategy = space.sample_strategy(random_generator(random))

    result = run_in_threads(problem, strategy, options=OPTIONS, is_ordered=random.random() < 0.5)

    assert_same_training(result, OPTIONS)


def image_model() -> OperatorGraph:
    """A convolution with batch norm whose windows overlap, and one that reads its halo."""
    builder = GraphBuilder("images")
    x = builder.conv2d("first", (4, 3, 8, 8), 4, 3, pad=1, batch_norm=True, relu=True)
    x = builder.conv2d("second", x, 4, 5, pad=2, stride=2, bias=False, batch_norm=True)
    builder.softmax("softmax", builder.pool2d("pool", x, 3, pad=1, average=True), 4)
    return builder.build()


def recurrent_model() -> OperatorGraph:
    """Two unrolled steps that share weights, with states handed over."""
    builder = GraphBuilder("sequences")
    words = builder.unrolled_embedding("words", 4, 6, 10, 4, steps_per_op=3)
    states = builder.unrolled_lstm("lstm", words, 4)
    for number, state in enumerate(states):
        builder.softmax(f"softmax{number}", state.sequence, 8, group="softmax")
    return builder.build()


SPLITS: dict[str, tuple[Callable[[], OperatorGraph], dict[str, ParallelConfig]]] = {
    "samples of batch norms": (image_model, {name: ParallelConfig((4, 1, 1, 1), (0, 1, 2, 3)) for name in FIRST_TWO}),
    "rows with a halo": (image_model, {name: ParallelConfig((1, 1, 4, 1), (0, 1, 2, 3)) for name in FIRST_TWO}),
    "rows and columns": (image_model, {name: ParallelConfig((1, 1, 2, 2), (3, 1, 0, 2)) for name in FIRST_TWO}),
    "rows on one device": (image_model, {name: ParallelConfig((1, 1, 4, 1), (1, 1, 1, 2)) for name in FIRST_TWO}),
    "everything": (
        image_model,
        {"first": ParallelConfig((2, 1, 2, 1), (0, 1, 2, 3)), "second": ParallelConfig((1, 2, 1, 2), (3, 3, 1, 0))},
    ),
    "hidden units": (recurrent_model, {name: ParallelConfig((1, 1, 4), (0, 1, 2, 3)) for name in ("lstm_0", "lstm_1")}),
    "hidden units unevenly": (
        recurrent_model,
        {"lstm_0": ParallelConfig((1, 1, 4), (0, 1, 0, 0)), "lstm_1": ParallelConfig((2, 1, 2), (3, 0, 1, 2))},
    ),
    "shared weights on disjoint devices": (
        recurrent_model,
        {"lstm_0": ParallelConfig((1, 1, 1), (1,)), "lstm_1": ParallelConfig((1, 1, 1), (3,))},
    ),
    "vocabulary": (
        recurrent_model,
        {"softmax0": ParallelConfig((1, 1, 4), (0, 1, 2, 3)), "softmax1": ParallelConfig((2, 1, 2), (2, 0, 2, 2))},
    ),
}


@pytest.mark.parametrize("sync", [Sync(), Sync(scheme="parameter_server")], ids=lambda sync: sync.scheme)
@pytest.mark.parametrize("split", SPLITS)
def test_a_split_trains_like_one_process(split: str, sync: Sync) -> None:
    build, configs = SPLITS[split]
    graph, topology = build(), load_topology("cpu_host", num_devices=4)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant="free"), sync=sync)
    strategy = problem.data_parallel
    for name, config in configs.items():
        strategy = strategy.replace(graph.position(name), config)

    result = run_in_threads(problem, strategy, options=OPTIONS)

    assert_same_training(result, OPTIONS)


@pytest.mark.parametrize("split", SPLITS)
def test_gradients_with_messages_of_their_own_train_like_one_process(
    split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.messages.OWN_MESSAGE_BYTES", 100)
    build, configs = SPLITS[split]
    graph, topology = build(), load_topology("cpu_host", num_devices=4)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, variant="free"))
    strategy = problem.data_parallel
    for name, config in configs.items():
        strategy = strategy.replace(graph.position(name), config)

    result = run_in_threads(problem, strategy, options=OPTIONS)

    assert_same_training(result, OPTIONS)


def test_shared_weights_are_reduced_over_all_devices_that_hold_them() -> None:
    build, configs = SPLITS["shared weights on disjoint devices"]
    problem = Problem(build(), load_topology("cpu_host", num_devices=4))
    strategy = problem.data_parallel
    for name, config in configs.items():
        strategy = strategy.replace(problem.graph.position(name), config)

    program, _ = build_program(problem, strategy)

    group = list(problem.graph.weight_groups).index("lstm")
    assert [shard.holders for shard in program.shards[group]] == [(1, 3)]
    assert [step.ranks for step in program.steps if isinstance(step, ReduceStep) and step.group == group] == [(1, 3)]
