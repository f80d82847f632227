"""Local search against FlexFlow's MCMC at equal seconds: no figure of the paper, but a question that it leaves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import hydra
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from agents.budget import Budget
from experiments.archive import Archive
from experiments.construct import construct
from experiments.figures.bars import COLOURS, INK, LABELS, add_legend
from experiments.figures.reproduction import Reproduction
from experiments.problem import make_problem
from experiments.seed_statistics import bootstrap_interval, interquartile_mean, probability_of_improvement

REFERENCE = "mcmc"
WARM_UP = ("model=lenet", "num_devices=4", "tracker=none")
WARM_UP_SIMULATIONS = 200

HEADER = (
    "sync",
    "seconds",
    "model",
    "agent",
    "speedup",
    "speedup_low",
    "speedup_high",
    "chance_to_beat_mcmc",
    "chance_low",
    "chance_high",
    "simulations",
    "num_seeds",
)


@dataclass(frozen=True, slots=True)
class Race:
    """A problem that all searchers have the same time for."""

    sync: str
    seconds: float
    model: str


Records: TypeAlias = Mapping[tuple[Race, str], Sequence[Mapping[str, Any]]]
"""By race and agent, one for each seed."""


def equal_seconds(
    *,
    models: Sequence[str],
    topology: str,
    num_devices: int,
    syncs: Mapping[str, Sequence[str]],
    agents: Sequence[str],
    seconds: Sequence[float],
    seeds: Sequence[int],
    archive: Archive,
) -> Reproduction:
    """Give every searcher the same time on the same problems.

    Args:
        models: names of the models.
        topology: name of the cluster.
        num_devices: how many of its devices.
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        agents: searchers, mcmc first.
        seconds: budgets.
        seeds: of each search.
        archive: keeps the searches.
    """
    races = [Race(sync, limit, model) for sync in syncs for limit in seconds for model in models]
    entries = [(race, agent, seed) for seed in seeds for race in races for agent in agents]
    overrides = [
        (
            *(f"model={race.model}", f"topology={topology}", f"num_devices={num_devices}", *syncs[race.sync]),
            *(f"agent={agent}", "budget.simulations=null", f"budget.seconds={race.seconds}", f"seed={seed}"),
        )
        for race, agent, seed in entries
    ]
    warm_up([[f"agent={agent}"] for agent in agents])
    records: dict[tuple[Race, str], list[Mapping[str, Any]]] = {}
    for (race, agent, _), found in zip(entries, archive.searches(overrides), strict=True):
        records.setdefault((race, agent), []).append(found.record)
    groups = [[race for race in races if (race.sync, race.seconds) == group] for group in product(syncs, seconds)]
    return Reproduction(
        picture=_picture(groups, agents, records),
        header=HEADER,
        rows=[_line(race, agent, records) for race in races for agent in agents],
        difference=" ".join(_sentence(group, agents, records) for group in groups),
    )


def warm_up(agents: Sequence[Sequence[str]]) -> None:
    """Let the kernels of all agents, which are overrides, be loaded or compiled before the first search that counts."""
    for agent in agents:
        cfg = hydra.compose("config", [*WARM_UP, *agent])
        construct(cfg, "agent")(seed=0).search(make_problem(cfg), Budget(simulations=WARM_UP_SIMULATIONS))


def speedups(records: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
    """Over data parallelism, one for each seed; 0 for what does not fit the memory."""
    return np.array([record["speedup"] if record["fits_memory"] else 0.0 for record in records])


def chance_to_beat(race: Race, agent: str, records: Records) -> tuple[float, float, float]:
    """Chance that a search of the agent finds a better strategy than one of MCMC, with its 95 % interval."""
    own, reference = [speedups(records[race, agent])], [speedups(records[race, REFERENCE])]
    interval = bootstrap_interval(probability_of_improvement, own, reference, rng=np.random.default_rng(0))
    return probability_of_improvement(own, reference), *interval


def mean_speedup(race: Race, agent: str, records: Records) -> tuple[float, float, float]:
    """Interquartile mean of the speed-ups over data parallelism, with its 95 % interval."""
    own = [speedups(records[race, agent])]
    return interquartile_mean(own), *bootstrap_interval(interquartile_mean, own, rng=np.random.default_rng(0))


def _line(race: Race, agent: str, records: Records) -> list[Any]:
    own = records[race, agent]
    simulations = np.mean([record["simulations"] for record in own])
    return [
        *(race.sync, race.seconds, race.model, agent),
        *(round(ratio, 5) for ratio in mean_speedup(race, agent, records)),
        *(round(chance, 3) for chance in chance_to_beat(race, agent, records)),
        *(round(simulations), len(own)),
    ]


def _sentence(races: Sequence[Race], agents: Sequence[str], records: Records) -> str:
    """On how many models each searcher beats MCMC: the whole interval of its chance is above one half."""
    others = [agent for agent in agents if agent != REFERENCE]
    intervals = {agent: [chance_to_beat(race, agent, records)[1:] for race in races] for agent in others}
    counts = [
        f"{LABELS[agent]} beats MCMC on {sum(low > 0.5 for low, _ in own)} of {len(races)} models and is beaten on "
        f"{sum(high < 0.5 for _, high in own)}"
        for agent, own in intervals.items()
    ]
    either = sum(any(own[k][0] > 0.5 for own in intervals.values()) for k in range(len(races)))
    return (
        f"With sync={races[0].sync} and {races[0].seconds} s, {'; '.join(counts)} (95 % interval of the chance); one "
        f"or both beat it on {either}."
    )


def _picture(groups: Sequence[Sequence[Race]], agents: Sequence[str], records: Records) -> Figure:
    """A panel for each synchronisation and budget: speed-ups with their intervals."""
    picture = Figure(figsize=(13, 3.6 * -(-len(groups) // 2)), layout="constrained")
    panels = np.ravel(picture.subplots(-(-len(groups) // 2), min(2, len(groups)), squeeze=False))
    for axes, races in zip(panels, groups, strict=False):
        for number, agent in enumerate(agents):
            places = np.arange(len(races)) + (number - (len(agents) - 1) / 2) * 0.2
            means, lows, highs = np.array([mean_speedup(race, agent, records) for race in races]).T
            bars = {"yerr": [means - lows, highs - means], "fmt": "o", "capsize": 3, "markersize": 5}
            axes.errorbar(places, means, color=COLOURS[agent], label=LABELS[agent], **bars)
        axes.set_xticks(range(len(races)), [race.model for race in races], fontsize=8)
        axes.set_title(f"sync={races[0].sync}, {races[0].seconds} s", loc="left", color=INK)
        axes.set_ylabel("speed-up over data parallelism")
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    add_legend(picture)
    return picture
