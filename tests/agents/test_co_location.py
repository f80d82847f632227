"""Co-location groups and what may be decided for them."""

import numpy as np
import pytest

from agents.co_location import co_location_groups, make_catalogue
from agents.colocrl import group_features
from agents.errors import AgentError
from sim.graph_builder import GraphBuilder
from sim.models.inception_v3 import inception_v3
from sim.models.nmt import nmt
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig
from sim.topology import load_topology


@pytest.fixture(scope="module")
def diamond() -> OperatorGraph:
    """a is read by b and c; c by d; b and d by e; c and d share weights."""
    builder = GraphBuilder("diamond")
    a = builder.linear("a", (8, 4), 4)
    b = builder.linear("b", a, 4)
    c = builder.linear("c", a, 4, group="shared")
    d = builder.linear("d", c, 4, group="shared")
    builder.add("e", b, d)
    return builder.build()


def problem_of(graph: OperatorGraph, dims: str = "SOAP") -> Problem:
    topology = load_topology("p100_cluster", num_devices=2)
    return Problem(graph, topology, space=SoapSpace(graph, topology, dims=dims))


def test_without_a_rule_every_operator_is_a_group(diamond: OperatorGraph) -> None:
    assert co_location_groups(diamond, rule="none", fuse_shared=False) == ((0,), (1,), (2,), (3,), (4,))


def test_chains_are_what_only_one_reads_that_reads_nothing_else(diamond: OperatorGraph) -> None:
    assert co_location_groups(diamond, rule="chains", fuse_shared=False) == ((0,), (1,), (2, 3), (4,))


def test_the_papers_rule_also_joins_a_consumer_that_reads_more(diamond: OperatorGraph) -> None:
    assert co_location_groups(diamond, rule="consumers", fuse_shared=False) == ((0, 1, 2, 3, 4),)


def test_operators_that_share_weights_may_begin_as_one_group(diamond: OperatorGraph) -> None:
    assert co_location_groups(diamond, rule="none", fuse_shared=True) == ((0,), (1,), (2, 3), (4,))


@pytest.mark.parametrize(("model", "num_groups"), [(inception_v3, (121, 62, 1)), (nmt, (40, 38, 22))])
def test_the_papers_rule_leaves_one_group_of_inception(
    model: type[OperatorGraph], num_groups: tuple[int, int, int]
) -> None:
    graph = model(num_devices=4)  # type: ignore[call-arg]

    rules = ("none", "chains", "consumers")
    assert tuple(len(co_location_groups(graph, rule=rule, fuse_shared=False)) for rule in rules) == num_groups  # type: ignore[arg-type]


def test_a_placement_puts_whole_operators_of_a_group_on_one_device(diamond: OperatorGraph) -> None:
    groups = co_location_groups(diamond, rule="chains", fuse_shared=False)
    catalogue = make_catalogue(problem_of(diamond, "O"), groups, actions="devices", aligned_only=True)

    whole = [ParallelConfig((1, 1), (device,)) for device in (0, 1)]
    assert catalogue.chosen([0, 1, 0, 1]) == [whole[0], whole[1], whole[0], whole[0], whole[1]]


def test_soap_actions_are_exactly_the_legal_configs(diamond: OperatorGraph) -> None:
    problem = problem_of(diamond)
    groups = co_location_groups(diamond, rule="none", fuse_shared=False)
    catalogue = make_catalogue(problem, groups, actions="soap", aligned_only=False)

    for operator, row in enumerate(catalogue.configs):
        legal = {problem.space.config(operator, k) for k in range(problem.space.num_configs(operator))}
        assert {own[0] for own in row if own} == legal


def test_the_mask_says_which_configs_a_group_has() -> None:
    builder = GraphBuilder("odd")
    builder.linear("b", builder.linear("a", (2, 4), 4), 3)
    groups = ((0,), (1,))
    catalogue = make_catalogue(problem_of(builder.build()), groups, actions="soap", aligned_only=False)

    is_split = [any(own and own[0].degrees == (1, 2) for own in row) for row in catalogue.configs]
    assert (is_split, catalogue.mask.sum(axis=1).tolist()) == ([True, False], [4, 3])


def test_placements_need_the_dimension_o(diamond: OperatorGraph) -> None:
    with pytest.raises(AgentError) as caught:
        make_catalogue(problem_of(diamond, "SAP"), ((0, 1, 2, 3, 4),), actions="devices", aligned_only=True)

    assert str(caught.value) == "whole operators cannot be placed in space.dims=SAP, which lacks O"


def test_a_group_without_a_common_config_is_refused() -> None:
    builder = GraphBuilder("unlike")
    builder.flat("b", builder.conv2d("a", (2, 3, 8, 8), 4, (3, 3)))

    with pytest.raises(AgentError) as caught:
        make_catalogue(problem_of(builder.build()), ((0, 1),), actions="soap", aligned_only=True)

    assert str(caught.value) == (
        "operators 'a', 'b' are one group, but have no config in common; choose agent.grouping=none"
    )


def test_features_are_types_sizes_and_neighbours(diamond: OperatorGraph) -> None:
    groups = co_location_groups(diamond, rule="chains", fuse_shared=False)

    features = group_features(diamond, groups)
    types, sizes, reads, is_read_by = np.split(features, [2, 6, 10], axis=1)
    assert types.tolist() == [[0, 1], [0, 1], [0, 2], [1, 0]]
    assert sizes[0] == pytest.approx([0.3, 0.2, 0, 0])
    assert [np.flatnonzero(row).tolist() for row in reads] == [[], [0], [0], [1, 2]]
    assert [np.flatnonzero(row).tolist() for row in is_read_by] == [[1, 2], [3], [3], []]
