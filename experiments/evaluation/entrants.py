"""Entrants: who takes part in an evaluation, and what their policies cost before it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hydra
from hydra.utils import get_object

from agents.policy_file import load_policy, read_about
from experiments.archive import composed_search
from experiments.construct import construct
from experiments.errors import OptionError
from experiments.figures.contest import DETERMINISTIC

HELD_OUT = "{held_out}"
"""In an override: the family of the model at hand, so that a policy is judged on what it was not trained on."""

ALLOWED = ("agent", "space")
"""Groups that the overrides of a contestant may be about; all else would make another problem."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What was spent on a policy before the search, on all trainings that it went through.

    Attributes:
        seconds: wall-clock time of the trainings, and of the teacher where it solved problems beforehand.
        simulations: strategies priced, by the teacher and in episodes (imitation calls these decisions); what two
            trainings learned from counts twice.
    """

    seconds: float = 0.0
    simulations: int = 0

    @classmethod
    def of(cls, policy: str | None) -> "Cost":
        """As the file says; nothing without one.

        Raises:
            PolicyFileError: the file is missing, or no policy.
        """
        training = read_about(Path(policy))["training"] if policy is not None else None
        seconds, simulations = 0.0, 0
        while training:
            spent = training["spent"]
            seconds += spent["seconds"]
            if training.get("options", {}).get("lessons"):
                seconds += spent["teacher_seconds"]
            simulations += spent["simulations"] + spent.get("decisions", 0)
            training = training.get("before")
        return cls(seconds, simulations)


@dataclass(frozen=True, slots=True)
class Entrant:
    """A searcher with its options.

    Attributes:
        name: of the contestant.
        words: for each model the overrides of run.py.
        costs: for each model what the policy cost before.
        is_anytime: see ``Agent``.
        is_seeded: whether seeds make a difference.
    """

    name: str
    words: Mapping[str, tuple[str, ...]]
    costs: Mapping[str, Cost]
    is_anytime: bool
    is_seeded: bool


def make_entrant(name: str, overrides: Sequence[str], models: Sequence[str]) -> Entrant:
    """An entrant whose options and policy files are known to be good, before anything is searched.

    Args:
        name: of the contestant.
        overrides: of run.py; ``{held_out}`` stands for the family of the model.
        models: that it will be judged on.

    Raises:
        OptionError: an override of something else than the searcher, or an option that there is not.
        PolicyFileError: a policy file that is missing, or of no use here.
    """
    words: dict[str, tuple[str, ...]] = {}
    costs: dict[str, Cost] = {}
    agent, choice = None, ""
    for model in models:
        words[model] = tuple(_filled(name, override, model) for override in overrides)
        cfg, choices = composed_search((f"model={model}", *words[model]))
        choice = choices["agent"]
        construct(cfg, "agent")
        agent = get_object(cfg.agent["_target_"])
        policy = cfg.agent.get("policy")
        if policy is not None:
            load_policy(policy)
        costs[model] = Cost.of(policy)
    assert agent is not None
    return Entrant(name, words, costs, agent.is_anytime, choice not in DETERMINISTIC)


def _filled(name: str, override: Any, model: str) -> str:
    group = str(override).lstrip("+~").partition("=")[0].partition(".")[0]
    if group not in ALLOWED:
        raise OptionError(f"contestants.{name}", f"'{override}' is not about {' or '.join(ALLOWED)}")
    return str(override).replace(HELD_OUT, family_of(model)) if HELD_OUT in str(override) else str(override)


def family_of(model: str) -> str:
    """The family that pre-training holds out to see nothing of a model.

    Raises:
        OptionError: it is in none.
    """
    families = hydra.compose("pretrain").instances.families
    for family, models in families.items():
        if model in models:
            return str(family)
    raise OptionError("models", f"{model!r} is in none of pre-training's families, {', '.join(families)}")
