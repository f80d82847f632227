"""Figure 6: throughput of data parallelism, expert strategies and FlexFlow's on six models."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from matplotlib.figure import Figure

from experiments.archive import Archive
from experiments.figures.bars import INK, LABELS, add_legend, draw_bars
from experiments.figures.contest import BASELINES, Case, Outcome, hold_contest
from experiments.figures.reproduction import Reproduction

PAPER_PER_DEVICE = {
    ("inception_v3", "p100_cluster", 16, "mcmc"): 2208 / 16,
    ("rnntc", "p100_cluster", 16, "mcmc"): 5846 / 16,
    ("rnnlm", "p100_cluster", 16, "mcmc"): 3749 / 16,
    ("nmt", "p100_cluster", 16, "mcmc"): 3923 / 16,
    ("nmt", "k80_cluster", 64, "data_parallel"): 64 / 1.9,
    ("nmt", "k80_cluster", 64, "expert"): 64 / 2.6,
    ("nmt", "k80_cluster", 64, "mcmc"): 64 / 1.1,
}
"""Samples/s of a device. The figure has no labels: these follow from those of figures 9b and 7a."""

PAPER_SPEEDUPS = (1.3, 3.3)
"""Over the better baseline, in the text; ResNet-101 is excepted."""

HEADER = (
    "model",
    "topology",
    "num_devices",
    "sync",
    "strategy",
    "iteration_ms",
    "iteration_ms_low",
    "iteration_ms_high",
    "samples_per_s_per_device",
    "paper_samples_per_s_per_device",
    "speedup_over_better_baseline",
    "communication_gib",
    "waiting_share",
    "fits_memory",
    "num_seeds",
)

Outcomes: TypeAlias = Mapping[tuple[Case, str], Outcome]


def fig6(
    *,
    models: Sequence[str],
    clusters: Sequence[tuple[str, int]],
    syncs: Mapping[str, Sequence[str]],
    agents: Sequence[str],
    simulations: int,
    seeds: Sequence[int],
    archive: Archive,
) -> Reproduction:
    """Search strategies for all models on all clusters and hold them against both baselines (FlexFlow, figure 6).

    Args:
        models: names of the models.
        clusters: names of topologies, each with a number of devices.
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        agents: searchers; mcmc is FlexFlow's.
        simulations: budget of each search.
        seeds: of each search.
        archive: keeps the searches.
    """
    cases = [Case(model, name, count, sync) for model in models for name, count in clusters for sync in syncs]
    names = [*BASELINES, *agents]
    outcomes = hold_contest(archive, cases, names, syncs=syncs, simulations=simulations, seeds=seeds)
    return Reproduction(
        picture=_picture(models, cases, names, outcomes),
        header=HEADER,
        rows=[_line(case, name, outcomes) for case in cases for name in names],
        difference=" ".join(_sentence(sync, agents, outcomes) for sync in syncs),
    )


def speedup(case: Case, name: str, outcomes: Outcomes) -> float:
    """Of a strategy over the better baseline."""
    return min(outcomes[case, baseline].iteration_ms for baseline in BASELINES) / outcomes[case, name].iteration_ms


def paper_per_device(case: Case, name: str) -> float | None:
    """The paper's samples/s of a device where it is certain."""
    return PAPER_PER_DEVICE.get((case.model, case.topology, case.num_devices, name))


def _line(case: Case, name: str, outcomes: Outcomes) -> list[Any]:
    outcome = outcomes[case, name]
    paper = paper_per_device(case, name)
    return [
        case.model,
        case.topology,
        case.num_devices,
        case.sync,
        name,
        *(round(time, 3) for time in (outcome.iteration_ms, *outcome.interval_ms)),
        round(outcome.samples_per_s / case.num_devices, 2),
        "" if paper is None else round(paper, 1),
        round(speedup(case, name, outcomes), 4),
        round(outcome.communication_gib, 3),
        round(outcome.waiting_share, 4),
        outcome.fits_memory,
        len(outcome.records),
    ]


def _sentence(sync: str, agents: Sequence[str], outcomes: Outcomes) -> str:
    """What the searchers gain over the better baseline, and how much of data parallelism is waiting."""
    cases = list(dict.fromkeys(case for case, _ in outcomes if case.sync == sync and case.model != "resnet101"))
    gains = []
    for agent in agents:
        ratios = [speedup(case, agent, outcomes) for case in cases]
        gains.append(f"{LABELS[agent]} {min(ratios):.2f}-{max(ratios):.2f}x (median {np.median(ratios):.2f}x)")
    waiting = np.median([outcomes[case, "data_parallel"].waiting_share for case in cases])
    return (
        f"With sync={sync}: {', '.join(gains)} as fast as the better baseline (paper: {PAPER_SPEEDUPS[0]}-"
        f"{PAPER_SPEEDUPS[1]}x, ResNet-101 apart as here); in data parallelism the devices wait for {waiting:.0%} of "
        "the iteration (median)."
    )


def _picture(models: Sequence[str], cases: Sequence[Case], names: Sequence[str], outcomes: Outcomes) -> Figure:
    """Samples/s of a device: a panel for each model, with a group of bars for each cluster and synchronisation."""
    picture = Figure(figsize=(15, 8.5), layout="constrained")
    panels = np.ravel(picture.subplots(-(-len(models) // 3), min(3, len(models)), squeeze=False))
    for axes, model in zip(panels, models, strict=False):
        own = [case for case in cases if case.model == model]
        draw_bars(
            axes,
            [f"{case.num_devices} {case.topology.split('_')[0].upper()}\n{case.sync}" for case in own],
            {name: [outcomes[case, name].samples_per_s / case.num_devices for case in own] for name in names},
            texts={
                name: [f"{speedup(case, name, outcomes):.2f}x" for case in own]
                for name in names
                if name not in BASELINES
            },
            marks={name: [paper_per_device(case, name) for case in own] for name in names},
        )
        axes.plot([], [], color="black", linewidth=2, label="paper")
        axes.set_title(model, loc="left", color=INK)
        axes.set_ylabel("samples/s of a device", color=INK)
    for axes in panels[len(models) :]:
        axes.set_axis_off()
    add_legend(picture)
    return picture
