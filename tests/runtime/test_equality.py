"""Any strategy trains like one process: losses, gradients and updated weights."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_generator, random_graph, random_topology
from same_training import assert_same_training
from thread_ranks import run_in_threads

from runtime.options import RunOptions
from sim.problem import Problem
from sim.space import SoapSpace
from sim.sync import SCHEMES, Sync

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

    result = run_in_threads(problem, strategy, options=OPTIONS)

    assert_same_training(result, OPTIONS)
