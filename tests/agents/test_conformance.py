"""Every agent that has a YAML, on every model that has one."""

import importlib
from pathlib import Path

import pytest
import yaml
from hydra.utils import instantiate
from omegaconf import OmegaConf

from agents.budget import Budget
from sim.problem import Problem
from sim.task_graph_builder import build_task_graph
from sim.topology import load_topology

CONF = Path(__file__).parents[2] / "experiments" / "conf"
AGENTS = sorted(path.stem for path in (CONF / "agent").glob("*.yaml"))
MODELS = sorted(path.stem for path in (CONF / "model").glob("*.yaml"))
NUM_DEVICES = 4
SIMULATIONS = 300  # more than PPO gathers before its first update


@pytest.fixture(scope="module", params=MODELS)
def problem(request: pytest.FixtureRequest) -> Problem:
    module, _, name = yaml.safe_load((CONF / "model" / f"{request.param}.yaml").read_text())["_target_"].rpartition(".")
    graph = getattr(importlib.import_module(module), name)(num_devices=NUM_DEVICES)
    return Problem(graph, load_topology("p100_cluster", num_devices=NUM_DEVICES))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_finds_within_its_budget_a_strategy_that_full_simulation_confirms(
    problem: Problem, agent: str
) -> None:
    searcher = instantiate(OmegaConf.load(CONF / "agent" / f"{agent}.yaml"), _convert_="all")(seed=0)
    result = searcher.search(problem, Budget(simulations=SIMULATIONS))

    task_graph = build_task_graph(problem, result.strategy)
    capacities = [device.memory_bytes for device in problem.topology.devices]
    fits = all(used <= held for used, held in zip(task_graph.memory_bytes, capacities, strict=True))

    assert 1 <= result.simulations <= SIMULATIONS
    assert result.cost_ns == task_graph.simulate()
    assert result.fits_memory == fits
