"""Problem: an operator graph, a device topology and what an iteration costs; the thing that agents solve."""

from functools import cached_property
from typing import TYPE_CHECKING

from sim.buckets import weight_buckets
from sim.costs.analytic import AnalyticCost
from sim.costs.cost_source import CostSource
from sim.errors import MismatchError
from sim.operator_graph import Operator, OperatorGraph
from sim.space import SoapSpace
from sim.strategy import Strategy
from sim.sync import Sync
from sim.topology import DeviceTopology
from sim.work import saved_bytes

if TYPE_CHECKING:
    from sim.kernels.layout import Choices, Tables
    from sim.simulation import Simulation
    from sim.tables import Rows


class Problem:
    """Find the strategy of least iteration time.

    Args:
        graph: the operator graph G.
        topology: the device topology D.
        cost: execution times of tasks; the analytic source by default.
        space: the legal configs; all SOAP dimensions on blocks of devices by default.
        sync: synchronisation of gradients; overlapped ring all-reduces by default.
        training: False for the forward pass alone.

    Raises:
        MismatchError: the space is one of another graph or topology.
    """

    def __init__(
        self,
        graph: OperatorGraph,
        topology: DeviceTopology,
        *,
        cost: CostSource | None = None,
        space: SoapSpace | None = None,
        sync: Sync | None = None,
        training: bool = True,
    ) -> None:
        self.graph, self.topology = graph, topology
        self.cost = cost if cost is not None else AnalyticCost()
        self.space = space if space is not None else SoapSpace(graph, topology)
        self.require_own("space", self.space)
        self.sync = sync if sync is not None else Sync()
        self.training = training

    def require_own(self, thing: str, given: SoapSpace | Strategy) -> None:
        """Refuse a space or a strategy of another graph or topology; its numbers would mean other things here.

        Raises:
            MismatchError: says what differs.
        """
        pairs = (("operator graph", self.graph, given.graph), ("device topology", self.topology, given.topology))
        for what, own, other in pairs:
            if other is not own and other.hash != own.hash:
                raise MismatchError(thing, what, f"'{own.name}' ({own.hash})", f"'{other.name}' ({other.hash})")

    @cached_property
    def tables(self) -> "Tables":
        """The problem in the kernels' arrays."""
        from sim.tables import make_tables

        return make_tables(self)

    @cached_property
    def rows(self) -> "Rows":
        """Numbers for operators and degrees, shared by all simulations of the problem."""
        from sim.tables import Rows

        return Rows(self)

    @cached_property
    def choices(self) -> "Choices":
        """The space in the kernels' arrays, for compiled searchers."""
        from sim.choices import make_choices

        return make_choices(self.space, self.rows)

    @cached_property
    def buckets(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the weight groups that are synchronised together."""
        return weight_buckets(self.graph, self.sync.bucket_mb)

    @cached_property
    def data_parallel(self) -> Strategy:
        """Every operator's samples split over all devices: the reference of every speed-up."""
        from sim.strategies import data_parallel

        return data_parallel(self.graph, self.topology)

    @cached_property
    def data_parallel_ns(self) -> int:
        """Iteration time of data parallelism."""
        return self.simulation(self.data_parallel).cost_ns

    def saved_bytes(self, operator: Operator, degrees: tuple[int, ...]) -> int:
        """Memory that a part keeps from its forward to its backward task, its outputs included."""
        sizes = tuple(size // degree for size, degree in zip(operator.sizes, degrees, strict=True))
        return saved_bytes(operator, sizes)

    def simulation(self, strategy: Strategy | None = None) -> "Simulation":
        """A delta simulation that starts from ``strategy``, or from data parallelism."""
        from sim.simulation import Simulation

        return Simulation(self, strategy if strategy is not None else self.data_parallel)
