"""Figure 7: iteration time, data moved and task time of NMT on 64 K80s."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from matplotlib.figure import Figure

from experiments.archive import Archive
from experiments.figures.bars import INK, add_legend, draw_bars
from experiments.figures.contest import BASELINES, Case, Outcome, hold_contest
from experiments.figures.reproduction import Reproduction

MODEL, TOPOLOGY, NUM_DEVICES = "nmt", "k80_cluster", 64

PAPER = {"data_parallel": (1.9, 65.8, 35.7), "expert": (2.6, 24.2, 28.2), "mcmc": (1.1, 12.1, 28.7)}
"""Seconds of an iteration, GiB moved (the paper writes GB), and seconds of all tasks that compute."""

QUANTITIES = ("iteration_s", "moved_gib", "task_s")
TITLES = ("(a) time of an iteration, s", "(b) data moved in an iteration, GiB", "(c) task time of an iteration, s")
HEADER = ("sync", "strategy", *(f"{side}{name}" for name in QUANTITIES for side in ("", "paper_")), "waiting_share")

Quantities: TypeAlias = tuple[float, float, float]


def fig7(
    *,
    syncs: Mapping[str, Sequence[str]],
    agents: Sequence[str],
    simulations: int,
    seeds: Sequence[int],
    archive: Archive,
) -> Reproduction:
    """Hold NMT's strategies on 64 K80s against the three panels of FlexFlow, figure 7.

    Args:
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        agents: searchers; mcmc is FlexFlow's.
        simulations: budget of each search.
        seeds: of each search.
        archive: keeps the searches.
    """
    cases = [Case(MODEL, TOPOLOGY, NUM_DEVICES, sync) for sync in syncs]
    names = [*BASELINES, *agents]
    outcomes = hold_contest(archive, cases, names, syncs=syncs, simulations=simulations, seeds=seeds)
    ours = {case.sync: {name: quantities(outcomes[case, name]) for name in names} for case in cases}
    return Reproduction(
        picture=_picture(names, {"paper": PAPER} | ours),
        header=HEADER,
        rows=[_line(case.sync, name, outcomes[case, name]) for case in cases for name in names],
        difference=" ".join(_sentence(sync, ours[sync]) for sync in syncs),
    )


def quantities(outcome: Outcome) -> Quantities:
    """What the three panels show."""
    return outcome.iteration_ms / 1e3, outcome.communication_gib, outcome.compute_s


def _line(sync: str, name: str, outcome: Outcome) -> list[Any]:
    paper = PAPER.get(name, ("",) * len(QUANTITIES))
    pairs = zip(quantities(outcome), paper, strict=True)
    cells = [cell for ours, theirs in pairs for cell in (round(ours, 4), theirs)]
    return [sync, name, *cells, round(outcome.waiting_share, 4)]


def _sentence(sync: str, ours: Mapping[str, Quantities]) -> str:
    """Ours and the paper's, each in units of data parallelism."""
    parts = []
    for name in ours:
        if name in PAPER and name != "data_parallel":
            pairs = zip(ours[name], ours["data_parallel"], PAPER[name], PAPER["data_parallel"], strict=True)
            ratios = [f"{mine / whole:.2f} ({theirs / paper_whole:.2f})" for mine, whole, theirs, paper_whole in pairs]
            parts.append(
                f"{name} takes {ratios[0]} of its time, moves {ratios[1]} of its data and computes {ratios[2]}"
            )
    seconds, moved, task_s = ours["data_parallel"]
    paper = PAPER["data_parallel"]
    return (
        f"With sync={sync} data parallelism takes {seconds:.2f} s ({paper[0]} in the paper), moves {moved:.1f} GiB "
        f"({paper[1]}) and computes {task_s:.1f} s ({paper[2]}); {'; '.join(parts)} of its task time."
    )


def _picture(names: Sequence[str], columns: Mapping[str, Mapping[str, Quantities]]) -> Figure:
    """A panel for each quantity: the paper's bars, and ours for each synchronisation."""
    picture = Figure(figsize=(12, 4.2), layout="constrained")
    for number, (axes, title) in enumerate(zip(picture.subplots(1, len(TITLES)), TITLES, strict=True)):
        heights = {
            name: [column[name][number] if name in column else None for column in columns.values()] for name in names
        }
        texts = {
            name: ["" if value is None else f"{value:.3g}" for value in values] for name, values in heights.items()
        }
        draw_bars(axes, list(columns), heights, texts=texts)
        axes.set_title(title, loc="left", fontsize=10, color=INK)
    add_legend(picture)
    return picture
