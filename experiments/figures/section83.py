"""Section 8.3: the proven optimum of two small problems, and how soon MCMC has it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from agents.agent import SearchResult
from agents.budget import Budget
from experiments.figures.composed import composed
from experiments.figures.reproduction import Reproduction

PAPER_HOURS = {"lenet": 0.8, "rnnlm": 18.0}
"""Depth-first search with A*, on a machine that the paper does not describe."""

HEADER = (
    "model",
    "operators",
    "strategies",
    "optimum_ms",
    "root_bound_ms",
    "nodes",
    "proof",
    "proof_s",
    "paper_proof_s",
    "mcmc_seeds_at_optimum",
    "mcmc_seeds",
    "mcmc_slowest_s",
    "paper_mcmc_s",
)

WARM_UP = 64
"""Simulations before time is measured, so that compiled code is loaded."""

SIZE_INCHES, OURS, PAPER = (8.0, 3.6), "#2f6db3", "#b9bec6"


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found out about a model.

    Attributes:
        result: of the exact search.
        reached_s: for each seed of MCMC, after how many seconds it had the optimum; None if it did not.
        num_operators: of the graph.
    """

    result: SearchResult
    reached_s: tuple[float | None, ...]
    num_operators: int

    @property
    def is_optimal(self) -> bool:
        """Whether the optimum is proven."""
        return self.result.notes["proof"] == "optimal"

    @property
    def slowest_s(self) -> float:
        """The seed that took longest, of those that reached the optimum."""
        return max((seconds for seconds in self.reached_s if seconds is not None), default=float("nan"))


def section83(
    *,
    models: Mapping[str, Sequence[str]],
    num_devices: int,
    seconds: float,
    mcmc_options: Sequence[str],
    mcmc_seconds: float,
    num_seeds: int,
) -> Reproduction:
    """Prove the optimum of each model by branch and bound, then let MCMC look for it (FlexFlow, section 8.3).

    Args:
        models: their names, and overrides of run.py's command line.
        num_devices: P100s.
        seconds: for a proof, at most.
        mcmc_options: overrides of its defaults.
        mcmc_seconds: for each seed of MCMC.
        num_seeds: of MCMC.
    """
    proofs = {}
    for model, overrides in models.items():
        words = (f"model={model}", f"num_devices={num_devices}", *overrides)
        proof = _prove(words, Budget(seconds=seconds))
        seeds = [("agent=mcmc", *mcmc_options, f"seed={seed}") for seed in range(num_seeds)]
        proofs[model] = replace(proof, reached_s=_reached(words, seeds, proof.result.cost_ns, mcmc_seconds))
    return Reproduction(
        picture=_picture(proofs),
        header=HEADER,
        rows=[_row(model, proof) for model, proof in proofs.items()],
        difference=_difference(proofs),
    )


def _prove(words: Sequence[str], budget: Budget) -> Proof:
    problem, exact = composed(*words, "agent=branch_and_bound")
    exact.search(problem, Budget(simulations=WARM_UP))
    return Proof(exact.search(problem, budget), (), len(problem.graph))


def _reached(
    words: Sequence[str], searches: Sequence[Sequence[str]], optimum_ns: int, seconds: float
) -> tuple[float | None, ...]:
    """After how many seconds each of the searches had the optimum; None if it did not."""
    reached = []
    for number, search in enumerate(searches):
        problem, agent = composed(*words, *search)
        if number == 0:
            agent.search(problem, Budget(simulations=WARM_UP))
        curve = agent.search(problem, Budget(seconds=seconds)).curve
        reached.append(next((point.seconds for point in curve if point.best_ms <= optimum_ns / 1e6), None))
    return tuple(reached)


def _row(model: str, proof: Proof) -> list[Any]:
    result, notes = proof.result, proof.result.notes
    return [
        model,
        proof.num_operators,
        notes["strategies"],
        result.cost_ns / 1e6,
        notes["root_bound_ms"],
        notes["nodes"],
        notes["proof"],
        round(result.seconds, 3),
        3600 * PAPER_HOURS[model],
        sum(seconds is not None for seconds in proof.reached_s),
        len(proof.reached_s),
        round(proof.slowest_s, 3),
        "less than 1",
    ]


def _difference(proofs: Mapping[str, Proof]) -> str:
    """How ours differ from the paper's."""
    parts = []
    for model, proof in proofs.items():
        reached = [seconds for seconds in proof.reached_s if seconds is not None]
        outcome = "proven" if proof.is_optimal else f"not proven (gap {proof.result.notes['gap']:.1%})"
        parts.append(
            f"{model}: optimum {proof.result.cost_ns / 1e6:.3f} ms {outcome} in {proof.result.seconds:.1f} s (paper: "
            f"{PAPER_HOURS[model]:g} h); MCMC has it in {len(reached)} of {len(proof.reached_s)} seeds, the slowest "
            f"after {proof.slowest_s:.2f} s (paper: less than 1 s)"
        )
    return "; ".join(parts) + (
        "; the paper's times are of its own bound, which it does not name, and of its own machine, spaces and models"
    )


def _picture(proofs: Mapping[str, Proof]) -> Figure:
    picture = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = picture.subplots()
    places = np.arange(len(proofs))
    bars = (
        ("proof, paper", PAPER, [3600 * PAPER_HOURS[model] for model in proofs]),
        ("proof", OURS, [proof.result.seconds for proof in proofs.values()]),
        ("MCMC, slowest seed", "#f2a541", [proof.slowest_s for proof in proofs.values()]),
    )
    for number, (label, color, values) in enumerate(bars):
        drawn = axes.barh(places + 0.27 * (1 - number), values, 0.25, label=label, color=color)
        axes.bar_label(drawn, fmt=lambda value: f" {value:,.3g} s")
    axes.set_yticks(places, [*proofs])
    axes.set_xscale("log")
    axes.set_xlabel("seconds")
    axes.margins(x=0.2)
    axes.legend()
    axes.set_title("Global optima on 4 P100s (FlexFlow, section 8.3)")
    return picture
