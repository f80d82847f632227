"""Random problems with few strategies, and all of these priced one by one."""

import math
from itertools import product
from random import Random

from random_problems import random_problem, random_times

from sim import topologies
from sim.problem import Problem
from sim.space import SoapSpace
from sim.strategy import Strategy
from sim.task_graph_builder import build_task_graph
from sim.topology import DeviceTopology
from sim.tree import Choice, listed_configs

MAX_STRATEGIES = 400


def tiny_choice(random: Random, *, is_flat: bool = False) -> Choice:
    """A random problem with at most 400 strategies, in any space; on devices that are all alike if ``is_flat``."""
    while True:
        problem = random_problem(random, max_operators=4, max_devices=3)
        if is_flat:
            problem = on_equal_devices(problem, random)
        listed = [listed_configs(problem.space, operator, 60) for operator in range(len(problem.graph))]
        configs = [own for own in listed if own is not None]
        if len(configs) == len(listed) and math.prod(map(len, configs)) <= MAX_STRATEGIES:
            return Choice(problem, configs)


def on_equal_devices(problem: Problem, random: Random) -> Problem:
    """The same graph on one node whose devices are joined alike."""
    topology = flat(random.randint(2, 3))
    space = SoapSpace(problem.graph, topology, variant=random.choice(["free", "injective"]), dims=problem.space.dims)
    cost = random_times(random, problem.graph, topology.num_devices)
    return Problem(problem.graph, topology, cost=cost, space=space, sync=problem.sync, training=problem.training)


def flat(num_devices: int) -> DeviceTopology:
    """Every renumbering keeps it."""
    names = [f"d{d}" for d in range(num_devices)]
    return topologies.explicit(
        name="flat",
        devices=[{"name": name, "kind": "p100", "node": 0, "memory_gb": 1e-6} for name in names],
        switches=[],
        connections=[
            {"src": a, "dst": b, "bandwidth_gb_per_s": 3.0, "latency_us": 0.002} for a in names for b in names if a != b
        ],
        reading="routed",
    )


def all_prices(choice: Choice) -> list[tuple[int, int]]:
    """Overflow and cost of every strategy, by its task graph and full simulation."""
    problem, prices = choice.problem, []
    capacities = [device.memory_bytes for device in problem.topology.devices]
    for configs in product(*choice.configs):
        task_graph = build_task_graph(problem, Strategy(problem.graph, problem.topology, configs))
        used = zip(task_graph.memory_bytes, capacities, strict=True)
        prices.append((sum(max(0, need - held) for need, held in used), task_graph.simulate()))
    return prices
