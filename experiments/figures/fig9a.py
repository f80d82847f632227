"""Figure 9a: what FlexFlow finds in the SOAP space against ColocRL's operator placement, on four K80s."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.archive import Archive, Overrides
from experiments.figures.contest import Case, Outcome, search_overrides
from experiments.figures.reproduction import Reproduction

PAPER = {"inception_v3": (45, 152), "nmt": (107, 377)}
"""Samples/s of ColocRL and of FlexFlow: the labels of the figure."""

HEADER = (
    "model",
    "sync",
    "space",
    "agent",
    "iteration_ms",
    "iteration_ms_low",
    "iteration_ms_high",
    "best_ms",
    "samples_per_s",
    "paper_samples_per_s",
    "fits_memory",
    "num_seeds",
)

SINGLE = "single_device"
DETERMINISTIC = (SINGLE, "heft", "etf", "min_cut")
"""One simulation, and no use for seeds."""

PLACEMENT, SOAP = "O", "SOAP"
INK = "#2b2f36"
LABELS = {
    "one device": "#9aa5b1",
    "ColocRL": "#7a6ba8",
    "best operator placement": "#b3a6d9",
    "data parallelism": "#5b7a99",
    "FlexFlow (MCMC)": "#e0803c",
}
"""Bars of the picture and their colours."""

IN_PAPER = ("ColocRL", "FlexFlow (MCMC)")


@dataclass(frozen=True, slots=True)
class Contest:
    """Everything that was searched.

    Attributes:
        outcomes: by case, space and agent.
        placers: agents in the space of operator placements.
        searchers: agents in the whole space.
    """

    outcomes: Mapping[tuple[Case, str, str], Outcome]
    placers: Sequence[str]
    searchers: Sequence[str]

    def best_placer(self, case: Case) -> str:
        """The agent that found the fastest operator placement."""
        return min(self.placers, key=lambda agent: self.outcomes[case, PLACEMENT, agent].best_ms)

    def throughputs(self, case: Case) -> dict[str, float]:
        """Samples/s for each of ``LABELS``."""
        learned = self.outcomes[case, PLACEMENT, self.placers[0]]
        found = self.outcomes[case, SOAP, self.searchers[0]]
        single = self.outcomes[case, PLACEMENT, SINGLE]
        best_ms = self.outcomes[case, PLACEMENT, self.best_placer(case)].best_ms
        times = (single.iteration_ms, learned.iteration_ms, best_ms, learned.data_parallel_ms, found.iteration_ms)
        return dict(zip(LABELS, map(learned.throughput, times), strict=True))


def fig9a(
    *,
    models: Sequence[str],
    topology: str,
    num_devices: int,
    syncs: Mapping[str, Sequence[str]],
    placers: Sequence[str],
    searchers: Sequence[str],
    simulations: int,
    seeds: Sequence[int],
    archive: Archive,
) -> Reproduction:
    """Search operator placements and SOAP strategies with equal simulations (FlexFlow, figure 9a).

    Args:
        models: names of the models.
        topology: name of the cluster.
        num_devices: how many of its devices.
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        placers: agents that place whole operators beside ``single_device``; the first stands for ColocRL.
        searchers: agents in the whole space; the first stands for FlexFlow.
        simulations: budget of each search.
        seeds: of each search; list schedulers and min-cut have one.
        archive: keeps the searches.
    """
    entries: dict[tuple[Case, str, str], list[Overrides]] = {}
    spaces = [*((PLACEMENT, agent) for agent in (*placers, SINGLE)), *((SOAP, agent) for agent in searchers)]
    cases = [Case(model, topology, num_devices, sync) for model in models for sync in syncs]
    for case in cases:
        for space, agent in spaces:
            words = (*syncs[case.sync], f"space.dims={space}")
            entries[case, space, agent] = [
                search_overrides(case, words, agent, simulations, seed)
                for seed in (seeds[:1] if agent in DETERMINISTIC else seeds)
            ]
    found = iter(archive.searches([overrides for searches in entries.values() for overrides in searches]))
    outcomes = {key: Outcome(tuple(next(found).record for _ in searches)) for key, searches in entries.items()}
    contest = Contest(outcomes, placers, searchers)
    return Reproduction(
        picture=_picture(cases, contest),
        header=HEADER,
        rows=[_line(*key, outcome, contest) for key, outcome in outcomes.items()],
        difference=" ".join(_sentence(case, contest) for case in cases),
    )


def _line(case: Case, space: str, agent: str, outcome: Outcome, contest: Contest) -> list[Any]:
    labels = PAPER.get(case.model, ("", ""))
    paper = {(PLACEMENT, contest.placers[0]): labels[0], (SOAP, contest.searchers[0]): labels[1]}
    return [
        case.model,
        case.sync,
        space,
        agent,
        *(round(time, 3) for time in (outcome.iteration_ms, *outcome.interval_ms)),
        round(outcome.best_ms, 3) if np.isfinite(outcome.best_ms) else "",
        round(outcome.samples_per_s, 1),
        paper.get((space, agent), ""),
        outcome.fits_memory,
        len(outcome.records),
    ]


def _sentence(case: Case, contest: Contest) -> str:
    single, learned, best, data_parallel, found = contest.throughputs(case).values()
    text = (
        f"{case.model}, sync={case.sync}: ColocRL {learned:.0f}, FlexFlow {found:.0f} samples/s, "
        f"{found / learned:.2f}x ({found / best:.2f}x over the best operator placement, {best:.0f}, by "
        f"{contest.best_placer(case)}; {found / data_parallel:.2f}x over data parallelism, {data_parallel:.0f}; "
        f"{found / single:.2f}x over one device, {single:.0f})"
    )
    if case.model in PAPER:
        first, second = PAPER[case.model]
        text += f"; in the paper {first} and {second}, {second / first:.2f}x"
    return text + "."


def _picture(cases: Sequence[Case], contest: Contest) -> Figure:
    models = list(dict.fromkeys(case.model for case in cases))
    picture = Figure(figsize=(6.5 * len(models), 4.6), layout="constrained")
    panels = np.ravel(picture.subplots(1, len(models), squeeze=False))
    for axes, model in zip(panels, models, strict=True):
        _draw(axes, model, [case for case in cases if case.model == model], contest)
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return picture


def _draw(axes: Axes, model: str, cases: Sequence[Case], contest: Contest) -> None:
    """A group of bars for the paper, which has no more than two, and one for each synchronisation."""
    width = 0.8 / len(LABELS)
    groups = [contest.throughputs(case) for case in cases]
    offsets = {label: (number - (len(LABELS) - 1) / 2) * width for number, label in enumerate(LABELS)}
    bars = [
        (place + offsets[label], height, label) for place, own in enumerate(groups) for label, height in own.items()
    ]
    ticks = [f"ours, {case.sync}" for case in cases]
    if model in PAPER:
        ticks.append("paper")
        values = zip(IN_PAPER, PAPER[model], strict=True)
        bars += [(len(groups) + offsets[label], float(value), label) for label, value in values]
    for label, colour in LABELS.items():
        places, heights = zip(*((place, height) for place, height, own in bars if own == label), strict=True)
        axes.bar(places, heights, width, color=colour, label=label)
    for place, height, _ in bars:
        axes.text(place, height, f"{height:.0f}", ha="center", va="bottom", fontsize=8, color=INK)
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set_title(model, loc="left", color=INK)
    axes.set_ylabel("samples/s", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
