"""What the observation says of configs, held against the simulator's own enumeration."""

import numpy as np
import pytest

from envs.config_table import ConfigTable
from envs.mdp import Mdp
from envs.soap import SoapEnv
from envs.transfer_table import TransferTable
from sim.flows import tensor_flows
from sim.graph_builder import GraphBuilder
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig, Strategy
from sim.sync import Sync
from sim.topology import load_topology


@pytest.fixture(scope="module")
def mdp(problem: Problem) -> Mdp:
    return SoapEnv(problem=problem).mdp


def test_busy_times_are_those_of_the_simulation(mdp: Mdp) -> None:
    simulation = mdp.problem.simulation()

    table = mdp.table
    numbers = [table.number(operator, config) for operator, config in enumerate(simulation.configs)]
    busy = table.busy[table.operator_class, numbers].sum(axis=0) * mdp.problem.data_parallel_ns
    assert busy == pytest.approx(simulation.busy_ns, rel=1e-5)


@pytest.mark.parametrize(
    ("sync", "training"),
    [(Sync(), True), (Sync(), False), (Sync(scheme="zero", zero_stage=3), True)],
    ids=["training", "forward alone", "zero"],
)
def test_memory_is_that_of_the_simulation(sync: Sync, training: bool) -> None:
    builder = GraphBuilder("one layer twice, then its like alone")
    twice = builder.linear("second", builder.linear("first", (8, 16), 16, group="shared"), 16, group="shared")
    builder.linear("alone", twice, 16)
    graph, topology = builder.build(), load_topology("p100_cluster", num_devices=2)
    problem = Problem(graph, topology, sync=sync, training=training)
    simulation, table = problem.simulation(), ConfigTable(problem, problem.space)

    numbers = [table.number(operator, config) for operator, config in enumerate(simulation.configs)]
    shares = table.memory[table.operator_class, numbers].sum(axis=0)
    assert shares * topology.devices[0].memory_bytes == pytest.approx(simulation.memory_bytes, rel=1e-5)


def test_configs_of_the_space_have_their_indices_as_numbers(mdp: Mdp) -> None:
    pairs = [(operator, index) for operator in range(len(mdp.problem.graph)) for index in (0, 5)]

    assert [mdp.table.number(operator, mdp.space.config(operator, index)) for operator, index in pairs] == [0, 5] * 6


def test_configs_outside_the_space_get_numbers_of_their_own(problem: Problem) -> None:
    space = SoapSpace(problem.graph, problem.topology, variant="aligned", dims="P")
    table = ConfigTable(problem, space)
    width = table.width

    numbers = [table.number(0, ParallelConfig((1, 1, 1, 1), (device,))) for device in (2, 3, 2)]
    assert (numbers, table.width) == ([width, width + 1, width], width + 2)
    assert np.flatnonzero(table.busy[table.operator_class[0], numbers[0]]).tolist() == [2]


@pytest.mark.parametrize("to_candidates", [True, False], ids=["into", "out of"])
def test_transfers_take_no_time_exactly_where_nothing_moves(mdp: Mdp, to_candidates: bool) -> None:
    problem, transfers = mdp.problem, TransferTable(mdp.table)
    for number, edge in enumerate(problem.graph.edges):
        fixed, opened = (edge.src, edge.dst) if to_candidates else (edge.dst, edge.src)
        row = transfers.row(number, problem.data_parallel[fixed], to_candidates=to_candidates)
        configs = [mdp.space.config(opened, index) for index in range(len(row))]
        moved = [bytes_moved(problem, problem.data_parallel.replace(opened, config), number) for config in configs]

        assert (row > 0).tolist() == [num_bytes > 0 for num_bytes in moved]


def test_transfer_time_between_two_devices_is_bytes_over_bandwidth(mdp: Mdp) -> None:
    problem = mdp.problem
    row = TransferTable(mdp.table).row(0, type(problem.data_parallel[0])((1, 1, 1, 1), (0,)), to_candidates=True)
    single = [index for index in range(len(row)) if mdp.space.config(1, index).devices == (1,)]

    inside = 1 / problem.topology.route_arrays().bandwidth.reshape(4, 4)[~np.eye(4, dtype=bool)]
    output = problem.graph.operators[0].outputs[0].num_elements
    assert row[single] * problem.data_parallel_ns == pytest.approx(2 * 4 * output * inside.mean())


def bytes_moved(problem: Problem, strategy: Strategy, edge: int) -> int:
    flows = tensor_flows(problem.graph, strategy, problem.graph.edges[edge])
    return sum(flow.num_bytes for flow in flows if flow.src_device != flow.dst_device)


def test_default_space_is_aligned(problem: Problem) -> None:
    env = SoapEnv(graph=problem.graph, topology=load_topology("p100_cluster", num_devices=4))

    assert env.mdp.space.variant == "aligned"
