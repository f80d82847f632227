"""Constructors of device topologies: what the YAML files of ``sim/conf/topology`` name as ``_target_``.

All keywords are plain numbers, strings, lists and mappings, units in their names. 1 GB is 10**9 bytes, as in
bandwidths: a little less than the GiB that vendors mean by "16 GB", which leaves room for the driver.
A *link* is a mapping of ``bandwidth_gb_per_s`` (each direction) and ``latency_us``, or null where nothing uses it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, TypeAlias

import networkx

from sim.errors import IllegalTopologyError
from sim.topology import DeviceTopology

Link: TypeAlias = Mapping[str, float]

LINK_KEYS = ("bandwidth_gb_per_s", "latency_us")
DEVICE_KEYS = ("name", "kind", "node", "memory_gb")
SWITCH_KEYS = ("name", "node")
CONNECTION_KEYS = ("src", "dst", *LINK_KEYS)


def cluster(
    *,
    name: str,
    num_nodes: int,
    devices_per_node: int,
    device_kind: str,
    memory_gb: float,
    nvlinks: Literal["all", "switch"] | Sequence[Sequence[int]],
    nvlink: Link | None,
    devices_per_pcie_switch: int,
    pcie: Link | None,
    host: Link | None,
    socket: Link | None,
    nic_at: Literal["pcie_switch", "host"],
    nic: Link | None,
    num_devices: int | None = None,
    reading: str = "routed",
) -> DeviceTopology:
    """Equal nodes of GPUs around one network switch.

    A node is a tree, GPU - PCIe switch - socket, with NVLink beside it. Each join is two connections, one for
    each direction: GPUs behind one PCIe switch share its uplink, and whatever leaves a node through one
    network card shares the connection out of it, but not with what arrives.

    Args:
        name: the topology's name.
        num_nodes: nodes; several are joined by the network.
        devices_per_node: GPUs in each.
        device_kind: a name in ``sim.device_kind``.
        memory_gb: of each GPU, in units of 10**9 bytes.
        nvlinks: ``all`` (one NVLink for each pair of GPUs in a node), ``switch`` (an NVSwitch, with one port
            in and one port out for each GPU) or a list of [GPU, GPU, number of links].
        nvlink: one NVLink, or one port of the NVSwitch.
        devices_per_pcie_switch: adjacent GPUs behind one PCIe switch.
        pcie: between GPU and PCIe switch.
        host: between PCIe switch and socket; null if no route needs the CPUs.
        socket: between the two sockets of a node; null if it has one.
        nic_at: ``pcie_switch`` (one network card at each) or ``host`` (one card in a node, at its first socket).
        nic: between network card and network.
        num_devices: only the first devices, node by node; null takes all.
        reading: ``routed`` or ``pairwise``, see ``DeviceTopology``.

    Raises:
        IllegalTopologyError: impossible numbers, or a link is null where a node needs it.
    """
    draft = _Draft(name, nvlink=nvlink, pcie=pcie, host=host, socket=socket, nic=nic)
    draft.check_count("num_nodes", num_nodes)
    draft.check_count("devices_per_node", devices_per_node)
    draft.check_count("devices_per_pcie_switch", devices_per_pcie_switch)
    draft.check_choice("nic_at", nic_at, ("pcie_switch", "host"))
    draft.require(nic_at != "host" or host is not None, "nic_at=host needs the link 'host', but it is null")
    num_switches = math.ceil(devices_per_node / devices_per_pcie_switch)
    num_sockets = 0 if host is None else 1 if socket is None else 2

    network = draft.add_switch("network", None)
    for node in range(num_nodes):
        names = [f"node{node}/device{d}" for d in range(devices_per_node)]
        gpus = [draft.add_device(gpu, device_kind, node, memory_gb) for gpu in names]
        switches = [draft.add_switch(f"node{node}/pcie{s}", node) for s in range(num_switches)]
        sockets = [draft.add_switch(f"node{node}/socket{s}", node) for s in range(num_sockets)]
        _join_nvlinks(draft, nvlinks, gpus, node)
        for d, gpu in enumerate(gpus):
            draft.join(gpu, switches[d // devices_per_pcie_switch], "pcie")
        if sockets:
            for s, switch in enumerate(switches):
                draft.join(switch, sockets[s * num_sockets // num_switches], "host")
        for pair in combinations(sockets, 2):
            draft.join(*pair, "socket")
        if num_nodes > 1:
            for card in switches if nic_at == "pcie_switch" else sockets[:1]:
                draft.join(card, network, "nic")
    growth = ("topology.num_nodes", devices_per_node)
    return DeviceTopology(draft.graph, name=name, num_devices=num_devices, reading=reading, growth=growth)


def cpu_host(
    *,
    name: str,
    num_cores: int,
    memory_gb: float,
    bus: Link,
    num_devices: int | None = None,
    reading: str = "routed",
) -> DeviceTopology:
    """The cores of one host as devices of kind ``cpu``; all transfers between them share the memory bus.

    Args:
        name: the topology's name.
        num_cores: cores that are devices.
        memory_gb: share of the host's memory that one core may fill, in units of 10**9 bytes.
        bus: the memory bus; one transfer occupies it at a time, whatever its direction.
        num_devices: only the first cores; null takes all.
        reading: ``routed`` or ``pairwise``, see ``DeviceTopology``.

    Raises:
        IllegalTopologyError: impossible numbers.
    """
    draft = _Draft(name, bus=bus)
    draft.check_count("num_cores", num_cores)
    # The bus is the edge between two vertices; the edges to the cores add neither time nor contention to it.
    before, behind = draft.add_switch("bus_in", 0), draft.add_switch("bus_out", 0)
    latency_ns, bandwidth = draft.link("bus")
    draft.connect(before, behind, latency_ns, bandwidth)
    for core in range(num_cores):
        device = draft.add_device(f"core{core}", "cpu", 0, memory_gb)
        draft.connect(device, before, 0, bandwidth)
        draft.connect(behind, device, 0, bandwidth)
    growth = ("topology.num_cores", 1)
    return DeviceTopology(draft.graph, name=name, num_devices=num_devices, reading=reading, growth=growth)


def explicit(
    *,
    name: str,
    devices: Sequence[Mapping[str, Any]],
    switches: Sequence[Mapping[str, Any]],
    connections: Sequence[Mapping[str, Any]],
    num_devices: int | None = None,
    reading: str = "routed",
    transfers_occupy_devices: bool = False,
    reduce_ns_per_byte: float = 0.0,
) -> DeviceTopology:
    """Devices, switches and connections listed one by one: for measured links and machines of another form.

    Args:
        name: the topology's name.
        devices: each with ``name``, ``kind``, ``node`` and ``memory_gb``; numbered node by node.
        switches: each with ``name`` and ``node`` (null: between nodes).
        connections: each with ``src``, ``dst``, ``bandwidth_gb_per_s`` and ``latency_us``; one direction only.
        num_devices: only the first devices, node by node; null takes all.
        reading: ``routed`` or ``pairwise``, see ``DeviceTopology``.
        transfers_occupy_devices: whether messages occupy the devices at their ends, see ``DeviceTopology``.
        reduce_ns_per_byte: of collectives, see ``DeviceTopology``.

    Raises:
        IllegalTopologyError: impossible numbers, a wrong key, a name used twice or never introduced.
    """
    draft = _Draft(name)
    for where, entry in draft.entries("devices", devices, DEVICE_KEYS):
        draft.require(type(entry["node"]) is int, f"{where}.node={entry['node']!r} must be an integer")
        draft.add_device(entry["name"], entry["kind"], entry["node"], entry["memory_gb"], f"{where}.memory_gb")
    for where, entry in draft.entries("switches", switches, SWITCH_KEYS):
        is_node = entry["node"] is None or type(entry["node"]) is int
        draft.require(is_node, f"{where}.node={entry['node']!r} must be an integer or null")
        draft.add_switch(entry["name"], entry["node"])
    for where, entry in draft.entries("connections", connections, CONNECTION_KEYS):
        for end in ("src", "dst"):
            is_known = entry[end] in draft.graph
            draft.require(is_known, f"{where}.{end}={entry[end]!r} is neither among devices nor among switches")
        draft.connect(entry["src"], entry["dst"], *draft.quantities(where, entry))
    is_flag = type(transfers_occupy_devices) is bool
    draft.require(is_flag, f"transfers_occupy_devices={transfers_occupy_devices!r} must be true or false")
    is_price = type(reduce_ns_per_byte) in (int, float) and 0 <= reduce_ns_per_byte < math.inf
    draft.require(is_price, f"reduce_ns_per_byte={reduce_ns_per_byte!r} must be a number from 0 on")
    return DeviceTopology(
        draft.graph,
        name=name,
        num_devices=num_devices,
        reading=reading,
        transfers_occupy_devices=transfers_occupy_devices,
        reduce_ns_per_byte=reduce_ns_per_byte,
    )


def _join_nvlinks(draft: "_Draft", nvlinks: Any, gpus: Sequence[str], node: int) -> None:
    """Joins the GPUs of one node as ``nvlinks`` says, which is checked only here."""
    if nvlinks == "switch":
        nvswitch = draft.add_switch(f"node{node}/nvswitch", node)
        for gpu in gpus:
            draft.join(gpu, nvswitch, "nvlink")
        return
    if nvlinks == "all":
        nvlinks = [(*pair, 1) for pair in combinations(range(len(gpus)), 2)]
    form = f"[GPU, GPU, number of links] with two GPUs from 0 to {len(gpus) - 1}"
    if isinstance(nvlinks, str) or not isinstance(nvlinks, Sequence):
        raise IllegalTopologyError(draft.name, f"nvlinks={nvlinks!r} must be all, switch or a list of {form}")
    for entry in nvlinks:
        is_triple = isinstance(entry, Sequence) and len(entry) == 3 and all(type(number) is int for number in entry)
        is_legal = is_triple and 0 <= min(entry[:2]) < max(entry[:2]) < len(gpus) and entry[2] > 0
        draft.require(is_legal, f"nvlinks has {entry!r}, but each entry must be {form}")
        draft.join(gpus[entry[0]], gpus[entry[1]], "nvlink", entry[2])


class _Draft:
    """The graph of a topology under construction; refuses what the user cannot have meant.

    Args:
        name: the topology's, for messages.
        links: under the keys that the user gave them.
    """

    def __init__(self, name: str, **links: Link | None) -> None:
        self.name = name
        self.require(isinstance(name, str), "the key 'name' must be a string")
        self.graph = networkx.DiGraph()
        self._links: dict[str, tuple[int, float]] = {}
        for key, link in links.items():
            if link is not None:
                self._check_keys(key, link, LINK_KEYS)
                self._links[key] = self.quantities(key, link)

    def require(self, condition: bool, reason: str) -> None:
        """Refuses the topology unless the condition holds."""
        if not condition:
            raise IllegalTopologyError(self.name, reason)

    def check_count(self, key: str, value: int) -> None:
        """Refuses all but positive integers."""
        self.require(type(value) is int and value > 0, f"{key}={value!r} must be a positive integer")

    def check_choice(self, key: str, value: str, allowed: Sequence[str]) -> None:
        """Refuses a word outside those allowed."""
        self.require(value in allowed, f"{key}={value!r} must be one of {', '.join(allowed)}")

    def entries(
        self, key: str, entries: Sequence[Mapping[str, Any]], keys: Sequence[str]
    ) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """The mappings of a list, each with where it stands."""
        self.require(isinstance(entries, Sequence) and not isinstance(entries, str), f"{key} must be a list")
        for number, entry in enumerate(entries):
            where = f"{key}[{number}]"
            self._check_keys(where, entry, keys)
            yield where, entry

    def quantities(self, where: str, link: Mapping[str, Any]) -> tuple[int, float]:
        """Latency in ns and bandwidth in GB/s of a link."""
        self._check_positive(f"{where}.bandwidth_gb_per_s", link["bandwidth_gb_per_s"])
        latency_us = link["latency_us"]
        is_legal = _is_number(latency_us) and latency_us >= 0
        self.require(is_legal, f"{where}.latency_us={latency_us!r} must be zero or a positive number")
        return round(latency_us * 1000), float(link["bandwidth_gb_per_s"])

    def link(self, key: str) -> tuple[int, float]:
        """Latency in ns and bandwidth in GB/s of the link under ``key``."""
        self.require(key in self._links, f"the link '{key}' is null, but the nodes need it")
        return self._links[key]

    def add_device(self, vertex: str, kind: str, node: int, memory_gb: float, key: str = "memory_gb") -> str:
        """Adds a compute device and returns its name."""
        self._check_new(vertex)
        self.require(isinstance(kind, str), f"the device kind {kind!r} must be a string")
        self._check_positive(key, memory_gb)
        is_int64 = memory_gb * 10**9 < 2**63
        self.require(is_int64, f"{key}={memory_gb!r} is 2**63 bytes or more; it is in units of 10**9 bytes")
        self.graph.add_node(vertex, is_device=True, kind=kind, node=node, memory_bytes=round(memory_gb * 10**9))
        return vertex

    def add_switch(self, vertex: str, node: int | None) -> str:
        """Adds a switch and returns its name."""
        self._check_new(vertex)
        self.graph.add_node(vertex, is_device=False, node=node)
        return vertex

    def connect(self, src: str, dst: str, latency_ns: int, bandwidth_gb_per_s: float) -> None:
        """Adds a connection in one direction."""
        self.require(src != dst, f"'{src}' is connected to itself")
        self.require(not self.graph.has_edge(src, dst), f"the connection '{src}->{dst}' is given twice")
        self.graph.add_edge(src, dst, latency_ns=latency_ns, bandwidth_gb_per_s=bandwidth_gb_per_s)

    def join(self, first: str, second: str, key: str, num_links: int = 1) -> None:
        """Connects two vertices in both directions by ``num_links`` of the link under ``key``."""
        latency_ns, bandwidth = self.link(key)
        self.connect(first, second, latency_ns, num_links * bandwidth)
        self.connect(second, first, latency_ns, num_links * bandwidth)

    def _check_new(self, vertex: str) -> None:
        self.require(isinstance(vertex, str), f"the name {vertex!r} must be a string")
        self.require(vertex not in self.graph, f"the name '{vertex}' is used twice")

    def _check_positive(self, key: str, value: float) -> None:
        self.require(_is_number(value) and value > 0, f"{key}={value!r} must be a positive number")

    def _check_keys(self, where: str, entry: Mapping[str, Any], keys: Sequence[str]) -> None:
        is_exact = isinstance(entry, Mapping) and set(entry) == set(keys)
        self.require(is_exact, f"{where} must have exactly the keys {', '.join(keys)}")


def _is_number(value: object) -> bool:
    """Whether it is a finite number; true and false, which Python counts as 1 and 0, are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
