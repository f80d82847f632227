"""Certified gaps: the best strategy found for each model, and what no strategy of its space can beat."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from matplotlib.figure import Figure

from agents.budget import Budget
from experiments.figures.composed import composed
from experiments.figures.reproduction import Reproduction
from sim.bounds import Bounds

HEADER = ("model", "devices", "found_by", "found_ms", "bound_ms", "work_ms", "path_ms", "gap", "fits_memory")
SIZE_INCHES, FOUND, PROVEN = (9.0, 4.2), "#b9bec6", "#2f6db3"


@dataclass(frozen=True, slots=True)
class Gap:
    """What is known about the optimum of a problem.

    Attributes:
        agent: who found the best strategy.
        found_ms: its iteration time.
        bound_ms: no strategy is faster.
        work_ms: least work of all operators by the devices: a bound that knows nothing else.
        path_ms: the longest chain of least tasks: the same.
        fits_memory: whether the strategy fits.
    """

    agent: str
    found_ms: float
    bound_ms: float
    work_ms: float
    path_ms: float
    fits_memory: bool

    @property
    def gap(self) -> float:
        """Of what was found, at most so much can be saved."""
        return 1 - self.bound_ms / self.found_ms


def gaps(
    *, models: Sequence[str], topology: str, num_devices: Sequence[int], agents: Sequence[str], simulations: int
) -> Reproduction:
    """Search with several agents, and hold the best against the lower bound of the space (``sim.bounds``).

    Args:
        models: their names.
        topology: name of the cluster.
        num_devices: how many of its devices.
        agents: names of the searchers, seed 0.
        simulations: budget of each search.
    """
    found: dict[tuple[str, int], Gap] = {}
    for devices in num_devices:
        for model in models:
            words = (f"model={model}", f"topology={topology}", f"num_devices={devices}")
            found[model, devices] = _gap(words, agents, Budget(simulations=simulations))
    rows = [
        [
            model,
            devices,
            one.agent,
            one.found_ms,
            one.bound_ms,
            round(one.work_ms, 3),
            round(one.path_ms, 3),
            round(one.gap, 4),
            one.fits_memory,
        ]
        for (model, devices), one in found.items()
    ]
    widest = max(found, key=lambda key: found[key].gap)
    return Reproduction(
        picture=_picture(found),
        header=HEADER,
        rows=rows,
        difference=(
            f"certified gaps from {min(one.gap for one in found.values()):.1%} to {found[widest].gap:.1%} "
            f"({widest[0]} on {widest[1]} devices), median {median(one.gap for one in found.values()):.1%}; "
            "the paper certifies only the two small problems of section 8.3"
        ),
    )


def _gap(words: Sequence[str], agents: Sequence[str], budget: Budget) -> Gap:
    outcomes = []
    for agent in agents:
        problem, searcher = composed(*words, f"agent={agent}")
        result = searcher.search(problem, budget)
        outcomes.append((not result.fits_memory, result.cost_ns, agent))
    overflows, cost_ns, best = min(outcomes)
    bounds = Bounds(problem)
    choices = bounds.choices({})
    num_devices = problem.topology.num_devices
    work_ns = sum(int((choice.work + choice.updates).min()) for choice in choices) / num_devices
    both = [int(choice.both.min()) for choice in choices]
    path_ns = max(chain + own for chain, own in zip(bounds.chain_ns(both).tolist(), both, strict=True))
    return Gap(best, cost_ns / 1e6, bounds.partial_ns({}) / 1e6, work_ns / 1e6, path_ns / 1e6, not overflows)


def _picture(found: dict[tuple[str, int], Gap]) -> Figure:
    picture = Figure(figsize=SIZE_INCHES, layout="constrained")
    axes = picture.subplots()
    places = np.arange(len(found))
    axes.bar(places, [one.found_ms for one in found.values()], color=FOUND, label="best strategy found")
    axes.bar(places, [one.bound_ms for one in found.values()], color=PROVEN, label="no strategy is faster")
    for place, one in zip(places, found.values(), strict=True):
        axes.annotate(f"{one.gap:.1%}", (place, one.found_ms), ha="center", va="bottom")
    axes.set_xticks(places, [f"{model}\n{devices}" for model, devices in found], fontsize=7)
    axes.set_ylabel("iteration, ms")
    axes.legend()
    axes.set_title("Certified gaps")
    return picture
