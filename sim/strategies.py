"""Named strategies: the baselines that a person would write by hand (REFERENCE 2.11)."""

import math
from collections.abc import Callable

import numpy as np

from sim.errors import UnknownNameError
from sim.operator_graph import Operator, OperatorGraph
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.topology import DeviceTopology

PARAMETER_SPLIT_KINDS = ("linear", "softmax")
"""What "one weird trick" splits by output channel."""


def data_parallel(graph: OperatorGraph, topology: DeviceTopology) -> Strategy:
    """Samples of every operator over all devices (as many as divide them)."""
    configs = [_split(operator, topology.num_devices, ("S",)) for operator in graph.operators]
    return Strategy(graph, topology, configs)


def single_device(problem: Problem) -> Strategy:
    """Everything on the first device."""
    configs = [ParallelConfig((1,) * len(operator.dims), (0,)) for operator in problem.graph.operators]
    return Strategy(problem.graph, problem.topology, configs)


def model_parallel(problem: Problem) -> Strategy:
    """Consecutive operators on one device, each device with about the same work; no operator is split."""
    kind, num_devices = problem.topology.devices[0].kind, problem.topology.num_devices
    times = [
        sum(problem.cost.part_ns(operator, (1,) * len(operator.dims), kind)) for operator in problem.graph.operators
    ]
    middles = np.cumsum(times) - np.array(times) / 2
    devices = np.minimum(middles * num_devices // max(1, sum(times)), num_devices - 1).astype(int)
    configs = [
        ParallelConfig((1,) * len(operator.dims), (device,))
        for operator, device in zip(problem.graph.operators, devices.tolist(), strict=True)
    ]
    return Strategy(problem.graph, problem.topology, configs)


def one_weird_trick(problem: Problem) -> Strategy:
    """Krizhevsky 2014: linear operators by output channel, all others by samples.

    Where the channels cannot be split over all devices, the rest of the degree goes to the samples.
    """
    configs = [
        _split(operator, problem.topology.num_devices, ("P", "S") if operator.kind in PARAMETER_SPLIT_KINDS else ("S",))
        for operator in problem.graph.operators
    ]
    return Strategy(problem.graph, problem.topology, configs)


def layer_per_device(problem: Problem) -> Strategy:
    """Wu 2016 (GNMT): one copy of the model on each node; within a node the layers take its devices in turn."""
    topology = problem.topology
    nodes: dict[int, list[int]] = {}
    for position, device in enumerate(topology.devices):
        nodes.setdefault(device.node, []).append(position)
    width = min(len(members) for members in nodes.values())
    layers: dict[str, int] = {}
    configs = []
    for operator in problem.graph.operators:
        layer = operator.weight.group if operator.weight is not None else _last(layers)
        place = layers.setdefault(layer, len(layers)) % width
        degree = _largest_divisor(operator.sizes[0], len(nodes)) if operator.dims[0].label == "S" else 1
        devices = tuple(members[place] for members in list(nodes.values())[:degree])
        configs.append(ParallelConfig((degree, *(1,) * (len(operator.dims) - 1)), devices))
    return Strategy(problem.graph, topology, configs)


def expert(problem: Problem) -> Strategy:
    """What an expert would choose: ``layer_per_device`` for recurrent models, ``one_weird_trick`` for others."""
    is_recurrent = any(operator.kind == "lstm" for operator in problem.graph.operators)
    return layer_per_device(problem) if is_recurrent else one_weird_trick(problem)


def named_strategy(name: str, problem: Problem, rng: np.random.Generator) -> Strategy:
    """The strategy called ``name``.

    Args:
        name: one of ``STRATEGY_NAMES``.
        problem: what it is for.
        rng: draws the configs of ``random``.

    Raises:
        UnknownNameError: there is none of this name.
    """
    if name == "random":
        return problem.space.sample_strategy(rng)
    if name == "data_parallel":
        return problem.data_parallel
    if name not in _BUILDERS:
        raise UnknownNameError("strategy", name, list(STRATEGY_NAMES))
    return _BUILDERS[name](problem)


def start_strategy(name: str, problem: Problem, rng: np.random.Generator) -> Strategy:
    """The strategy called ``name`` inside the problem's space: configs that this does not have are drawn from it."""
    space, strategy = problem.space, named_strategy(name, problem, rng)
    configs = [config if space.has(i, config) else space.sample(i, rng) for i, config in enumerate(strategy.configs)]
    return Strategy(problem.graph, problem.topology, configs)


def _split(operator: Operator, num_devices: int, labels: tuple[str, ...]) -> ParallelConfig:
    """Split the dimensions of the given labels, one label after the other, until all devices are used."""
    degrees = [1] * len(operator.dims)
    for label in labels:
        for d, dim in enumerate(operator.dims):
            if dim.label == label:
                degrees[d] = _largest_divisor(dim.size, num_devices // math.prod(degrees))
    return ParallelConfig(tuple(degrees), tuple(range(math.prod(degrees))))


def _largest_divisor(size: int, limit: int) -> int:
    """The largest divisor of ``size`` that is at most ``limit``."""
    return next(degree for degree in range(limit, 0, -1) if size % degree == 0)


def _last(layers: dict[str, int]) -> str:
    return next(reversed(layers), "")


_BUILDERS: dict[str, Callable[[Problem], Strategy]] = {
    "single_device": single_device,
    "model_parallel": model_parallel,
    "one_weird_trick": one_weird_trick,
    "layer_per_device": layer_per_device,
    "expert": expert,
}
STRATEGY_NAMES = ("data_parallel", *_BUILDERS, "random")
"""What ``named_strategy`` knows."""
