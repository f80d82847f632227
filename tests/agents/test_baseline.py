import math

import pytest

from agents.baseline import Baseline
from agents.budget import Budget
from sim.errors import IllegalConfigError, UnknownNameError
from sim.models.alexnet import alexnet
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.models.resnet101_linear import resnet101_linear
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategies import STRATEGY_NAMES, named_strategy
from sim.strategy import Strategy
from sim.topology import load_topology

P100 = load_topology("p100_cluster", num_devices=4)
ALEXNET = Problem(alexnet(num_devices=4), P100)


def found(problem: Problem, strategy: str) -> Strategy:
    return Baseline(strategy=strategy, seed=0).search(problem, Budget(simulations=10)).strategy


def degrees(problem: Problem, strategy: str) -> dict[str, tuple[int, int]]:
    """Of each operator, the degrees of samples and of output channels, which are all the parts that it has."""
    named = {
        operator.name: (config.degrees[0], config.degrees[1])
        for operator, config in zip(problem.graph.operators, found(problem, strategy).configs, strict=True)
    }
    assert all(math.prod(config.degrees[:2]) == config.num_tasks for config in found(problem, strategy).configs)
    return named


@pytest.mark.parametrize("name", [name for name in STRATEGY_NAMES if name != "random"])
def test_a_baseline_is_one_pricing_of_the_named_strategy(name: str) -> None:
    result = Baseline(strategy=name, seed=0).search(ALEXNET, Budget(simulations=10))
    strategy = named_strategy(name, ALEXNET, None)  # type: ignore[arg-type]

    assert (result.strategy, result.simulations) == (strategy, 1)


def test_one_weird_trick_is_the_published_strategy_of_alexnet() -> None:
    """The 2019 artifact on 4 GPUs: convolutions and pools by samples, the three linears by channel (REFERENCE 0.7)."""
    published = {operator.name: (4, 1) for operator in ALEXNET.graph.operators}
    published |= {operator.name: (1, 4) for operator in ALEXNET.graph.operators[-3:]}

    assert len(published) == 12
    assert degrees(ALEXNET, "one_weird_trick") == degrees(ALEXNET, "expert") == published


def test_one_weird_trick_is_the_published_strategy_of_resnet() -> None:
    """The 2019 artifact on 4 GPUs: samples everywhere, but for the linear layer at the end (REFERENCE 0.7)."""
    problem = Problem(resnet101_linear(num_devices=4), P100)
    published = {operator.name: (4, 1) for operator in problem.graph.operators}
    published[problem.graph.operators[-1].name] = (1, 4)

    assert degrees(problem, "one_weird_trick") == published


def test_the_published_strategy_of_alexnet_beats_data_parallelism() -> None:
    result = Baseline(strategy="one_weird_trick", seed=0).search(ALEXNET, Budget(simulations=1))

    assert result.cost_ns < ALEXNET.data_parallel_ns


def test_model_parallelism_goes_down_the_devices_with_depth() -> None:
    devices = [config.devices for config in found(ALEXNET, "model_parallel").configs]

    assert devices == sorted(devices)
    assert {len(device) for device in devices} == {1}


def test_model_parallelism_balances_the_work() -> None:
    problem = Problem(nmt(num_devices=4), P100)
    simulation = problem.simulation(found(problem, "model_parallel"))

    assert max(simulation.busy_ns) < 1.6 * simulation.busy_ns.mean()


def test_the_expert_of_a_recurrent_model_keeps_a_layer_on_one_device_of_each_node() -> None:
    topology = load_topology("p100_cluster", num_devices=16)
    problem = Problem(nmt(num_devices=16), topology)
    strategy = found(problem, "expert")

    for members in problem.graph.weight_groups.values():
        assert len({strategy[i] for i in members}) == 1
        assert [topology.devices[d].node for d in strategy[members[0]].devices] == [0, 1, 2, 3]


def test_a_baseline_outside_the_space_is_refused() -> None:
    graph = lenet(num_devices=4)
    problem = Problem(graph, P100, space=SoapSpace(graph, P100, dims="S"))

    with pytest.raises(IllegalConfigError) as error:
        found(problem, "one_weird_trick")

    assert str(error.value).endswith("it is not in the space block/S")


def test_an_unknown_baseline_is_refused() -> None:
    with pytest.raises(UnknownNameError) as error:
        found(ALEXNET, "guess")

    assert str(error.value) == f"unknown strategy 'guess'; choose one of {', '.join(STRATEGY_NAMES)}"
