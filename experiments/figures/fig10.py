"""Figure 10: simulated against measured times of strategies on the cores of this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from matplotlib.figure import Figure

from experiments.archive import Archive
from experiments.calibrated_validation import calibrated_validation
from experiments.cores import check_cores
from experiments.figures.bars import INK
from experiments.figures.reproduction import Reproduction
from experiments.time_shares import TimeShares
from experiments.validation_report import BAND, draw_times

PANEL_INCHES = 4.0
LEGEND_INCHES = 0.5

TIMES = ("simulated_ms", "measured_ms", "measured_low_ms", "measured_high_ms", "error", "paper_error_below")
SHARES = tuple(f"{side}_{share.name}" for side in ("simulated", "measured") for share in fields(TimeShares))
HEADER = ("model", "strategy", "strategy_hash", *TIMES, *SHARES)


def fig10(
    *,
    models: Sequence[str],
    num_ranks: int,
    link_repeats: int,
    max_seconds: float,
    sample: int,
    num_rounds: int,
    num_iterations: int,
    seed: int,
    oversubscribe: bool,
    archive: Archive,
) -> Reproduction:
    """Run strategies and simulate them (FlexFlow, figure 10); operators and links are measured before each model.

    Args:
        models: each as on the command line of validate.py.
        num_ranks: processes, one for each device.
        link_repeats: of each message by which links are measured.
        max_seconds: for each part of an operator that is timed.
        sample: strategies of each model, good and bad.
        num_rounds: all of them in turn, so often.
        num_iterations: of each in each round.
        seed: of the samples.
        oversubscribe: several ranks may share a core.
        archive: keeps the measurements.

    Raises:
        OptionError: there are fewer cores than ranks.
    """
    check_cores("figure.num_ranks", num_ranks, backend="gloo", oversubscribe=oversubscribe)
    settings = [
        {
            "overrides": overrides,
            "num_ranks": num_ranks,
            "link_repeats": link_repeats,
            "max_seconds": max_seconds,
            "sample": sample,
            "num_rounds": num_rounds,
            "num_iterations": num_iterations,
            "seed": seed,
        }
        for overrides in models
    ]
    found = archive.measurements(calibrated_validation, settings)
    return Reproduction(
        picture=_picture(found),
        header=HEADER,
        rows=[_row(entry["model"], comparison) for entry in found for comparison in entry["comparisons"]],
        difference=_difference(found),
    )


def _row(model: str, comparison: Mapping[str, Any]) -> list[Any]:
    times = [comparison["simulated_ms"], comparison["measured_ms"], *comparison["measured_interval_ms"]]
    shares = [ms for side in ("simulated", "measured") for ms in comparison[side].values()]
    times, shares = ([round(ms, 3) for ms in part] for part in (times, shares))
    error = round(comparison["error"], 4)
    return [model, comparison["name"], comparison["strategy_hash"], *times, error, BAND, *shares]


def _difference(found: Sequence[Mapping[str, Any]]) -> str:
    errors = [abs(comparison["error"]) for entry in found for comparison in entry["comparisons"]]
    num_within = sum(error < BAND for error in errors)
    num_ordered, num_pairs = (sum(counts) for counts in zip(*map(_ordered_pairs, found), strict=True))
    return (
        f"{num_within} of {len(errors)} strategies are simulated within {BAND:.0%} of what they take (paper: all), and "
        f"{num_ordered} of {num_pairs} pairs of one model that differ by more than the noise in the measured order "
        f"(paper: all). {' '.join(map(_sentence, found))}"
    )


def _ordered_pairs(entry: Mapping[str, Any]) -> tuple[int, int]:
    """Pairs of strategies in the order of their times, and all that differ by more than the noise."""
    correlation = entry["correlation"]
    tau, num_pairs = correlation["kendall_beyond_noise"]["value"], correlation["num_pairs_beyond_noise"]
    return 0 if tau is None else round(num_pairs * (1 + tau) / 2), num_pairs


def _sentence(entry: Mapping[str, Any]) -> str:
    num_ordered, num_pairs = _ordered_pairs(entry)
    return (
        f"{entry['model']}: error {entry['median_error']:.1%} (median) and {entry['worst_error']:.1%} (worst), "
        f"{num_ordered} of {num_pairs} pairs in order, slowest {entry['measured_spread']:.2f} times the fastest."
    )


def _picture(found: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel for each model."""
    picture = Figure(figsize=(PANEL_INCHES * len(found), PANEL_INCHES + LEGEND_INCHES), layout="constrained")
    for axes, entry in zip(picture.subplots(1, len(found), squeeze=False)[0], found, strict=True):
        comparisons = entry["comparisons"]
        measured, simulated = ([c[f"{side}_ms"] for c in comparisons] for side in ("measured", "simulated"))
        draw_times(axes, measured, simulated, [c["measured_interval_ms"] for c in comparisons])
        axes.set_title(entry["model"], loc="left", fontsize=11, color=INK)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = picture.axes[0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return picture
