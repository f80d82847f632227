"""Agents that say so are anytime: what they had found after a while is what a search that ends then finds."""

from pathlib import Path

import hydra
import pytest
from hydra.utils import get_object
from omegaconf import OmegaConf

from agents.budget import Budget
from experiments.construct import construct
from experiments.problem import make_problem

CONF = Path(__file__).resolve().parents[2] / "experiments" / "conf"
AGENTS = {path.stem: get_object(OmegaConf.load(path)["_target_"]) for path in sorted((CONF / "agent").glob("*.yaml"))}
SHORT, LONG = 150, 400


def curve(agent: str, simulations: int) -> list[tuple[int, float]]:
    """Improvements up to the short budget."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        cfg = hydra.compose("config", [f"agent={agent}", "model=lenet", "num_devices=2", "tracker=none"])
    result = construct(cfg, "agent")(seed=0).search(make_problem(cfg), Budget(simulations=simulations))
    return [(point.simulations, point.best_ms) for point in result.curve[:-1] if point.simulations <= SHORT]


@pytest.mark.parametrize("agent", [name for name, agent in AGENTS.items() if agent.is_anytime])
def test_short_search_is_the_beginning_of_a_long_one(agent: str) -> None:
    assert curve(agent, SHORT) == curve(agent, LONG)
