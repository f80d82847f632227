"""Every agent that has a YAML, on every model that has one."""

import importlib
from pathlib import Path

import hydra
import pytest
import yaml

from agents.agent import Agent, SearchResult
from agents.budget import Budget
from agents.errors import AgentError
from experiments.construct import construct
from sim import topologies
from sim.bounds import lower_bound_ns
from sim.errors import IllegalConfigError
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.task_graph_builder import build_task_graph
from sim.topology import DeviceTopology, load_topology

CONF = Path(__file__).parents[2] / "experiments" / "conf"
EVERY = sorted(path.stem for path in (CONF / "agent").glob("*.yaml"))
AGENTS = [name for name in EVERY if name != "exhaustive"]  # which refuses the spaces of these models
MODELS = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
NUM_DEVICES = 4
MAX_BOUNDED = 30
SIMULATIONS = 300  # more than PPO gathers before its first update


@pytest.fixture(scope="module", params=MODELS)
def problem(request: pytest.FixtureRequest) -> Problem:
    module, _, name = yaml.safe_load((CONF / "model" / f"{request.param}.yaml").read_text())["_target_"].rpartition(".")
    graph = getattr(importlib.import_module(module), name)(num_devices=NUM_DEVICES)
    return Problem(graph, load_topology("p100_cluster", num_devices=NUM_DEVICES))


def searcher(agent: str) -> Agent:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", [f"agent={agent}"])
    return construct(cfg, "agent")(seed=0)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_finds_within_its_budget_a_strategy_that_full_simulation_confirms(
    problem: Problem, agent: str
) -> None:
    if agent == "branch_and_bound" and len(problem.graph) > MAX_BOUNDED:
        pytest.skip("the tables of its bounds take minutes on graphs of so many operators")
    result = searcher(agent).search(problem, Budget(simulations=SIMULATIONS))

    task_graph = build_task_graph(problem, result.strategy)
    capacities = [device.memory_bytes for device in problem.topology.devices]
    fits = all(used <= held for used, held in zip(task_graph.memory_bytes, capacities, strict=True))

    assert 1 <= result.simulations <= SIMULATIONS
    assert lower_bound_ns(problem) <= result.cost_ns == task_graph.simulate()
    assert result.fits_memory == fits


@pytest.fixture(scope="module")
def proven() -> tuple[Problem, int]:
    """Whole operators of LeNet on three devices whose memory is scarce, and the cost of the best that fits."""
    graph, topology = lenet(num_devices=3), scarce_topology()
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, dims="O"))
    result = searcher("exhaustive").search(problem, Budget(simulations=10**6))

    assert result.notes["enumerated"] == 3 ** len(graph)
    assert result.fits_memory
    return problem, result.cost_ns


def scarce_topology() -> DeviceTopology:
    """Three devices, joined alike, none of which holds all of LeNet."""
    names = [f"d{d}" for d in range(3)]
    return topologies.explicit(
        name="scarce",
        devices=[{"name": name, "kind": "p100", "node": 0, "memory_gb": 0.012} for name in names],
        switches=[],
        connections=[
            {"src": a, "dst": b, "bandwidth_gb_per_s": 10.0, "latency_us": 1.0} for a in names for b in names if a != b
        ],
        reading="routed",
    )


@pytest.mark.parametrize("agent", EVERY)
def test_an_agent_reports_no_less_than_the_proven_optimum_of_what_fits(proven: tuple[Problem, int], agent: str) -> None:
    problem, optimum_ns = proven
    try:
        result = searcher(agent).search(problem, Budget(simulations=SIMULATIONS))
    except (AgentError, IllegalConfigError):
        return  # its strategies are not of this space, and it says so
    task_graph = build_task_graph(problem, result.strategy)
    capacities = [device.memory_bytes for device in problem.topology.devices]
    fits = all(used <= held for used, held in zip(task_graph.memory_bytes, capacities, strict=True))

    assert result.cost_ns == task_graph.simulate()
    assert result.fits_memory == fits
    assert result.cost_ns >= optimum_ns or not fits


@pytest.mark.parametrize("agent", EVERY)
def test_what_an_agent_reports_is_of_the_space_also_where_data_parallelism_is_not(agent: str) -> None:
    graph, topology = lenet(num_devices=2), load_topology("p100_cluster", num_devices=2)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, dims="O"))
    try:
        result = searcher(agent).search(problem, Budget(simulations=SIMULATIONS))
    except (AgentError, IllegalConfigError):
        return  # its strategies are not of this space, and it says so

    assert all(problem.space.has(i, config) for i, config in enumerate(result.strategy.configs))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_repeats_itself(agent: str) -> None:
    problem = Problem(lenet(num_devices=NUM_DEVICES), load_topology("p100_cluster", num_devices=NUM_DEVICES))
    first, second = (searcher(agent).search(problem, Budget(simulations=SIMULATIONS)) for _ in range(2))

    assert _without_times(first) == _without_times(second)


def _without_times(result: SearchResult) -> tuple[object, ...]:
    curve = [(point.simulations, point.best_ms) for point in result.curve]
    return result.strategy.hash, result.simulations, result.cutoffs, curve, result.is_one_opt
