"""shown: how the numbers of a comparison are written, alike in the terminal and on the page."""

from collections.abc import Callable, Mapping
from typing import Any

MISSING = "–"  # noqa: RUF001 (a dash for readers)

FORMATS: Mapping[str, Callable[[Any], str]] = {
    "best_ms": lambda value: f"{value:,.3f}",
    "fastest_ms": lambda value: f"{value:,.3f}",
    "lower_bound_ms": lambda value: f"{value:,.3f}",
    "data_parallel_ms": lambda value: f"{value:,.3f}",
    "speedup": lambda value: f"{value:.2f}",
    "probability": lambda value: f"{value:.2f}",
    "gap": lambda value: f"{value:.1%}" if value >= 0 else "outside the space",
    "simulations": lambda value: f"{value:,.0f}",
    "search_seconds": lambda value: f"{value:,.1f}",
    "fits_memory": lambda value: "fits" if value else "exceeds",
}


def shown(name: str, value: Any) -> str:
    """A value of a column, for people."""
    if value is None or value == "":
        return MISSING
    return FORMATS.get(name.removesuffix("_low").removesuffix("_high"), str)(value)
