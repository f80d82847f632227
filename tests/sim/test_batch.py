"""Many simulations together are what each of them is alone."""

import pickle

import numpy as np
import pytest

from sim.batch import SimulationBatch
from sim.errors import SimError
from sim.models.alexnet import alexnet
from sim.problem import Problem
from sim.simulation import Simulation
from sim.space import SoapSpace
from sim.strategies import single_device
from sim.strategy import ParallelConfig
from sim.topology import load_topology
from sim.workers import Workers

SIZE = 5


@pytest.fixture(scope="module", params=["aligned", "block"])
def problem(request: pytest.FixtureRequest) -> Problem:
    graph, topology = alexnet(num_devices=8), load_topology("p100_cluster", num_devices=8)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant=request.param))


def changes(problem: Problem, count: int, seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    """Operators and indices of random configs."""
    rng = np.random.default_rng(seed)
    operators = rng.integers(len(problem.graph), size=(count, SIZE))
    indices = [[int(rng.integers(problem.space.num_configs(i))) for i in row] for row in operators.tolist()]
    return list(zip(operators, np.array(indices), strict=True))


def prices(simulations: SimulationBatch) -> list[list[int]]:
    return [simulations.cost_ns.tolist(), simulations.overflow_bytes.tolist()]


@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_changes_cost_what_proposals_do(problem: Problem, num_threads: int) -> None:
    start = single_device(problem)
    batch = SimulationBatch(problem.simulation(start), problem.space, SIZE, num_threads=num_threads)
    alone = [problem.simulation(start) for _ in range(SIZE)]
    found, expected = [], []
    for operators, indices in changes(problem, 30):
        batch.change(operators, indices, 0, SIZE)
        found.append(prices(batch))
        for simulation, operator, index in zip(alone, operators.tolist(), indices.tolist(), strict=True):
            simulation.propose(operator, problem.space.config(operator, index))
            simulation.accept()
        expected.append([[s.cost_ns for s in alone], [s.overflow_bytes for s in alone]])

    assert found == expected
    assert [batch.strategy(number) for number in range(SIZE)] == [simulation.strategy for simulation in alone]


def test_only_the_named_ones_change(problem: Problem) -> None:
    batch = SimulationBatch(problem.simulation(), problem.space, SIZE)
    operators, indices = changes(problem, 1)[0]

    batch.change(operators, indices, 1, 3)
    is_changed = [batch.strategy(number) != problem.data_parallel for number in range(SIZE)]
    assert is_changed == [False, True, True, False, False]


def test_a_restarted_one_goes_on_like_a_new_one(problem: Problem) -> None:
    start = problem.simulation()
    used, fresh = (SimulationBatch(start, problem.space, SIZE) for _ in range(2))
    for change in changes(problem, 20, seed=1):
        used.change(*change, 0, SIZE)
    used.restart(np.ones(SIZE, dtype=bool), start)
    found = []
    for change in changes(problem, 20):
        for batch in (used, fresh):
            batch.change(*change, 0, SIZE)
        found.append(prices(used) == prices(fresh))

    assert found == [True] * 20


def test_a_restart_finds_room_for_a_larger_task_graph(problem: Problem) -> None:
    batch = SimulationBatch(problem.simulation(single_device(problem)), problem.space, 2)
    large = problem.simulation()
    while len(large.state.task) <= batch.states.task.shape[1]:
        large._state = large._state._replace(task=np.concatenate([large.state.task, np.zeros_like(large.state.task)]))

    batch.restart(np.array([False, True]), large)
    assert batch.cost_ns.tolist() == [problem.simulation(single_device(problem)).cost_ns, problem.data_parallel_ns]


def test_pickled_ones_go_on_alike(problem: Problem) -> None:
    batch = SimulationBatch(problem.simulation(), problem.space, SIZE, num_threads=2)
    first, second = changes(problem, 2)
    batch.change(*first, 0, SIZE)

    twin = pickle.loads(pickle.dumps(batch))
    for simulations in (batch, twin):
        simulations.change(*second, 0, SIZE)
    assert (prices(twin), twin.workers.num_threads) == (prices(batch), 2)


def test_a_config_from_outside_the_space_is_told(problem: Problem) -> None:
    config = ParallelConfig((2, 1, 1, 1), (5, 1))
    simulation = Simulation(problem, problem.data_parallel.replace(0, config))

    assert SimulationBatch(simulation, problem.space, 1).config(0, 0) == config


@pytest.mark.parametrize(("num_threads", "count", "parts"), [(1, 5, [5]), (2, 5, [2, 3]), (4, 2, [1, 1]), (2, 0, [0])])
def test_threads_share_a_range(num_threads: int, count: int, parts: list[int]) -> None:
    assert Workers(num_threads).run(lambda first, last: last - first, count) == parts


def test_parts_are_not_too_small() -> None:
    assert Workers(4).run(lambda first, last: last - first, 10, least=5) == [5, 5]


def test_no_thread_at_all_is_refused() -> None:
    with pytest.raises(SimError) as error:
        Workers(0)
    assert str(error.value) == "num_threads must be at least 1, not 0"
