"""CostSource: what the simulator asks about the time of operators."""

from typing import Protocol

from sim.operator_graph import Operator


class CostSource(Protocol):
    """Execution times by assumption A1: they depend on sizes, not on values.

    Attributes:
        deterministic: equal questions get equal answers, in every process.
        platform_dependent: the answers depend on the machine that they were made on.
    """

    deterministic: bool
    platform_dependent: bool

    def part_ns(self, operator: Operator, degrees: tuple[int, ...], device_kind: str) -> tuple[int, int]:
        """Forward and backward time of one part, ns.

        Args:
            operator: what is computed.
            degrees: parts along each of its dimensions.
            device_kind: kind of the device that computes the part.

        Raises:
            UnknownNameError: there is no time for the operator, the degrees or the device kind.
        """
        ...

    def update_ns(self, device_kind: str) -> tuple[float, float]:
        """Time of the optimizer's update: ns for each launch, and ns for each byte of weights."""
        ...
