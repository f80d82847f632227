"""Figure 9b: throughput of OptCNN's and FlexFlow's strategies on 16 P100s."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from matplotlib.figure import Figure

from experiments.archive import Archive
from experiments.figures.bars import INK, add_legend, draw_bars
from experiments.figures.contest import Case, Outcome, hold_contest
from experiments.figures.reproduction import Reproduction

TOPOLOGY, NUM_DEVICES = "p100_cluster", 16

PAPER = {
    "inception_v3": {"optcnn": 1930, "mcmc": 2208},
    "rnntc": {"optcnn": 3791, "mcmc": 5846},
    "rnnlm": {"optcnn": 2408, "mcmc": 3749},
    "nmt": {"optcnn": 2659, "mcmc": 3923},
}
"""Samples/s of all devices; on AlexNet and ResNet-101 both found the same strategies."""

HEADER = (
    "model",
    "sync",
    "strategy",
    "samples_per_s",
    "paper_samples_per_s",
    "over_optcnn",
    "paper_over_optcnn",
    "iteration_ms",
    "iteration_ms_low",
    "iteration_ms_high",
    "communication_gib",
    "waiting_share",
)

Outcomes: TypeAlias = Mapping[tuple[Case, str], Outcome]


def fig9b(
    *,
    models: Sequence[str],
    syncs: Mapping[str, Sequence[str]],
    agents: Sequence[str],
    simulations: int,
    seeds: Sequence[int],
    archive: Archive,
) -> Reproduction:
    """Hold OptCNN's strategies against FlexFlow's (FlexFlow, figure 9b).

    Args:
        models: names of the models.
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        agents: searchers beside OptCNN; mcmc is FlexFlow's.
        simulations: budget of each of their searches.
        seeds: of each of them.
        archive: keeps the searches.
    """
    cases = [Case(model, TOPOLOGY, NUM_DEVICES, sync) for model in models for sync in syncs]
    names = ["optcnn", *agents]
    outcomes = hold_contest(archive, cases, names, syncs=syncs, simulations=simulations, seeds=seeds)
    return Reproduction(
        picture=_picture(models, cases, names, outcomes),
        header=HEADER,
        rows=[_line(case, name, outcomes) for case in cases for name in names],
        difference=" ".join(_sentence(sync, agents, outcomes) for sync in syncs),
    )


def over_optcnn(case: Case, name: str, outcomes: Outcomes) -> float:
    """Throughput over that of OptCNN's strategy."""
    return outcomes[case, name].samples_per_s / outcomes[case, "optcnn"].samples_per_s


def paper_ratio(model: str, name: str) -> float | None:
    """The same of the paper's labels."""
    labels = PAPER.get(model, {})
    return labels[name] / labels["optcnn"] if name in labels else None


def _line(case: Case, name: str, outcomes: Outcomes) -> list[Any]:
    outcome, ratio = outcomes[case, name], paper_ratio(case.model, name)
    return [
        case.model,
        case.sync,
        name,
        round(outcome.samples_per_s, 1),
        PAPER.get(case.model, {}).get(name, ""),
        round(over_optcnn(case, name, outcomes), 4),
        "" if ratio is None else round(ratio, 3),
        *(round(time, 3) for time in (outcome.iteration_ms, *outcome.interval_ms)),
        round(outcome.communication_gib, 3),
        round(outcome.waiting_share, 4),
    ]


def _sentence(sync: str, agents: Sequence[str], outcomes: Outcomes) -> str:
    cases = [case for case, name in outcomes if case.sync == sync and name == "optcnn"]
    parts = []
    for case in cases:
        ratios = [f"{name} {over_optcnn(case, name, outcomes):.2f}x" for name in agents]
        paper = paper_ratio(case.model, "mcmc")
        parts.append(f"{case.model} {', '.join(ratios)}" + ("" if paper is None else f" (paper: {paper:.2f}x)"))
    return f"Throughput over OptCNN's with sync={sync}: {'; '.join(parts)}."


def _picture(models: Sequence[str], cases: Sequence[Case], names: Sequence[str], outcomes: Outcomes) -> Figure:
    """A panel for each model: the paper's bars, and ours for each synchronisation."""
    picture = Figure(figsize=(3.2 * len(models), 4.2), layout="constrained")
    for axes, model in zip(picture.subplots(1, len(models), squeeze=False)[0], models, strict=True):
        own = [case for case in cases if case.model == model]
        heights = {
            name: [PAPER.get(model, {}).get(name), *(outcomes[case, name].samples_per_s for case in own)]
            for name in names
        }
        texts = {
            name: ["" if value is None else f"{value:,.0f}" for value in values] for name, values in heights.items()
        }
        draw_bars(axes, ["paper", *(case.sync for case in own)], heights, texts=texts)
        axes.set_title(model, loc="left", color=INK)
        axes.set_ylabel("samples/s", color=INK)
    add_legend(picture)
    return picture
