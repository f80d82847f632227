"""TableCost: times given with the graph, for worked examples and tests."""

from collections.abc import Mapping

from sim.errors import UnknownNameError
from sim.operator_graph import Operator


class TableCost:
    """Times looked up by operator and degrees, alike on every device kind.

    Args:
        times: for each operator's name, for each of its degrees: (forward ns, backward ns).
        update_launch_ns: time of an update of no bytes.
        update_ns_per_byte: further time for each byte of weights.
    """

    deterministic = True
    platform_dependent = False

    def __init__(
        self,
        *,
        times: Mapping[str, Mapping[tuple[int, ...], tuple[int, int]]],
        update_launch_ns: float = 0.0,
        update_ns_per_byte: float = 0.0,
    ) -> None:
        self.times = {name: dict(entries) for name, entries in times.items()}
        self.update = (update_launch_ns, update_ns_per_byte)

    def part_ns(self, operator: Operator, degrees: tuple[int, ...], device_kind: str) -> tuple[int, int]:
        """Forward and backward time of one part, ns; see ``CostSource``."""
        if operator.name not in self.times:
            raise UnknownNameError("operator of the cost table", operator.name, list(self.times))
        entries = self.times[operator.name]
        if degrees not in entries:
            known = [str(entry) for entry in entries]
            raise UnknownNameError(f"degrees of operator '{operator.name}' in the cost table", str(degrees), known)
        return entries[degrees]

    def update_ns(self, device_kind: str) -> tuple[float, float]:
        """Update time: ns for each launch and for each byte of weights."""
        return self.update
