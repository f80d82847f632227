"""Table 5: search times with full and with delta simulation."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from experiments.archive import Archive
from experiments.benchmark_simulator import make_problem
from experiments.figures.bars import INK
from experiments.figures.reproduction import Reproduction
from experiments.simulator_speed import PAPER_SPEEDUPS, measure_speed

PAPER_DEVICES = (4, 8, 16, 32, 64)
PAPER_SECONDS = {
    "alexnet": ((0.11, 0.04), (0.40, 0.13), (1.4, 0.48), (5.3, 1.8), (18, 5.9)),
    "resnet101": ((1.4, 0.4), (4.5, 1.4), (22, 7.3), (107, 33), (515, 158)),
    "inception_v3": ((14, 4.1), (66, 17), (388, 77), (1746, 298), (8817, 1278)),
    "rnntc": ((16, 7.5), (91, 39), (404, 170), (1358, 516), (4404, 1489)),
    "rnnlm": ((21, 9.2), (76, 31), (327, 121), (1102, 342), (3406, 969)),
    "nmt": ((40, 16), (178, 65), (998, 328), (2698, 701), (8982, 2190)),
}
"""Full and delta simulation, seconds of a search, mean of ten random starts."""

START = "random"
HEADER = (
    "model",
    "num_devices",
    "full_s",
    "delta_s",
    "delta_cutoff_s",
    "full_over_delta",
    "full_over_delta_cutoff",
    "paper_full_s",
    "paper_delta_s",
    "paper_full_over_delta",
    "num_tasks",
    "tasks_simulated_by_delta_cutoff",
)


def table5(
    *,
    models: Sequence[str],
    num_devices: Sequence[int],
    topology: str,
    sync: str,
    temperature: float,
    proposals: int,
    rebuilds: int,
    seed: int,
    search_proposals: int,
    archive: Archive,
) -> Reproduction:
    """Time a stream of proposals for each model and number of devices (FlexFlow, table 5).

    Args:
        models: names of the models.
        num_devices: numbers of devices.
        topology: the cluster; its number of nodes grows as needed.
        sync: synchronisation scheme.
        temperature: of the chain, in units of the cost of data parallelism.
        proposals: in each stream.
        rebuilds: full simulations, spread over it.
        seed: of the streams.
        search_proposals: for which times are stated.
        archive: keeps the streams.
    """
    shared = {"topology": topology, "sync": sync, "temperature": temperature}
    shared |= {"proposals": proposals, "rebuilds": rebuilds, "seed": seed}
    cells = [(model, count) for model in models for count in num_devices]
    settings = [{"model": model, "num_devices": count} | shared for model, count in cells]
    speeds = dict(zip(cells, archive.measurements(stream_speed, settings), strict=True))
    return Reproduction(
        picture=_picture(models, num_devices, speeds),
        header=HEADER,
        rows=[_line(cell, speed, search_proposals) for cell, speed in speeds.items()],
        difference=_sentence(speeds, search_proposals),
    )


def stream_speed(
    *,
    model: str,
    num_devices: int,
    topology: str,
    sync: str,
    temperature: float,
    proposals: int,
    rebuilds: int,
    seed: int,
) -> dict[str, Any]:
    """What benchmark_simulator.py measures, from a random start."""
    options = {"topology": topology, "sync": sync, "space": "block", "model_options": {}}
    problem = make_problem(model, num_devices, options)
    keywords = {"proposals": proposals, "rebuilds": rebuilds, "seed": seed}
    return asdict(measure_speed(problem, model, START, temperature=temperature, **keywords))


def _line(cell: tuple[str, int], speed: Mapping[str, Any], search_proposals: int) -> list[Any]:
    model, count = cell
    paper: Sequence[float | str] = ("", "")
    if count in PAPER_DEVICES:
        paper = PAPER_SECONDS[model][PAPER_DEVICES.index(count)]
    return [
        model,
        count,
        *(round(speed[f"{way}_us"] * search_proposals / 1e6, 3) for way in ("full", "delta", "cutoff")),
        *(round(ratio, 2) for ratio in ratios(speed)),
        *paper,
        PAPER_SPEEDUPS[model].get(count, ""),
        round(speed["num_tasks"]),
        round(speed["simulated_tasks"], 1),
    ]


def ratios(speed: Mapping[str, Any]) -> tuple[float, float]:
    """Time of full over that of delta simulation, without and with cutoff."""
    return speed["full_us"] / speed["delta_us"], speed["full_us"] / speed["cutoff_us"]


def _sentence(speeds: Mapping[tuple[str, int], Mapping[str, Any]], search_proposals: int) -> str:
    plain, cut = zip(*map(ratios, speeds.values()), strict=True)
    theirs = [PAPER_SPEEDUPS[model][count] for model, count in speeds if count in PAPER_DEVICES]
    slowest = max(speed["cutoff_us"] for speed in speeds.values()) * search_proposals / 1e6
    return (
        f"Delta simulation is {min(plain):.1f}-{max(plain):.1f}x as fast as full simulation and {min(cut):.1f}-"
        f"{max(cut):.1f}x if it stops when rejection is certain (paper: {min(theirs)}-{max(theirs)}x); "
        f"{search_proposals:,} proposals take {slowest:.0f} s at most, in the paper's table up to 8982 s by full and "
        "2190 s by delta simulation."
    )


def _picture(
    models: Sequence[str], num_devices: Sequence[int], speeds: Mapping[tuple[str, int], Mapping[str, Any]]
) -> Figure:
    """Full over delta simulation against the number of devices, a panel for each model."""
    picture = Figure(figsize=(2.4 * len(models), 3.4), layout="constrained")
    panels = picture.subplots(1, len(models), sharey=True, squeeze=False)[0]
    for axes, model in zip(panels, models, strict=True):
        plain, cut = zip(*(ratios(speeds[model, count]) for count in num_devices), strict=True)
        theirs = [PAPER_SPEEDUPS[model].get(count, float("nan")) for count in num_devices]
        axes.loglog(num_devices, cut, "o-", color="#3f8f6b", label="delta with cutoff")
        axes.loglog(num_devices, plain, "o-", color="#e0803c", label="delta")
        axes.loglog(num_devices, theirs, "o-", color="black", label="delta, paper")
        axes.set_xticks(num_devices, [str(count) for count in num_devices])
        axes.minorticks_off()
        axes.set_title(model, loc="left", fontsize=10, color=INK)
        axes.set_xlabel("P100s")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("times as fast as full simulation")
    panels[0].set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return picture
