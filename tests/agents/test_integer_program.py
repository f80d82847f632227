"""The integer program finds what elimination finds, and says how good it is."""

from random import Random
from typing import Any, cast

import pytest
from config_networks import network_of, silent
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.agent import Agent, SearchResult
from agents.budget import Budget, Progress
from agents.dominance import without_dominated
from agents.elimination import min_fill_order, minimise
from agents.errors import AgentError
from agents.integer_program import IntegerProgram
from agents.optcnn import OptCnn
from sim.models.inception_v3 import inception_v3
from sim.models.nmt import nmt
from sim.models.resnet101 import resnet101
from sim.models.rnntc import rnntc
from sim.problem import Problem
from sim.sync import Sync
from sim.topology import load_topology


def integer_program(**options: Any) -> IntegerProgram:
    defaults: dict[str, Any] = {"placements": "same", "fuse_shared": True, "time_limit_s": 60.0, "seed": 0}
    return IntegerProgram(**(defaults | options))


def optcnn(**options: Any) -> OptCnn:
    defaults: dict[str, Any] = {"placements": "same", "fuse_shared": True, "seed": 0}
    return OptCnn(elimination="buckets", memory_gb=1.0, **(defaults | options))


def searched(agent: Agent, problem: Problem) -> SearchResult:
    return agent.search(problem, Budget(simulations=1))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_dropping_dominated_configs_keeps_the_optimum(seed: int) -> None:
    random = Random(seed)
    count = random.randint(1, 7)
    pairs = [(u, v) for v in range(count) for u in range(v) if random.random() < 0.5]
    network = network_of([random.randint(1, 5) for _ in range(count)], pairs, random)
    smaller = without_dominated(network, look=silent)
    costs = [minimise(n, min_fill_order(n), memory_gb=1.0, look=silent)[0] for n in (network, smaller)]

    assert costs[0] == costs[1]


def test_of_equal_configs_one_stays() -> None:
    network = network_of([5, 5], [(0, 1)], Random(0), most=1)

    assert [len(costs) for costs in without_dominated(network, look=silent).unary] == [1, 1]


@pytest.mark.parametrize("scheme", ["ring", "parameter_server"])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (inception_v3, {}),
        (resnet101, {}),
        (nmt, {}),
        (nmt, {"fuse_shared": False}),
        (rnntc, {"fuse_shared": False}),
        (nmt, {"placements": "aligned"}),
    ],
)
def test_it_finds_the_optimum_of_elimination_and_proves_it(model: Any, options: dict[str, Any], scheme: Any) -> None:
    topology = load_topology("p100_cluster", num_devices=4)
    problem = Problem(model(num_devices=4), topology, sync=Sync(scheme=scheme, overlap=False))
    notes = searched(integer_program(**options), problem).notes
    optimum = searched(optcnn(**options), problem).notes["additive_ms"]

    assert (notes["additive_ms"], notes["solver"]) == (optimum, "optimal")
    assert notes["additive_bound_ms"] == pytest.approx(optimum, rel=1e-6)


@pytest.fixture(scope="module")
def large() -> Problem:
    return Problem(resnet101(num_devices=8), load_topology("p100_cluster", num_devices=8))


def test_stopped_before_it_has_a_choice_it_prices_data_parallelism(large: Problem) -> None:
    result = searched(integer_program(time_limit_s=1e-3), large)

    assert dict(result.notes) == {"solver": "stopped at the time limit"}
    assert (result.simulations, result.cost_ns) == (1, large.data_parallel_ns)


def test_stopped_on_its_way_its_choice_and_its_bound_enclose_the_optimum(large: Problem) -> None:
    notes = searched(integer_program(time_limit_s=0.5), large).notes
    optimum = cast(float, searched(optcnn(), large).notes["additive_ms"])

    assert cast(float, notes.get("additive_bound_ms", 0.0)) <= optimum + 1e-6
    assert cast(float, notes.get("additive_ms", optimum)) >= optimum


def test_an_interrupted_search_does_not_wait_for_the_solver(large: Problem) -> None:
    stages: list[str] = []

    def interrupt(progress: Progress) -> None:
        stages.append(progress.stage[:5])
        if stages.count("HiGHS") == 1:
            raise KeyboardInterrupt

    result = integer_program().search(large, Budget(simulations=1), interrupt)

    assert (result.is_interrupted, result.simulations) == (True, 0)


def test_a_budget_of_seconds_limits_the_solver() -> None:
    problem = Problem(resnet101(num_devices=16), load_topology("p100_cluster"))
    result = integer_program().search(problem, Budget(seconds=0.5))

    assert result.seconds < 3


def test_a_time_limit_of_nothing_is_refused() -> None:
    with pytest.raises(AgentError) as error:
        integer_program(time_limit_s=0.0)

    assert str(error.value) == "agent.time_limit_s must be positive, not 0.0"
