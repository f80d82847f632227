"""MeasuredCost: times measured on the machine at hand, or on one that shipped a table."""

from collections.abc import Mapping
from typing import Literal

from sim.costs.analytic import AnalyticCost
from sim.costs.line import fit_line, update_points
from sim.costs.part_shape import describe, part_key, part_shapes
from sim.costs.timing import TASK_KEY, Platform, Timing
from sim.costs.timing_file import load_timings
from sim.errors import AmbiguousTimingsError, MissingTimingsError, SimError
from sim.operator_graph import Operator, OperatorGraph
from sim.space import SoapSpace


class MeasuredCost:
    """Times looked up by all that a part's time depends on (``sim.costs.part_shape.part_key``).

    A task takes the part's median time and what the executor adds to every task, measured once for each platform.
    What crosses between the parts of an operator is not part of it: the simulator prices exchanges on connections.

    Args:
        database: the SQLite file that ``experiments/profile_operators.py`` fills, a CSV with its columns, or the name
            of a CSV in ``sim/conf/costs``.
        device: take times of this device only, as the machine calls it; null: there is one.
        num_threads: the same for threads.
        dtype: the same for ``fp32``, ``tf32`` and ``bf16``.
        torch_version: the same for PyTorch.
        fallback: ``none`` refuses parts that were not measured, ``analytic`` prices them by ``AnalyticCost``.

    Raises:
        TimingFileError: the file is missing or holds something else.
    """

    deterministic = True
    platform_dependent = True

    def __init__(
        self,
        *,
        database: str = "measured/timings.sqlite",
        device: str | None = None,
        num_threads: int | None = None,
        dtype: str | None = None,
        torch_version: str | None = None,
        fallback: Literal["none", "analytic"] = "none",
    ) -> None:
        if fallback not in ("none", "analytic"):
            raise SimError(f"cost.fallback must be none or analytic, not '{fallback}'")
        self.database, self.fallback = database, fallback
        self.wanted = {"device": device, "num_threads": num_threads, "dtype": dtype, "torch_version": torch_version}
        self._timings = load_timings(database)
        self._tables: dict[str, Mapping[str, Timing]] = {}
        self._analytic = AnalyticCost()
        self._measured: set[tuple[str, str]] = set()
        self._missing: set[tuple[str, str]] = set()

    @property
    def num_asked(self) -> int:
        """Distinct part shapes priced so far, on each kind of device."""
        return len(self._measured) + len(self._missing)

    @property
    def num_fallbacks(self) -> int:
        """Those of them that were not measured."""
        return len(self._missing)

    def part_ns(self, operator: Operator, degrees: tuple[int, ...], device_kind: str) -> tuple[int, int]:
        """Forward and backward time of one part, ns; see ``CostSource``.

        Raises:
            MissingTimingsError: the part was not measured and there is no fallback.
            AmbiguousTimingsError: it was measured on several platforms.
        """
        table, key = self._table(device_kind), part_key(operator, degrees)
        timing = table.get(key)
        if timing is None:
            self._require_fallback(device_kind, [key], 1)
            self._missing.add((device_kind, key))
            return self._analytic.part_ns(operator, degrees, device_kind)
        self._measured.add((device_kind, key))
        task = table.get(TASK_KEY)
        added = (task.forward_ns, task.backward_ns) if task else (0.0, 0.0)
        return round(timing.forward_ns + added[0]), round(timing.backward_ns + added[1])

    def update_ns(self, device_kind: str) -> tuple[float, float]:
        """Update time: ns for each launch and for each byte of weights, a line through the updates measured."""
        table = self._table(device_kind)
        points = update_points(table)
        if not points:
            self._require_fallback(device_kind, ['{"kind":"update"}'], 1)
            return self._analytic.update_ns(device_kind)
        launch_ns, ns_per_byte = fit_line(points)
        return launch_ns + (table[TASK_KEY].forward_ns if TASK_KEY in table else 0.0), ns_per_byte

    def check(self, graph: OperatorGraph, space: SoapSpace) -> None:
        """Refuse a problem of whose part shapes some were not measured, unless there is a fallback.

        Raises:
            MissingTimingsError: says how many are missing.
            AmbiguousTimingsError: times of several platforms fit.
        """
        for kind in space.topology.device_kinds:
            table, shapes = self._table(kind), part_shapes(graph, space)
            missing = [shape.key for shape in shapes if shape.key not in table]
            if missing:
                self._require_fallback(kind, missing, len(shapes))

    def _require_fallback(self, device_kind: str, missing: list[str], num_shapes: int) -> None:
        if self.fallback == "none":
            raise MissingTimingsError(self.database, device_kind, describe(missing[0]), len(missing), num_shapes)

    def _table(self, device_kind: str) -> Mapping[str, Timing]:
        """The times of the one platform of a kind that is meant; none if there is no such platform."""
        if device_kind not in self._tables:
            of_kind = [platform for platform in self._timings if platform.device_kind == device_kind]
            fitting = [platform for platform in of_kind if self._fits(platform)]
            if len(fitting) > 1 or (of_kind and not fitting):
                wanted = {key: value for key, value in self.wanted.items() if value is not None}
                names = [str(platform) for platform in sorted(of_kind)]
                raise AmbiguousTimingsError(self.database, device_kind, wanted, len(fitting), names)
            self._tables[device_kind] = self._timings[fitting[0]] if fitting else {}
        return self._tables[device_kind]

    def _fits(self, platform: Platform) -> bool:
        return all(value is None or getattr(platform, key) == value for key, value in self.wanted.items())
