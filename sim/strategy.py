"""ParallelConfig and Strategy: how every operator is split, and which device gets each part."""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.errors import IllegalConfigError, MismatchError, StrategyFormatError
from sim.operator_graph import Box, Operator, OperatorGraph
from sim.topology import DeviceTopology

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ParallelConfig:
    """How one operator is parallelized (FlexFlow, section 4).

    Attributes:
        degrees: parts along each dimension of the operator; 1 where it is not divisible.
        devices: device of each part, parts in row-major order (the last dimension varies fastest).
    """

    degrees: tuple[int, ...]
    devices: tuple[int, ...]

    @property
    def num_tasks(self) -> int:
        """Parts, hence forward tasks."""
        return len(self.devices)

    def coordinates(self, part: int) -> tuple[int, ...]:
        """Position of a part along each dimension."""
        position = []
        for degree in reversed(self.degrees):
            part, index = divmod(part, degree)
            position.append(index)
        return tuple(reversed(position))

    def box(self, operator: Operator, part: int) -> Box:
        """The interval of each dimension that a part computes."""
        lengths = [size // degree for size, degree in zip(operator.sizes, self.degrees, strict=True)]
        return tuple(
            (index * length, (index + 1) * length)
            for index, length in zip(self.coordinates(part), lengths, strict=True)
        )

    def check(self, operator: Operator, num_devices: int) -> None:
        """Refuse a config that cannot run, whatever the space.

        Raises:
            IllegalConfigError: a degree does not divide its extent, a device does not exist, ...
        """

        def require(condition: bool, reason: str) -> None:
            if not condition:
                raise IllegalConfigError(operator.name, self, reason)

        require(
            len(self.degrees) == len(operator.dims), f"it needs one degree for each of {len(operator.dims)} dimensions"
        )
        for degree, dim in zip(self.degrees, operator.dims, strict=True):
            require(degree >= 1, f"degree {degree} of dimension '{dim.name}' is not positive")
            require(degree == 1 or bool(dim.label), f"dimension '{dim.name}' is not divisible")
            require(
                dim.size % degree == 0, f"degree {degree} does not divide dimension '{dim.name}' of size {dim.size}"
            )
        parts = math.prod(self.degrees)
        require(parts == len(self.devices), f"{parts} parts need as many devices, not {len(self.devices)}")
        for device in self.devices:
            require(0 <= device < num_devices, f"device {device} does not exist; there are {num_devices}")
        require(parts <= num_devices, f"{parts} parts are more than the {num_devices} devices")


class Strategy:
    """One ParallelConfig for each operator of a graph on a topology.

    Args:
        graph: the operator graph.
        topology: the device topology.
        configs: one for each operator, in the graph's order.

    Raises:
        IllegalConfigError: a config does not fit its operator or the topology.
    """

    __slots__ = ("configs", "graph", "topology")

    def __init__(self, graph: OperatorGraph, topology: DeviceTopology, configs: Sequence[ParallelConfig]) -> None:
        if len(configs) != len(graph):
            raise IllegalConfigError(graph.name, len(configs), f"a strategy needs {len(graph)} configs")
        for operator, config in zip(graph.operators, configs, strict=True):
            config.check(operator, topology.num_devices)
        self.graph = graph
        self.topology = topology
        self.configs = tuple(configs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strategy) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)

    def __getitem__(self, operator: int) -> ParallelConfig:
        return self.configs[operator]

    def replace(self, operator: int, config: ParallelConfig) -> "Strategy":
        """The strategy that differs in one operator's config."""
        configs = list(self.configs)
        configs[operator] = config
        return Strategy(self.graph, self.topology, configs)

    @property
    def hash(self) -> str:
        """Short digest of graph, topology and configs."""
        text = json.dumps([self.graph.hash, self.topology.hash, [(c.degrees, c.devices) for c in self.configs]])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """What is written on disk; degrees are named, and those of 1 left out."""
        return {
            "format_version": FORMAT_VERSION,
            "model": self.graph.name,
            "graph_hash": self.graph.hash,
            "topology": self.topology.name,
            "topology_hash": self.topology.hash,
            "num_devices": self.topology.num_devices,
            "strategy_hash": self.hash,
            "configs": {
                operator.name: {
                    "degrees": {
                        dim.name: degree
                        for dim, degree in zip(operator.dims, config.degrees, strict=True)
                        if degree > 1
                    },
                    "devices": list(config.devices),
                }
                for operator, config in zip(self.graph.operators, self.configs, strict=True)
            },
        }

    def save(self, path: str | Path) -> None:
        """Write the strategy as JSON, under a temporary name first."""
        path = Path(path)
        draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            draft.write_text(json.dumps(self.to_dict(), indent=1) + "\n")
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    @staticmethod
    def load(path: str | Path, graph: OperatorGraph, topology: DeviceTopology) -> "Strategy":
        """Read a strategy written by ``save``.

        Raises:
            StrategyFormatError: the file is missing or not a strategy.
            MismatchError: it was made for another graph or topology.
            IllegalConfigError: one of its configs is not legal.
        """
        try:
            content = json.loads(Path(path).read_text())
        except OSError as error:
            raise StrategyFormatError(str(path), error.strerror or "cannot be read") from error
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
            raise StrategyFormatError(str(path), f"is not JSON ({error})") from error
        return Strategy.from_dict(content, graph, topology, path=str(path))

    @staticmethod
    def from_dict(content: Any, graph: OperatorGraph, topology: DeviceTopology, *, path: str) -> "Strategy":
        """The strategy of a parsed file; see ``load``."""
        if not isinstance(content, Mapping) or content.get("format_version") != FORMAT_VERSION:
            raise StrategyFormatError(path, f"is not a strategy of format version {FORMAT_VERSION}")
        for what, name, expected in (("graph", "model", graph), ("topology", "topology", topology)):
            found = content.get(f"{what}_hash")
            if found != expected.hash:
                raise MismatchError(
                    "strategy",
                    f"{'operator' if what == 'graph' else 'device'} {what}",
                    f"'{expected.name}' ({expected.hash})",
                    f"'{content.get(name)}' ({found})",
                )
        configs = content.get("configs")
        if not isinstance(configs, Mapping):
            raise StrategyFormatError(path, "has no configs")
        names = [operator.name for operator in graph.operators]
        if missing := [name for name in names if name not in configs]:
            raise StrategyFormatError(path, f"has no config for operator '{missing[0]}'")
        if unknown := sorted(set(configs) - set(names)):
            raise StrategyFormatError(path, f"has a config for operator '{unknown[0]}', which the model lacks")
        for name in names:
            if not _is_config(configs[name]):
                form = "'degrees' (integers by dimension) and 'devices' (a list of integers)"
                raise StrategyFormatError(path, f"has {configs[name]!r} for operator '{name}' instead of {form}")
        return Strategy(graph, topology, [_config_from_dict(op, configs[op.name]) for op in graph.operators])


def _is_config(content: object) -> bool:
    """Whether it has the form of a config; true and false, which Python counts as 1 and 0, are no integers."""
    if not isinstance(content, Mapping) or set(content) != {"degrees", "devices"}:
        return False
    degrees, devices = content["degrees"], content["devices"]
    if not isinstance(degrees, Mapping) or not isinstance(devices, list):
        return False
    return all(type(number) is int for number in (*degrees.values(), *devices))


def _config_from_dict(operator: Operator, content: Mapping[str, Any]) -> ParallelConfig:
    named = dict(content["degrees"])
    degrees = tuple(named.pop(dim.name, 1) for dim in operator.dims)
    config = ParallelConfig(degrees, tuple(content["devices"]))
    if named:
        raise IllegalConfigError(operator.name, config, f"it has no dimension called '{next(iter(named))}'")
    return config
