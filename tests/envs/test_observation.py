"""What an observation says of the simulated iteration, held against the task graph."""

import numpy as np
import pytest

from envs.graph_facts import DEVICE_FEATURES, LINK_FEATURES, OPERATOR_FEATURES
from envs.observation import CANDIDATE_FEATURES, DEVICE_STATE_FEATURES, OPERATOR_STATE_FEATURES
from envs.padding import Padding
from envs.soap import SoapEnv
from sim.problem import Problem
from sim.task_graph_builder import build_task_graph

FEATURES = {
    "operators": OPERATOR_FEATURES,
    "operator_states": OPERATOR_STATE_FEATURES,
    "devices": DEVICE_FEATURES,
    "device_states": DEVICE_STATE_FEATURES,
    "links": LINK_FEATURES,
    "candidates": CANDIDATE_FEATURES,
}


@pytest.fixture
def env(problem: Problem) -> SoapEnv:
    """After a few random decisions."""
    env = SoapEnv(problem=problem)
    env.reset()
    env.action_space.seed(3)
    for _ in range(4):
        env.step(env.action_space.sample())
    return env


def columns(env: SoapEnv, array: str) -> dict[str, np.ndarray]:
    """Columns of an array by their names."""
    table = env.observation(env.states)[array].reshape(env.observation.shapes[array])
    return dict(zip(FEATURES[array], table.T, strict=True))


@pytest.mark.parametrize("name", FEATURES)
def test_every_column_has_a_name(env: SoapEnv, name: str) -> None:
    assert env.observation.shapes[name][1] == len(FEATURES[name])


@pytest.mark.parametrize(("kind", "prefix"), [("forward", "forward"), ("backward", "backward")])
def test_operators_run_when_their_tasks_do(env: SoapEnv, kind: str, prefix: str) -> None:
    graph = build_task_graph(env.problem, env.strategy)
    length = graph.simulate()
    tasks = [
        [task for task in graph.tasks if task.kind == kind and task.name.startswith(f"{operator.name}")]
        for operator in env.problem.graph.operators
    ]

    told = columns(env, "operator_states")
    assert told[f"{prefix}_start"] == pytest.approx([min(t.start_time for t in own) / length for own in tasks])
    assert told[f"{prefix}_end"] == pytest.approx([max(t.end_time for t in own) / length for own in tasks])


def test_slack_ends_with_the_first_consumer(env: SoapEnv) -> None:
    told, edges = columns(env, "operator_states"), env.problem.graph.edges
    expected = 1 - told["forward_end"]
    for edge in edges:
        gap = max(0.0, told["forward_start"][edge.dst] - told["forward_end"][edge.src])
        expected[edge.src] = min(expected[edge.src], gap)

    assert told["slack"] == pytest.approx(expected, abs=1e-6)


def test_devices_are_as_busy_as_in_the_simulation(env: SoapEnv) -> None:
    simulation = env.problem.simulation(env.strategy)
    told = columns(env, "device_states")
    capacity = [device.memory_bytes for device in env.problem.topology.devices]

    assert told["busy"] == pytest.approx(simulation.busy_ns / env.problem.data_parallel_ns)
    assert told["memory"] == pytest.approx(simulation.memory_bytes / capacity)


def test_candidates_load_devices_as_they_would(env: SoapEnv) -> None:
    operator = int(env.states.step[0])
    told, problem = columns(env, "candidates"), env.problem
    capacity = [device.memory_bytes for device in problem.topology.devices]
    after = [
        problem.simulation(env.strategy.replace(operator, problem.space.config(operator, index)))
        for index in range(problem.space.num_configs(operator))
    ]

    busy = [max(simulation.busy_ns) / problem.data_parallel_ns for simulation in after]
    assert told["peak_load"][: len(after)] == pytest.approx(busy, rel=1e-3)
    memory = [max(simulation.memory_bytes / capacity) for simulation in after]
    assert told["peak_memory"][: len(after)] == pytest.approx(memory, rel=0.1)  # transfers need memory too


def test_links_are_symmetric_and_none_leads_home(env: SoapEnv) -> None:
    links = env.observation.static["links"].reshape(4, 4, 2)

    assert np.array_equal(links, links.transpose(1, 0, 2))
    assert (links[~np.eye(4, dtype=bool)] > 0).all()
    assert not links[np.eye(4, dtype=bool)].any()


def test_padding_is_zero(problem: Problem) -> None:
    env = SoapEnv(problem=problem, padding=Padding(num_operators=9, num_edges=11, num_devices=6))
    observation, _ = env.reset()
    shapes = env.observation.shapes

    for name, rows in (("operators", 6), ("operator_states", 6), ("devices", 4), ("device_states", 4)):
        assert not observation[name].reshape(shapes[name])[rows:].any()
    assert not observation["links"].reshape(6, 6, 2)[4:].any()
