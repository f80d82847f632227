"""A simulated and a measured iteration in one file."""

import pytest
from trace_reader import READINGS, trace_faults

from experiments.paired_timeline import paired_events
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.task_graph import TaskGraph
from sim.task_graph_builder import build_task_graph
from sim.topology import load_topology


@pytest.fixture
def task_graph() -> TaskGraph:
    problem = Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))
    graph = build_task_graph(problem, problem.data_parallel)
    graph.simulate()
    return graph


def test_arrows_of_one_process_do_not_lead_into_the_other(task_graph: TaskGraph) -> None:
    assert trace_faults(paired_events(task_graph, task_graph), READINGS["rounded"]) == []
