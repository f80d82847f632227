"""composed: a problem and an agent, as run.py would make them."""

from typing import cast

import hydra

from agents.agent import Agent
from experiments.construct import construct
from experiments.problem import make_problem
from sim.problem import Problem


def composed(*overrides: str) -> tuple[Problem, Agent]:
    """What run.py searches, and with what.

    Args:
        overrides: of run.py's command line.
    """
    cfg = hydra.compose("config", list(overrides))
    return make_problem(cfg), cast(Agent, construct(cfg, "agent")(seed=cfg.seed))
