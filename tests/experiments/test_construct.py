"""Options held against a constructor's signature."""

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from omegaconf import OmegaConf

from agents.parallel_chains import ParallelChains
from experiments.construct import check_options, construct
from experiments.errors import OptionError


class Searcher:
    """Has an option of each kind."""

    def __init__(
        self,
        problem: object,
        *,
        chains: int = 1,
        rate: float | None = None,
        mode: Literal["fast", "slow"] = "fast",
        is_loud: bool = False,
        name: str = "",
        sizes: Sequence[int] = (),
    ) -> None:
        self.chains = chains


@pytest.mark.parametrize(
    ("option", "value"),
    [("chains", 2), ("rate", 1), ("rate", 0.5), ("rate", None), ("mode", "slow"), ("is_loud", True), ("sizes", [1])],
)
def test_value_of_the_declared_type_is_accepted(option: str, value: Any) -> None:
    check_options(Searcher, {option: value})


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("chains", "two", "agent.chains: 'two' is not a whole number"),
        ("chains", True, "agent.chains: True is not a whole number"),
        ("rate", "high", "agent.rate: 'high' is not a number or null"),
        ("mode", "medium", "agent.mode: 'medium' is not one of fast, slow"),
        ("is_loud", 1, "agent.is_loud: 1 is not true or false"),
        ("name", 3, "agent.name: 3 is not a text"),
        ("sizes", 3, "agent.sizes: 3 is not a list"),
        (
            "chain",
            3,
            "agent.chain: there is no such key; choose one of chains, rate, mode, is_loud, name, sizes",
        ),
    ],
)
def test_other_options_are_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(OptionError) as refusal:
        check_options(Searcher, {option: value}, prefix="agent.")

    assert str(refusal.value) == message


def test_options_of_an_object_inside_are_refused_too() -> None:
    inside = {"_target_": "agents.annealing.Annealing", "_partial_": True, "hottest": "hot"}
    with pytest.raises(OptionError) as refusal:
        check_options(ParallelChains, {"search": inside}, prefix="agent.")

    assert str(refusal.value) == "agent.search.hottest: 'hot' is not a number"


def test_annotations_that_only_type_checkers_can_look_up_hinder_no_other_parameter() -> None:
    def algorithm(env: "ImportedForTypeCheckersAlone", gamma: float) -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    check_options(algorithm, {"env": None, "gamma": 0.9})
    with pytest.raises(OptionError) as refusal:
        check_options(algorithm, {"gamma": "low"}, prefix="agent.algorithm.")

    assert str(refusal.value) == "agent.algorithm.gamma: 'low' is not a number"


def test_group_without_target_is_refused() -> None:
    with pytest.raises(OptionError, match="budget: 3 is not a group of keys with a _target_"):
        construct(OmegaConf.create({"budget": 3}), "budget")


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_number_that_no_record_can_hold_is_refused(value: float) -> None:
    budget = {"_target_": "agents.budget.Budget", "simulations": None, "seconds": value}
    with pytest.raises(OptionError) as refusal:
        construct(OmegaConf.create({"budget": budget}), "budget")

    assert str(refusal.value) == f"budget.seconds: {value} is not a finite number"
