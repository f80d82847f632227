"""ColocRL learns placements, spends exactly its budget, and finds the optimum of small graphs."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from agents.budget import Budget
from agents.colocrl import ColocRl
from agents.errors import AgentError
from agents.placement import placed
from agents.placement_network import PlacementNetwork
from sim.graph_builder import GraphBuilder
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topologies import cpu_host
from sim.topology import DeviceTopology, load_topology

CONF = Path(__file__).resolve().parents[2] / "experiments" / "conf" / "agent"
NUM_SEEDS, LEAST_HITS = 10, 9


def colocrl(name: str = "colocrl", **changes: Any) -> ColocRl:
    options = {
        key: value for key, value in yaml.safe_load((CONF / f"{name}.yaml").read_text()).items() if key[0] != "_"
    }
    return ColocRl(**{**options, "seed": 0, **changes})


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(lenet(num_devices=2), load_topology("p100_cluster", num_devices=2))


@pytest.fixture(scope="module")
def branches() -> Problem:
    """Branches of different width between a first and a last layer, on three devices."""
    builder = GraphBuilder("branches")
    first = builder.linear("first", (1024, 256), 256)
    wide = [builder.linear(f"branch{k}", first, 4096 * (k + 1)) for k in range(4)]
    builder.softmax("last", builder.concat("concat", wide), 10)
    graph, topology = builder.build(), load_topology("p100_cluster", num_devices=3)
    return Problem(graph, topology, space=SoapSpace(graph, topology, dims="O"))


def host(memory_gb: float) -> DeviceTopology:
    bus = {"bandwidth_gb_per_s": 0.002, "latency_us": 1.0}
    return cpu_host(name="host", num_cores=2, memory_gb=memory_gb, bus=bus)


def network(num_groups: int = 5, num_actions: int = 3, seed: int = 0) -> PlacementNetwork:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(num_groups, num_actions, dtype=torch.bool)
    mask[0, 1] = False
    return PlacementNetwork(torch.eye(num_groups), mask, width=8, generator=generator)


# The policy


def test_probabilities_of_all_decisions_sum_to_one() -> None:
    policy = network(num_groups=3)

    everything = torch.tensor([choice for choice in product(range(3), repeat=3) if choice[0] != 1])
    assert policy.log_prob(everything).exp().sum().item() == pytest.approx(1, abs=1e-5)


def test_samples_are_drawn_from_these_probabilities() -> None:
    policy = network(num_groups=2)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter *= 3  # far from uniform

    everything = torch.tensor([choice for choice in product(range(3), repeat=2) if choice[0] != 1])
    samples = policy.sample(20_000, torch.Generator().manual_seed(0))
    drawn = [(samples == choice).all(dim=1).float().mean().item() for choice in everything]
    assert drawn == pytest.approx(policy.log_prob(everything).exp().tolist(), abs=0.012)


def test_what_is_masked_is_never_drawn() -> None:
    samples = network().sample(1000, torch.Generator().manual_seed(0))

    assert (samples[:, 0] != 1).all()


# The search


def test_spends_exactly_its_budget(problem: Problem) -> None:
    assert colocrl().search(problem, Budget(simulations=77)).simulations == 77


def test_the_same_seed_learns_the_same(problem: Problem) -> None:
    agents = colocrl(grouping="none"), colocrl(grouping="none")

    hashes = [agent.search(problem, Budget(simulations=200)).strategy.hash for agent in agents]
    assert (hashes[0], agents[0].update_costs_ms) == (hashes[1], agents[1].update_costs_ms)


def test_a_search_leaves_torchs_threads_as_they_were(problem: Problem) -> None:
    before = torch.get_num_threads()
    colocrl(num_threads=before + 1).search(problem, Budget(simulations=20))

    assert torch.get_num_threads() == before


def test_only_whole_operators_are_placed(problem: Problem) -> None:
    strategy = colocrl().search(problem, Budget(simulations=50)).strategy

    assert {config.num_tasks for config in strategy.configs} == {1}


def test_over_soap_configs_of_the_problems_space_are_chosen(problem: Problem) -> None:
    strategy = colocrl("colocrl_soap").search(problem, Budget(simulations=300)).strategy

    assert all(problem.space.has(operator, config) for operator, config in enumerate(strategy.configs))
    assert max(config.num_tasks for config in strategy.configs) == 2


def test_the_policy_learns(branches: Problem) -> None:
    agent = colocrl(grouping="none")

    agent.search(branches, Budget(simulations=800))
    tenths = [float(np.mean(part)) for part in np.array_split(agent.update_costs_ms, 10)]
    assert tenths[-1] < 0.6 * tenths[0]


def test_it_reaches_the_optimum_of_small_graphs(branches: Problem) -> None:
    simulation = branches.simulation()
    choices = product(range(branches.topology.num_devices), repeat=len(branches.graph))
    optimum = min(simulation.restart(placed(branches, devices)) for devices in choices)

    found = [
        colocrl(grouping="none", seed=seed).search(branches, Budget(simulations=400)).cost_ns
        for seed in range(NUM_SEEDS)
    ]
    assert min(found) == optimum
    assert found.count(optimum) >= LEAST_HITS


def test_what_does_not_fit_is_avoided() -> None:
    builder = GraphBuilder("heavy")
    x = builder.linear("first", (64, 4096), 4096)
    builder.linear("second", x, 4096)
    graph = builder.build()
    roomy = Problem(graph, host(memory_gb=10.0))
    whole = roomy.simulation(placed(roomy, [0, 0]))
    tight = Problem(graph, host(memory_gb=int(whole.memory_bytes[0]) * 0.9 / 1e9))
    agent = colocrl(grouping="none")

    result = agent.search(tight, Budget(simulations=800))
    # On one device it would be faster, which is what the policy learns without a limit.
    assert result.fits_memory
    assert agent.update_costs_ms[-1] == pytest.approx(result.cost_ns / 1e6, rel=0.02)
    assert result.cost_ns > 1.05 * whole.cost_ns


# Refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": "nodes"}, "agent.actions must be one of devices, soap, not nodes"),
        ({"grouping": "layers"}, "agent.grouping must be one of none, chains, consumers, not layers"),
        ({"samples_per_update": 0}, "agent.samples_per_update must be positive, not 0"),
        ({"learning_rate": float("nan")}, "agent.learning_rate must be positive, not nan"),
        ({"baseline_decay": 1.0}, "agent.baseline_decay must be at least 0 and less than 1, not 1.0"),
    ],
)
def test_options_that_cannot_work_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(AgentError) as caught:
        colocrl(**changes)

    assert str(caught.value) == message
