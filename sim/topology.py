"""DeviceTopology: the devices of a machine or cluster and the connections that transfers occupy.

Times are int64 nanoseconds and 1 GB/s is one byte per nanosecond, so bytes / bandwidth is a time.
"""

import hashlib
import inspect
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast, get_args

import networkx
import numpy as np
import numpy.typing as npt
import yaml

from sim.errors import IllegalTopologyError, UnknownNameError
from sim.routes import (
    LEAVING_NS,
    MESSAGE_BYTES,
    Connection,
    RouteArrays,
    cheapest_arrivals,
    packed_routes,
    walked_routes,
)

CONF = Path(__file__).parent / "conf" / "topology"

Reading: TypeAlias = Literal["routed", "pairwise"]


@dataclass(frozen=True, slots=True)
class Device:
    """A compute device; ``kind`` is a name in ``sim.device_kind``, ``node`` the machine it sits in."""

    name: str
    kind: str
    node: int
    memory_bytes: int


class DeviceTopology:
    """The device topology D of FlexFlow, section 3.

    The route between two devices is the path on which a 1 MiB message, passed on hop by hop, arrives
    first; only switches pass on, and between devices of one node the path stays inside the node if any
    does. Ties go to fewer hops, then to the vertices that come first. Connections on no route are dropped.

    Two readings of the same graph:

    - ``routed``: a transfer occupies all connections of its route at once, for the sum of their latencies
      plus bytes / narrowest bandwidth. What several routes share (network card, PCIe uplink) is contended.
    - ``pairwise``, the paper's: a dedicated connection for each ordered pair of devices, with the latency
      and bandwidth of the whole route.

    Args:
        graph: compute devices (``is_device`` True, ``kind``, ``node``, ``memory_bytes``) and switches
            (``is_device`` False, ``node``: None if between nodes), joined by directed edges with
            ``latency_ns`` and ``bandwidth_gb_per_s``. It is copied.
        name: the topology's name.
        num_devices: take only the first devices, node by node; None takes all.
        reading: ``routed`` or ``pairwise``.
        transfers_occupy_devices: a transfer, exchange or synchronisation also occupies the compute devices that take
            part in it, as where the cores that compute copy the messages too.
        reduce_ns_per_byte: what a collective takes, beyond its messages, for each byte that a device receives and sums.
        growth: the key that adds devices and how many each unit of it adds, for the message if they are too few.

    Raises:
        IllegalTopologyError: impossible numbers, too few devices, or no route between two of them.
    """

    def __init__(
        self,
        graph: networkx.DiGraph,
        *,
        name: str,
        num_devices: int | None = None,
        reading: str = "routed",
        transfers_occupy_devices: bool = False,
        reduce_ns_per_byte: float = 0.0,
        growth: tuple[str, int] | None = None,
    ) -> None:
        if reading not in get_args(Reading):
            raise IllegalTopologyError(name, f"reading={reading!r} must be one of {', '.join(get_args(Reading))}")
        self.name = name
        self.reading = cast(Reading, reading)
        self.transfers_occupy_devices = transfers_occupy_devices
        self.reduce_ns_per_byte = reduce_ns_per_byte
        _check(name, graph)
        vertices = _first_vertices(name, graph, num_devices, growth)
        self.devices: tuple[Device, ...] = tuple(
            Device(vertex, data["kind"], data["node"], data["memory_bytes"])
            for vertex in vertices
            if (data := graph.nodes[vertex])["is_device"]
        )
        position = {vertex: p for p, vertex in enumerate(vertices)}
        edges = sorted(
            (edge for edge in graph.edges if position.keys() >= set(edge)),
            key=lambda edge: (position[edge[0]], position[edge[1]]),
        )
        connections = [_connection(graph, *edge) for edge in edges]
        ends = np.array([[position[vertex] for vertex in edge] for edge in edges], np.int32).reshape(-1, 2)
        nodes = [graph.nodes[vertex]["node"] for vertex in vertices]
        arrivals = cheapest_arrivals(connections, ends, nodes, self.num_devices)
        self._check_reachable(arrivals)
        hops = walked_routes(arrivals, ends[:, 0])

        used = np.unique(hops[hops >= 0])
        self._connections = tuple(connections[edge] for edge in used)
        self._routes = packed_routes(np.where(hops >= 0, np.searchsorted(used, hops), -1), self._connections)
        self.networkx = networkx.DiGraph(name=name)
        relays = sorted({int(vertex) for vertex in ends[used].ravel() if vertex >= self.num_devices})
        for vertex in [*vertices[: self.num_devices], *(vertices[relay] for relay in relays)]:
            self.networkx.add_node(vertex, **graph.nodes[vertex])
        self.networkx.add_edges_from((*edges[edge], graph.edges[edges[edge]]) for edge in used)

    def __repr__(self) -> str:
        kinds = ", ".join(self.device_kinds)
        return f"DeviceTopology({self.name!r}, {self.num_devices} devices ({kinds}), {self.reading})"

    @property
    def num_devices(self) -> int:
        """Compute devices."""
        return len(self.devices)

    @cached_property
    def device_kinds(self) -> tuple[str, ...]:
        """The distinct device kinds in order of first appearance."""
        return tuple(dict.fromkeys(device.kind for device in self.devices))

    @cached_property
    def kind_numbers(self) -> npt.NDArray[np.int64]:
        """(D,) position of each device's kind in ``device_kinds``."""
        return np.array([self.device_kinds.index(device.kind) for device in self.devices])

    @cached_property
    def node_numbers(self) -> npt.NDArray[np.int64]:
        """(D,) number of each device's node, from 0 without gaps."""
        return np.unique([device.node for device in self.devices], return_inverse=True)[1]

    @cached_property
    def connections(self) -> tuple[Connection, ...]:
        """What transfers occupy; pairwise, all pairs (a, b) with a != b in row-major order."""
        if self.reading == "routed":
            return self._connections
        names = [device.name for device in self.devices]
        pairs = [f"{src}->{dst}" for src in names for dst in names if src != dst]
        latency_ns = self._routes.latency_ns[self._is_pair].tolist()
        bandwidth = self._routes.bandwidth[self._is_pair].tolist()
        return tuple(map(Connection, pairs, latency_ns, bandwidth))

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Positions in ``connections`` of what a transfer from ``src`` to ``dst`` occupies; () if they are one."""
        routes = self.route_arrays()
        pair = src * self.num_devices + dst
        return tuple(routes.connections[routes.ptr[pair] : routes.ptr[pair + 1]].tolist())

    def occupied(self, connections: Iterable[int], devices: Iterable[int]) -> tuple[int, ...]:
        """All that a message occupies: D + c for each connection c, then, if they take part in it, compute devices.

        Args:
            connections: of its route or ring; none if all is on one device, which then is not occupied either.
            devices: between which it passes.
        """
        links = tuple(self.num_devices + connection for connection in connections)
        return links + tuple(dict.fromkeys(devices)) if self.transfers_occupy_devices and links else links

    def occupied_arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """``occupied`` of all routes in CSR form, for kernels: int64 (D * D + 1,) and int32; see ``RouteArrays``."""
        routes, num_devices = self.route_arrays(), self.num_devices
        links = num_devices + routes.connections
        if not self.transfers_occupy_devices:
            return routes.ptr, links
        pairs = np.flatnonzero(self._is_pair)
        src, dst = np.divmod(pairs, num_devices)
        behind = np.repeat(routes.ptr[pairs + 1], 2)
        ptr = routes.ptr + np.concatenate(([0], 2 * np.cumsum(self._is_pair)))
        return ptr, np.insert(links, behind, np.stack([src, dst], axis=1).ravel()).astype(np.int32)

    def route_arrays(self) -> RouteArrays:
        """All routes, for kernels; the same arrays at each call, not to be written to."""
        return self._routes if self.reading == "routed" else self._pairwise_routes

    @cached_property
    def hash(self) -> str:
        """Short digest of everything that the cost of a strategy depends on; names are not part of it."""
        position = {vertex: p for p, vertex in enumerate(self.networkx)}
        content: dict[str, Any] = {
            "reading": self.reading,
            "devices": [(device.kind, device.node, device.memory_bytes) for device in self.devices],
            "switches": [data["node"] for _, data in self.networkx.nodes(data=True) if not data["is_device"]],
            "edges": [(position[src], position[dst]) for src, dst in self.networkx.edges],
            "connections": [(link.latency_ns, link.bandwidth_gb_per_s) for link in self._connections],
        }
        if self.transfers_occupy_devices:  # hashes in stored strategies know nothing of it
            content["transfers_occupy_devices"] = True
        if self.reduce_ns_per_byte:
            content["reduce_ns_per_byte"] = self.reduce_ns_per_byte
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @cached_property
    def _is_pair(self) -> npt.NDArray[np.bool_]:
        """(D * D,) whether the two devices of an ordered pair are distinct."""
        return ~np.eye(self.num_devices, dtype=bool).ravel()

    @cached_property
    def _pairwise_routes(self) -> RouteArrays:
        ptr = np.concatenate(([0], np.cumsum(self._is_pair)))
        return self._routes._replace(ptr=ptr, connections=np.arange(ptr[-1], dtype=np.int32))

    def _check_reachable(self, arrivals: npt.NDArray[np.int32]) -> None:
        is_missing = arrivals[:, : self.num_devices] < 0
        np.fill_diagonal(is_missing, False)
        for src, dst in np.argwhere(is_missing):
            reason = f"there is no route from '{self.devices[src].name}' to '{self.devices[dst].name}'"
            raise IllegalTopologyError(self.name, f"{reason} (devices do not pass messages on)")


def load_topology(
    name_or_path: str, *, num_devices: int | None = None, reading: str | None = None, **options: Any
) -> DeviceTopology:
    """Reads a topology that comes with sim, by its name, or any topology file, without Hydra.

    Args:
        name_or_path: a name in ``sim/conf/topology`` or the path of a YAML file of the same form.
        num_devices: if given, in place of the file's.
        reading: if given, in place of the file's.
        options: further keys in place of the file's: ``num_nodes=64`` for a larger cluster.

    Raises:
        UnknownNameError: neither a known name nor a file.
        IllegalTopologyError: the file is no topology; the message names the key.
    """
    import sim.topologies  # it builds on this module

    names = {path.stem: path for path in sorted(CONF.glob("*.yaml"))}
    path = names.get(name_or_path, Path(name_or_path))
    if name_or_path not in names and path.suffix not in {".yaml", ".yml"}:
        raise UnknownNameError("topology", name_or_path, list(names))
    keywords = _read(name_or_path, path) | options
    constructors = {
        f"sim.topologies.{name}": function
        for name, function in inspect.getmembers(sim.topologies, inspect.isfunction)
        if function.__module__ == "sim.topologies" and not name.startswith("_")
    }
    target = str(keywords.pop("_target_", "nothing"))
    if target not in constructors:
        raise IllegalTopologyError(name_or_path, f"_target_ is {target}, but must be one of {', '.join(constructors)}")
    parameters = inspect.signature(constructors[target]).parameters
    if unknown := [key for key in keywords if key not in parameters]:
        raise IllegalTopologyError(name_or_path, f"unknown key '{unknown[0]}'; it takes {', '.join(parameters)}")
    required = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]
    if missing := [key for key in required if key not in keywords]:
        raise IllegalTopologyError(name_or_path, f"the key '{missing[0]}' is missing")
    given = {"num_devices": num_devices, "reading": reading}
    keywords |= {key: value for key, value in given.items() if value is not None}
    try:
        return cast(DeviceTopology, constructors[target](**keywords))
    except IllegalTopologyError as error:
        raise IllegalTopologyError(name_or_path, error.reason) from None


def _read(name_or_path: str, path: Path) -> dict[str, Any]:
    """The keys of a topology file."""
    try:
        keywords = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise IllegalTopologyError(name_or_path, f"the file cannot be read ({error.strerror})") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        raise IllegalTopologyError(name_or_path, f"the file is not YAML{line}") from None
    if not isinstance(keywords, dict):
        raise IllegalTopologyError(name_or_path, "the file must hold keys and values, beginning with _target_")
    return keywords


def _check(name: str, graph: networkx.DiGraph) -> None:
    """Refuses impossible numbers; ``not x > 0`` refuses NaN too."""
    for vertex, data in graph.nodes(data=True):
        if data["is_device"] and not data["memory_bytes"] > 0:
            reason = f"device '{vertex}' has memory_bytes={data['memory_bytes']}, but it must be positive"
            raise IllegalTopologyError(name, reason)
    for src, dst, data in graph.edges(data=True):
        if not data["latency_ns"] >= 0:
            reason = f"connection '{src}->{dst}' has latency_ns={data['latency_ns']}, but it must not be negative"
            raise IllegalTopologyError(name, reason)
        if not 0 < data["bandwidth_gb_per_s"] < math.inf:
            given = f"bandwidth_gb_per_s={data['bandwidth_gb_per_s']}"
            raise IllegalTopologyError(
                name, f"connection '{src}->{dst}' has {given}, but it must be positive and finite"
            )
        connection = _connection(graph, src, dst)
        if connection.transfer_ns(MESSAGE_BYTES) >= LEAVING_NS:  # it would seem to leave its node
            given = f"latency_ns={connection.latency_ns} and bandwidth_gb_per_s={connection.bandwidth_gb_per_s}"
            reason = f"connection '{src}->{dst}' with {given} takes 1,000 s or more for 1 MiB"
            raise IllegalTopologyError(name, reason)


def _first_vertices(
    name: str, graph: networkx.DiGraph, num_devices: int | None, growth: tuple[str, int] | None
) -> list[str]:
    """The first devices, node by node, then all switches."""
    is_device = graph.nodes(data="is_device")
    devices = sorted((vertex for vertex in graph if is_device[vertex]), key=lambda vertex: graph.nodes[vertex]["node"])
    if not devices:
        raise IllegalTopologyError(name, "it has no device")
    if num_devices is None:
        num_devices = len(devices)
    if type(num_devices) is not int or not 1 <= num_devices <= len(devices):
        remedy = ""
        if growth and type(num_devices) is int and num_devices > 0:
            key, devices_per_unit = growth
            remedy = f"; {key}={math.ceil(num_devices / devices_per_unit)} makes room for it"
        raise IllegalTopologyError(name, f"num_devices={num_devices!r} must be from 1 to {len(devices)}{remedy}")
    return devices[:num_devices] + [vertex for vertex in graph if not is_device[vertex]]


def _connection(graph: networkx.DiGraph, src: str, dst: str) -> Connection:
    data = graph.edges[src, dst]
    return Connection(f"{src}->{dst}", int(data["latency_ns"]), float(data["bandwidth_gb_per_s"]))
