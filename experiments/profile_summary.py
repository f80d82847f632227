"""print_summary: the times of a model's parts by kind of operator, and how far the analytic cost is from them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from sim.costs.analytic import AnalyticCost
from sim.costs.part_shape import kind_of, part_shapes
from sim.costs.timing import Platform, Timing
from sim.device_kind import DEVICE_KINDS
from sim.space import SoapSpace


@dataclass(frozen=True, slots=True)
class Profile:
    """What a model's space needs in one dtype.

    Attributes:
        platform: what the times hold for.
        timings: by key; those that other processes measure are missing.
        num_needed: keys.
        num_known: keys that the database had before.
    """

    platform: Platform
    timings: Mapping[str, Timing]
    num_needed: int
    num_known: int


def print_summary(profile: Profile, space: SoapSpace) -> None:
    """The times by kind of operator, on stdout; beside them the analytic cost's, where it knows the device.

    Args:
        profile: what was found.
        space: whose parts they are.
    """
    by_kind: dict[str, list[str]] = {}
    for key in profile.timings:
        by_kind.setdefault(kind_of(key), []).append(key)
    ratios = analytic_ratios(profile, space)
    table = Table(title=str(profile.platform), title_justify="left", title_style="bold")
    table.add_column("kind")
    for column in ("parts", "forward, us", "backward, us", "deviation", "analytic"):
        table.add_column(column, justify="right")
    for kind, keys in sorted(by_kind.items()):
        found = [profile.timings[key] for key in keys]
        deviations = sorted(timing.forward_variance**0.5 / max(1.0, timing.forward_ns) for timing in found)
        table.add_row(
            kind,
            str(len(found)),
            _spread([timing.forward_ns for timing in found]),
            _spread([timing.backward_ns for timing in found]),
            f"{deviations[len(deviations) // 2]:.0%}",
            _times([ratios[key] for key in keys if key in ratios]),
        )
    console = Console()
    console.print(table)
    if ratios:
        low, middle, high = np.quantile(list(ratios.values()), (0.1, 0.5, 0.9))
        what = f"analytic over measured, {len(ratios)} parts on {profile.platform.device_kind}"
        console.print(f"{what}: {middle:.2f}x, eight in ten {low:.2f}x to {high:.2f}x", highlight=False, soft_wrap=True)
    console.print(f"{profile.num_needed} needed, {profile.num_known} known before", highlight=False)
    if num_missing := profile.num_needed - len(profile.timings):
        console.print(f"{num_missing} are being measured by other processes", highlight=False)


def analytic_ratios(profile: Profile, space: SoapSpace) -> dict[str, float]:
    """For each part that was timed, forward and backward together: the analytic time over the measured one.

    Returns:
        By key; empty where the analytic cost does not know the kind of device.
    """
    if profile.platform.device_kind not in DEVICE_KINDS:
        return {}
    analytic, ratios = AnalyticCost(), {}
    for shape in part_shapes(space.graph, space):
        timing = profile.timings.get(shape.key)
        if timing is None or timing.forward_ns + timing.backward_ns <= 0:
            continue
        operator = space.graph.operators[shape.operator]
        both = sum(analytic.part_ns(operator, shape.degrees, profile.platform.device_kind))
        ratios[shape.key] = both / (timing.forward_ns + timing.backward_ns)
    return ratios


def _spread(times_ns: list[float]) -> str:
    """The least and the greatest of some times, in us."""
    low, high = min(times_ns) / 1000, max(times_ns) / 1000
    return f"{low:,.0f}" if len(times_ns) == 1 else f"{low:,.0f} to {high:,.0f}"


def _times(ratios: list[float]) -> str:
    """The median of some ratios."""
    return f"{np.median(ratios):.2f}x" if ratios else ""
