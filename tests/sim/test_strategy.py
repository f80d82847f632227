"""Strategies on disk: what is written comes back, and what does not fit is refused with a reason."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_problem, random_strategy

from sim.errors import IllegalConfigError, MismatchError, StrategyFormatError
from sim.models.lenet import lenet
from sim.models.rnnlm import rnnlm
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import ParallelConfig, Strategy
from sim.topology import DeviceTopology, load_topology

GRAPH = lenet(num_devices=4)
TOPOLOGY = load_topology("p100_cluster", num_devices=4)
CONV1, LINEAR = GRAPH.operators[0], GRAPH.operators[4]


@pytest.fixture
def strategy() -> Strategy:
    return Problem(GRAPH, TOPOLOGY).data_parallel


@pytest.fixture
def document(strategy: Strategy) -> dict[str, Any]:
    return strategy.to_dict()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "strategy.json"


def load_error(
    path: Path, document: object, graph: OperatorGraph = GRAPH, topology: DeviceTopology = TOPOLOGY
) -> ValueError:
    """What loading a file with this content raises."""
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError) as caught:
        Strategy.load(path, graph, topology)
    return caught.value


def config_error(degrees: tuple[int, ...], devices: tuple[int, ...]) -> IllegalConfigError:
    """What a config of conv1 (256 x 20 x 24 x 24) on four devices raises."""
    with pytest.raises(IllegalConfigError) as caught:
        ParallelConfig(degrees, devices).check(CONV1, 4)
    return caught.value


# Round trip


def test_a_saved_strategy_loads_again(strategy: Strategy, path: Path) -> None:
    strategy.save(path)

    assert Strategy.load(path, GRAPH, TOPOLOGY).configs == strategy.configs


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_any_strategy_survives_json(seed: int) -> None:
    random = Random(seed)
    problem = random_problem(random)
    strategy = random_strategy(problem, random)
    content = json.loads(json.dumps(strategy.to_dict()))

    assert Strategy.from_dict(content, problem.graph, problem.topology, path="-").configs == strategy.configs


def test_the_file_names_model_topology_and_format(document: dict[str, Any]) -> None:
    assert {key: document[key] for key in ("format_version", "model", "topology", "num_devices")} == {
        "format_version": 1,
        "model": "lenet",
        "topology": "p100_cluster",
        "num_devices": 4,
    }


def test_the_file_leaves_degrees_of_one_out(document: dict[str, Any]) -> None:
    assert document["configs"]["conv1"] == {"degrees": {"sample": 4}, "devices": [0, 1, 2, 3]}


def test_saving_replaces_the_file_and_leaves_no_other(strategy: Strategy, path: Path) -> None:
    path.write_text("old")
    strategy.save(path)

    assert [entry.name for entry in path.parent.iterdir()] == ["strategy.json"]


def test_saving_that_fails_keeps_the_old_file(strategy: Strategy, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy.save(path)
    before = path.read_text()

    def fail(self: Path, text: str) -> int:
        with self.open("w") as file:
            file.write(text[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match="No space left"):
        strategy.replace(0, ParallelConfig((1, 1, 1, 1), (0,))).save(path)

    assert path.read_text() == before


def test_saving_that_fails_leaves_no_draft(strategy: Strategy, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="Permission denied"):
        strategy.save(path)

    assert list(path.parent.iterdir()) == []


def test_equal_strategies_have_equal_hashes(strategy: Strategy) -> None:
    again = Strategy(GRAPH, TOPOLOGY, strategy.configs)

    assert (again, again.hash, hash(again)) == (strategy, strategy.hash, hash(strategy))


def test_the_hash_tells_devices_apart(strategy: Strategy) -> None:
    moved = strategy.replace(0, ParallelConfig((4, 1, 1, 1), (3, 2, 1, 0)))

    assert moved.hash != strategy.hash


def test_the_hash_tells_topologies_apart(strategy: Strategy) -> None:
    pairwise = load_topology("p100_cluster", num_devices=4, reading="pairwise")

    assert Strategy(GRAPH, pairwise, strategy.configs).hash != strategy.hash


# Refusals


def test_a_strategy_of_another_graph_is_refused(path: Path, document: dict[str, Any]) -> None:
    other = lenet(num_devices=4, hidden=100)
    error = load_error(path, document, graph=other)

    assert isinstance(error, MismatchError)
    assert str(error) == (
        f"the strategy was made for operator graph 'lenet' ({GRAPH.hash}), but this run has 'lenet' ({other.hash})"
    )
    assert (error.what, error.expected, error.found) == (
        "operator graph",
        f"'lenet' ({other.hash})",
        f"'lenet' ({GRAPH.hash})",
    )


def test_a_strategy_of_another_topology_is_refused(path: Path, document: dict[str, Any]) -> None:
    other = load_topology("p100_cluster", num_devices=8)
    error = load_error(path, document, topology=other)

    assert isinstance(error, MismatchError)
    assert str(error) == (
        f"the strategy was made for device topology 'p100_cluster' ({TOPOLOGY.hash}), "
        f"but this run has 'p100_cluster' ({other.hash})"
    )
    assert error.what == "device topology"


def test_pricing_a_strategy_of_another_topology_is_refused(strategy: Strategy) -> None:
    other = load_topology("p100_cluster", num_devices=2)

    with pytest.raises(MismatchError) as error:
        Problem(GRAPH, other).simulation(strategy)
    assert str(error.value) == (
        f"the strategy was made for device topology 'p100_cluster' ({TOPOLOGY.hash}), "
        f"but this run has 'p100_cluster' ({other.hash})"
    )


def test_a_problem_on_the_space_of_another_graph_is_refused() -> None:
    other = lenet(num_devices=2)

    with pytest.raises(MismatchError) as error:
        Problem(GRAPH, TOPOLOGY, space=SoapSpace(other, TOPOLOGY))
    assert str(error.value) == (
        f"the space was made for operator graph 'lenet' ({other.hash}), but this run has 'lenet' ({GRAPH.hash})"
    )


def test_a_missing_file_is_refused(path: Path) -> None:
    with pytest.raises(StrategyFormatError) as caught:
        Strategy.load(path, GRAPH, TOPOLOGY)

    assert str(caught.value) == f"strategy file {path}: No such file or directory"
    assert (caught.value.path, caught.value.reason) == (str(path), "No such file or directory")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StrategyFormatError) as caught:
        Strategy.load(tmp_path, GRAPH, TOPOLOGY)

    assert str(caught.value) == f"strategy file {tmp_path}: Is a directory"


def test_a_file_that_is_not_json_is_refused(path: Path) -> None:
    path.write_text("{degrees: 4}")
    with pytest.raises(StrategyFormatError) as caught:
        Strategy.load(path, GRAPH, TOPOLOGY)

    assert str(caught.value) == (
        f"strategy file {path}: is not JSON "
        "(Expecting property name enclosed in double quotes: line 1 column 2 (char 1))"
    )


def test_a_file_that_is_not_text_is_refused(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StrategyFormatError) as caught:
        Strategy.load(path, GRAPH, TOPOLOGY)

    assert str(caught.value).startswith(f"strategy file {path}: is not JSON ('utf-8' codec can't decode")


@pytest.mark.parametrize("content", [[], None, 4, {}, {"format_version": 2}, {"format_version": "1"}], ids=repr)
def test_another_format_is_refused(path: Path, content: object) -> None:
    error = load_error(path, content)

    assert isinstance(error, StrategyFormatError)
    assert str(error) == f"strategy file {path}: is not a strategy of format version 1"


def test_a_strategy_without_configs_is_refused(path: Path, document: dict[str, Any]) -> None:
    del document["configs"]
    error = load_error(path, document)

    assert str(error) == f"strategy file {path}: has no configs"


def test_a_missing_operator_is_refused(path: Path, document: dict[str, Any]) -> None:
    del document["configs"]["pool2"]
    error = load_error(path, document)

    assert str(error) == f"strategy file {path}: has no config for operator 'pool2'"


@pytest.mark.parametrize(
    "config",
    [
        None,
        4,
        {},
        {"degrees": {"sample": 4}},
        {"devices": [0]},
        {"degrees": 4, "devices": [0]},
        {"degrees": [4], "devices": [0]},
        {"degrees": {"sample": "four"}, "devices": [0]},
        {"degrees": {"sample": None}, "devices": [0]},
        {"degrees": {"sample": 1.5}, "devices": [0]},
        {"degrees": {"sample": "1"}, "devices": [0]},
        {"degrees": {}, "devices": 0},
        {"degrees": {}, "devices": "0"},
        {"degrees": {}, "devices": ["zero"]},
        {"degrees": {}, "devices": [0.5]},
        {"degrees": {}, "devices": [True]},
        {"degrees": {}, "devices": [0], "strides": [1]},
    ],
    ids=repr,
)
def test_a_garbled_config_is_refused(path: Path, document: dict[str, Any], config: object) -> None:
    document["configs"]["conv2"] = config
    error = load_error(path, document)

    assert isinstance(error, StrategyFormatError)
    assert str(error) == (
        f"strategy file {path}: has {config!r} for operator 'conv2' "
        "instead of 'degrees' (integers by dimension) and 'devices' (a list of integers)"
    )


def test_an_operator_that_the_graph_lacks_is_refused(path: Path, document: dict[str, Any]) -> None:
    document["configs"]["conv3"] = {"degrees": {}, "devices": [0]}
    error = load_error(path, document)

    assert str(error) == f"strategy file {path}: has a config for operator 'conv3', which the model lacks"


def test_an_unknown_dimension_is_refused(path: Path, document: dict[str, Any]) -> None:
    document["configs"]["linear"] = {"degrees": {"height": 2}, "devices": [0, 1]}
    error = load_error(path, document)
    config = ParallelConfig((1, 1), (0, 1))

    assert isinstance(error, IllegalConfigError)
    assert str(error) == f"config {config} of operator 'linear': it has no dimension called 'height'"
    assert (error.operator, error.config, error.reason) == ("linear", config, "it has no dimension called 'height'")


@pytest.mark.parametrize(
    ("degrees", "devices", "reason"),
    [
        ((3, 1, 1, 1), (0, 1, 2), "degree 3 does not divide dimension 'sample' of size 256"),
        ((0, 1, 1, 1), (), "degree 0 of dimension 'sample' is not positive"),
        ((-1, 1, 1, 1), (0,), "degree -1 of dimension 'sample' is not positive"),
        ((2, 2), (0, 1, 2, 3), "it needs one degree for each of 4 dimensions"),
        ((2, 1, 1, 1), (0,), "2 parts need as many devices, not 1"),
        ((1, 1, 1, 1), (), "1 parts need as many devices, not 0"),
        ((2, 1, 1, 1), (0, 4), "device 4 does not exist; there are 4"),
        ((2, 1, 1, 1), (0, -1), "device -1 does not exist; there are 4"),
        ((8, 1, 1, 1), (0, 1, 2, 3, 0, 1, 2, 3), "8 parts are more than the 4 devices"),
    ],
    ids=repr,
)
def test_an_illegal_config_is_refused(degrees: tuple[int, ...], devices: tuple[int, ...], reason: str) -> None:
    error = config_error(degrees, devices)
    config = ParallelConfig(degrees, devices)

    assert str(error) == f"config {config} of operator 'conv1': {reason}"
    assert (error.operator, error.config, error.reason) == ("conv1", config, reason)


def test_a_dimension_that_is_not_divisible_is_refused() -> None:
    embedding = rnnlm(num_devices=4, steps=4, steps_per_op=2).operators[0]
    with pytest.raises(IllegalConfigError) as caught:
        ParallelConfig((1, 2, 1), (0, 1)).check(embedding, 4)

    assert caught.value.reason == "dimension 'step' is not divisible"


def test_a_loaded_config_is_checked(path: Path, document: dict[str, Any]) -> None:
    document["configs"]["linear"] = {"degrees": {"channel": 3}, "devices": [0, 1, 2]}
    error = load_error(path, document)

    assert isinstance(error, IllegalConfigError)
    assert error.reason == "degree 3 does not divide dimension 'channel' of size 500"


def test_too_few_configs_are_refused(strategy: Strategy) -> None:
    with pytest.raises(IllegalConfigError) as caught:
        Strategy(GRAPH, TOPOLOGY, strategy.configs[:-1])

    assert caught.value.reason == "a strategy needs 6 configs"


# Parts


def test_parts_are_numbered_row_major() -> None:
    config = ParallelConfig((2, 3), (0, 1, 2, 3, 4, 5))

    assert [config.coordinates(part) for part in range(6)] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_the_boxes_of_the_parts_tile_the_output() -> None:
    config = ParallelConfig((2, 2), (0, 1, 2, 3))

    assert [config.box(LINEAR, part) for part in range(4)] == [
        ((0, 128), (0, 250)),
        ((0, 128), (250, 500)),
        ((128, 256), (0, 250)),
        ((128, 256), (250, 500)),
    ]


def test_a_file_nested_too_deeply_is_refused(path: Path) -> None:
    path.write_text("[" * 100_000)

    with pytest.raises(StrategyFormatError, match="is not JSON \\(maximum recursion depth exceeded"):
        Strategy.load(path, GRAPH, TOPOLOGY)
