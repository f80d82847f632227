"""Device topologies: routes, what they share, the two readings, first devices, hashes and refusals."""

import inspect
import pickle
import time
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest
import yaml

from sim import topologies
from sim.errors import IllegalTopologyError, UnknownNameError
from sim.topology import CONF, DeviceTopology, load_topology

NAMES = ["cpu_host", "dgx1_v100", "dgx_h100", "k80_cluster", "p100_cluster"]
LINK = {"bandwidth_gb_per_s": 10.0, "latency_us": 1.0}


def keywords(name: str, /, **overrides: Any) -> dict[str, Any]:
    """The keywords in the YAML of a topology."""
    loaded = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    return {key: value for key, value in (loaded | overrides).items() if key != "_target_"}


def cluster(name: str, /, **overrides: Any) -> DeviceTopology:
    """A cluster as in its YAML but for the overrides."""
    return topologies.cluster(**keywords(name, **overrides))


def route_names(topology: DeviceTopology, src: int, dst: int) -> list[str]:
    """Names of the connections that a transfer occupies."""
    return [topology.connections[connection].name for connection in topology.route(src, dst)]


def shared(topology: DeviceTopology, first: tuple[int, int], second: tuple[int, int]) -> set[str]:
    """What two transfers both occupy."""
    return set(route_names(topology, *first)) & set(route_names(topology, *second))


def latency_and_bandwidth(topology: DeviceTopology, src: int, dst: int) -> tuple[int, float]:
    routes, pair = topology.route_arrays(), src * topology.num_devices + dst
    return int(routes.latency_ns[pair]), float(routes.bandwidth[pair])


def triangle(
    *,
    bandwidth: float = 10.0,
    detour: float = 100.0,
    nodes: tuple[int, int] = (0, 1),
    transfers_occupy_devices: bool = False,
    reduce_ns_per_byte: float = 0.0,
) -> DeviceTopology:
    """Devices a and b joined directly, and by a switch between nodes."""
    ends = [("a", "b", bandwidth), ("b", "a", bandwidth), ("a", "s", detour), ("s", "b", detour)]
    return topologies.explicit(
        name="triangle",
        devices=[
            {"name": name, "kind": "p100", "node": node, "memory_gb": 1}
            for name, node in (("a", nodes[0]), ("b", nodes[1]))
        ],
        switches=[{"name": "s", "node": None}],
        connections=[{"src": src, "dst": dst, "bandwidth_gb_per_s": gb, "latency_us": 1} for src, dst, gb in ends],
        transfers_occupy_devices=transfers_occupy_devices,
        reduce_ns_per_byte=reduce_ns_per_byte,
    )


# Routes


def test_gpus_of_a_p100_node_use_their_own_nvlink() -> None:
    topology = load_topology("p100_cluster")

    assert route_names(topology, 0, 1) == ["node0/device0->node0/device1"]
    assert latency_and_bandwidth(topology, 0, 1) == (1000, 18.5)


def test_nodes_are_joined_through_both_network_cards() -> None:
    topology = load_topology("p100_cluster")

    assert route_names(topology, 1, 6) == [
        "node0/device1->node0/pcie0",
        "node0/pcie0->network",
        "network->node1/pcie0",
        "node1/pcie0->node1/device2",
    ]
    assert latency_and_bandwidth(topology, 1, 6) == (1000 + 507 + 507 + 1000, 10.94)


def test_two_gpus_that_send_to_another_node_share_the_network_card() -> None:
    assert shared(load_topology("p100_cluster"), (0, 4), (1, 9)) == {"node0/pcie0->network"}


def test_two_nodes_that_send_to_a_third_share_its_network_card() -> None:
    assert shared(load_topology("p100_cluster"), (0, 8), (4, 9)) == {"network->node2/pcie0"}


def test_the_two_directions_of_a_network_card_are_not_shared() -> None:
    assert shared(load_topology("p100_cluster"), (0, 4), (4, 0)) == set()


def test_k80_boards_share_their_uplinks_but_adjacent_dies_do_not_use_them() -> None:
    topology = load_topology("k80_cluster")

    assert shared(topology, (0, 2), (1, 3)) == {"node0/pcie0->node0/socket0", "node0/socket0->node0/pcie1"}
    assert shared(topology, (0, 1), (1, 2)) == set()


def test_a_k80_board_shares_its_uplink_between_the_other_board_and_the_network() -> None:
    assert shared(load_topology("k80_cluster"), (0, 2), (1, 4)) == {"node0/pcie0->node0/socket0"}


def test_every_v100_of_a_dgx1_has_six_nvlinks() -> None:
    nvlinks = keywords("dgx1_v100")["nvlinks"]

    assert [sum(links for *pair, links in nvlinks if gpu in pair) for gpu in range(8)] == [6] * 8


def test_dgx1_pairs_use_their_nvlinks_or_else_the_cpus() -> None:
    topology = load_topology("dgx1_v100")
    num_links = {(first, second): links for first, second, links in keywords("dgx1_v100")["nvlinks"]}

    for pair in combinations(range(8), 2):
        expected = (1000, 20.0 * num_links[pair]) if pair in num_links else (4400, 6.0)
        assert latency_and_bandwidth(topology, *pair) == expected


def test_unlinked_dgx1_pairs_stay_inside_the_node_though_its_network_cards_are_faster() -> None:
    assert "node0/socket0->node0/socket1" in route_names(cluster("dgx1_v100", num_nodes=2), 0, 5)


def test_an_nvswitch_is_contended_at_the_ports_only() -> None:
    topology = load_topology("dgx_h100")

    assert shared(topology, (0, 1), (0, 2)) == {"node0/device0->node0/nvswitch"}
    assert shared(topology, (1, 0), (2, 0)) == {"node0/nvswitch->node0/device0"}
    assert shared(topology, (0, 1), (2, 3)) == shared(topology, (0, 1), (1, 0)) == set()


def test_each_h100_has_its_own_network_card() -> None:
    topology = cluster("dgx_h100", num_nodes=2)

    assert shared(topology, (0, 8), (1, 9)) == set()
    assert latency_and_bandwidth(topology, 0, 8) == (3014, 45.0)


def test_all_transfers_between_cores_share_the_memory_bus() -> None:
    topology = load_topology("cpu_host")

    assert shared(topology, (0, 1), (3, 2)) == {"bus_in->bus_out"}
    assert latency_and_bandwidth(topology, 0, 1) == (80_000, 4.0)


def test_the_cheapest_path_for_a_mebibyte_is_the_route() -> None:
    assert route_names(triangle(), 0, 1) == ["a->s", "s->b"]
    assert route_names(triangle(bandwidth=60.0), 0, 1) == ["a->b"]


def test_a_route_inside_a_node_does_not_leave_it_for_a_faster_one() -> None:
    assert route_names(triangle(nodes=(0, 0)), 0, 1) == ["a->b"]


@pytest.mark.parametrize(("is_occupying", "devices"), [(False, ()), (True, (1, 0))])
def test_a_message_occupies_its_connections_and_where_it_says_so_its_ends(
    is_occupying: bool, devices: tuple[int, ...]
) -> None:
    topology = triangle(transfers_occupy_devices=is_occupying)
    [connection] = topology.route(1, 0)

    assert topology.occupied([connection], (1, 0)) == (2 + connection, *devices)
    assert topology.occupied(topology.route(1, 1), (1, 1)) == ()


@pytest.mark.parametrize("is_occupying", [False, True])
@pytest.mark.parametrize("nodes", [(0, 0), (0, 1)])
def test_occupied_arrays_agree_with_what_each_message_occupies(is_occupying: bool, nodes: tuple[int, int]) -> None:
    topology = triangle(nodes=nodes, transfers_occupy_devices=is_occupying)
    ptr, occupied = topology.occupied_arrays()
    pairs = [(src, dst) for src in range(2) for dst in range(2)]

    assert occupied.dtype == np.int32
    assert [tuple(occupied[ptr[i] : ptr[i + 1]].tolist()) for i in range(4)] == [
        topology.occupied(topology.route(*pair), pair) for pair in pairs
    ]


def test_devices_do_not_pass_messages_on() -> None:
    with pytest.raises(IllegalTopologyError) as raised:
        topologies.explicit(
            name="chain",
            devices=[{"name": name, "kind": "cpu", "node": 0, "memory_gb": 1} for name in "abc"],
            switches=[],
            connections=[{"src": src, "dst": dst, **LINK} for src, dst in ("ab", "ba", "bc", "cb")],
        )

    reason = "there is no route from 'a' to 'c' (devices do not pass messages on)"
    assert (raised.value.where, raised.value.reason) == ("chain", reason)


@pytest.mark.parametrize("name", NAMES)
def test_routes_are_shortest_paths_of_networkx(name: str) -> None:
    topology = load_topology(name)
    source = topology.devices[0].name

    def time_ns(src: str, _dst: str, data: dict[str, Any]) -> float | None:
        if topology.networkx.nodes[src]["is_device"] and src != source:
            return None
        return float(data["latency_ns"] + round(2**20 / data["bandwidth_gb_per_s"]))

    lengths = networkx.single_source_dijkstra_path_length(topology.networkx, source, weight=time_ns)
    for dst, device in enumerate(topology.devices):
        hops = [topology.connections[connection] for connection in topology.route(0, dst)]
        assert sum(hop.transfer_ns(2**20) for hop in hops) == lengths[device.name]


@pytest.mark.parametrize("reading", ["routed", "pairwise"])
def test_route_arrays_agree_with_the_connections_of_each_route(reading: str) -> None:
    topology = load_topology("k80_cluster", num_devices=8, reading=reading)

    for pair in np.ndindex(8, 8):
        hops = [topology.connections[connection] for connection in topology.route(*pair)]
        latency_ns = sum(hop.latency_ns for hop in hops)
        bandwidth = min((hop.bandwidth_gb_per_s for hop in hops), default=np.inf)
        assert latency_and_bandwidth(topology, *pair) == (latency_ns, bandwidth)


def test_route_arrays_have_the_types_that_kernels_expect() -> None:
    for reading in ("routed", "pairwise"):
        routes = load_topology("p100_cluster", reading=reading).route_arrays()

        assert [array.dtype for array in routes] == [np.int64, np.int32, np.int64, np.float64]
        assert [len(routes.ptr), len(routes.latency_ns)] == [16 * 16 + 1, 16 * 16]
        assert routes.ptr[-1] == len(routes.connections)


def test_renumbering_a_symmetric_node_keeps_route_costs() -> None:
    nvlinks = [[0, 1, 2], [0, 2, 1], [0, 3, 1], [1, 2, 1], [1, 3, 1], [2, 3, 2]]
    routes = cluster("p100_cluster", num_nodes=1, nvlinks=nvlinks).route_arrays()

    for renumbering in permutations(range(4)):
        renamed = [[renumbering[first], renumbering[second], links] for first, second, links in nvlinks]
        moved = cluster("p100_cluster", num_nodes=1, nvlinks=renamed).route_arrays()
        place = np.ix_(renumbering, renumbering)
        assert (moved.bandwidth.reshape(4, 4)[place] == routes.bandwidth.reshape(4, 4)).all()
        assert (moved.latency_ns.reshape(4, 4)[place] == routes.latency_ns.reshape(4, 4)).all()


# The pairwise reading


def test_pairwise_has_one_connection_for_each_ordered_pair_in_row_major_order() -> None:
    topology = load_topology("p100_cluster", reading="pairwise")
    pairs = list(permutations(range(16), 2))

    assert len(topology.connections) == 16 * 15
    assert [topology.route(*pair) for pair in pairs] == [(position,) for position in range(16 * 15)]
    assert topology.route(3, 3) == ()


def test_a_pairwise_connection_has_the_latency_and_bandwidth_of_the_route() -> None:
    topology = load_topology("p100_cluster", reading="pairwise")
    (connection,) = (topology.connections[position] for position in topology.route(0, 4))

    assert connection.name == "node0/device0->node1/device0"
    assert (connection.latency_ns, connection.bandwidth_gb_per_s) == (3014, 10.94)


# The first devices


def test_num_devices_takes_the_first_node_by_node() -> None:
    devices = load_topology("p100_cluster", num_devices=6).devices

    assert [device.node for device in devices] == [0, 0, 0, 0, 1, 1]
    assert devices[5].name == "node1/device1"


def test_devices_listed_in_any_order_are_numbered_node_by_node() -> None:
    topology = triangle(nodes=(1, 0))

    assert [device.name for device in topology.devices] == ["b", "a"]


def test_connections_and_switches_that_no_route_uses_are_dropped() -> None:
    topology = load_topology("p100_cluster", num_devices=4)

    assert len(topology.connections) == 4 * 3
    assert not any("pcie" in vertex or vertex == "network" for vertex in topology.networkx)


def test_one_device_needs_no_connection() -> None:
    for name in NAMES:
        topology = load_topology(name, num_devices=1)

        assert (topology.num_devices, topology.connections, topology.route(0, 0)) == (1, (), ())


def test_the_first_nodes_of_a_cluster_are_a_smaller_cluster() -> None:
    assert load_topology("k80_cluster", num_devices=8).hash == cluster("k80_cluster", num_nodes=2).hash


def test_memory_is_in_decimal_gigabytes() -> None:
    assert load_topology("p100_cluster").devices[0].memory_bytes == 16 * 10**9


def test_device_kinds_are_distinct_in_order_of_first_appearance() -> None:
    kinds = ["p100", "k80", "p100"]
    topology = topologies.explicit(
        name="mixed",
        devices=[{"name": f"d{i}", "kind": kind, "node": 0, "memory_gb": 1} for i, kind in enumerate(kinds)],
        switches=[],
        connections=[{"src": f"d{src}", "dst": f"d{dst}", **LINK} for src, dst in permutations(range(3), 2)],
    )

    assert topology.device_kinds == ("p100", "k80")


# The hash


def test_hashes_are_those_in_stored_strategies() -> None:
    assert {name: load_topology(name).hash for name in NAMES} == {
        "cpu_host": "098fb83d3ed05658",
        "dgx1_v100": "bf74a2d37a3d8116",
        "dgx_h100": "d1fe03c5f02a0481",
        "k80_cluster": "3429234a7c745915",
        "p100_cluster": "ccc9b317c0a602ef",
    }


def test_the_name_is_not_part_of_the_hash() -> None:
    assert cluster("p100_cluster", name="another").hash == load_topology("p100_cluster").hash


@pytest.mark.parametrize(
    "change",
    [
        {"num_nodes": 5},
        {"num_devices": 15},
        {"device_kind": "v100"},
        {"memory_gb": 12},
        {"reading": "pairwise"},
        {"nic": {"bandwidth_gb_per_s": 10.94, "latency_us": 0.508}},
        {"nic": {"bandwidth_gb_per_s": 10.95, "latency_us": 0.507}},
        {"nvlinks": [[0, 1, 2], [0, 2, 1], [0, 3, 1], [1, 2, 1], [1, 3, 1], [2, 3, 2]]},
        {"nvlinks": "switch"},
    ],
    ids=str,
)
def test_the_hash_changes_with_whatever_cost_depends_on(change: dict[str, Any]) -> None:
    assert cluster("p100_cluster", **change).hash != load_topology("p100_cluster").hash


def test_the_hash_changes_if_transfers_occupy_devices() -> None:
    assert triangle(transfers_occupy_devices=True).hash != triangle().hash


def test_the_hash_changes_with_the_price_of_sums() -> None:
    assert triangle(reduce_ns_per_byte=0.5).hash != triangle().hash


# Files


def test_the_topologies_of_the_design_come_with_sim() -> None:
    assert sorted(path.stem for path in CONF.glob("*.yaml")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_exactly_the_keywords_of_its_constructor(name: str) -> None:
    target = yaml.safe_load((CONF / f"{name}.yaml").read_text())["_target_"].removeprefix("sim.topologies.")

    assert list(keywords(name)) == list(inspect.signature(getattr(topologies, target)).parameters)
    assert keywords(name)["name"] == name


@pytest.mark.parametrize("name", NAMES)
def test_a_topology_survives_pickling(name: str) -> None:
    topology = load_topology(name)

    assert pickle.loads(pickle.dumps(topology)).hash == topology.hash


def test_a_path_is_read_like_a_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((CONF / "p100_cluster.yaml").read_text())

    assert load_topology(str(path), num_devices=8).hash == load_topology("p100_cluster", num_devices=8).hash


# Refusals


def test_an_unknown_name_lists_those_known() -> None:
    with pytest.raises(UnknownNameError) as raised:
        load_topology("p10_cluster")

    assert str(raised.value) == f"unknown topology 'p10_cluster'; choose one of {', '.join(NAMES)}"
    assert (raised.value.what, raised.value.name, raised.value.allowed) == ("topology", "p10_cluster", NAMES)


def test_too_many_devices_names_the_key_that_makes_room() -> None:
    with pytest.raises(IllegalTopologyError) as raised:
        load_topology("p100_cluster", num_devices=30)

    reason = "num_devices=30 must be from 1 to 16; topology.num_nodes=8 makes room for it"
    assert str(raised.value) == f"topology p100_cluster: {reason}"
    assert (raised.value.where, raised.value.reason) == ("p100_cluster", reason)


@pytest.mark.parametrize("num_devices", [0, -1, 1.5, True, "4"])
def test_num_devices_must_be_a_positive_integer(num_devices: Any) -> None:
    with pytest.raises(IllegalTopologyError) as raised:
        cluster("p100_cluster", num_devices=num_devices)

    assert raised.value.reason == f"num_devices={num_devices!r} must be from 1 to 16"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"num_nodes": 0}, "num_nodes=0 must be a positive integer"),
        ({"devices_per_pcie_switch": 1.5}, "devices_per_pcie_switch=1.5 must be a positive integer"),
        ({"memory_gb": -16}, "memory_gb=-16 must be a positive number"),
        ({"device_kind": 100}, "the device kind 100 must be a string"),
        ({"name": 3}, "the key 'name' must be a string"),
        ({"nic": LINK | {"bandwidth_gb_per_s": -1}}, "nic.bandwidth_gb_per_s=-1 must be a positive number"),
        ({"nic": LINK | {"bandwidth_gb_per_s": "1e3"}}, "nic.bandwidth_gb_per_s='1e3' must be a positive number"),
        ({"nic": LINK | {"bandwidth_gb_per_s": np.inf}}, "nic.bandwidth_gb_per_s=inf must be a positive number"),
        ({"nic": LINK | {"latency_us": -0.5}}, "nic.latency_us=-0.5 must be zero or a positive number"),
        ({"nic": {"latency_us": 1}}, "nic must have exactly the keys bandwidth_gb_per_s, latency_us"),
        ({"nic": None}, "the link 'nic' is null, but the nodes need it"),
        ({"nic_at": "host"}, "nic_at=host needs the link 'host', but it is null"),
        ({"nic_at": "cpu"}, "nic_at='cpu' must be one of pcie_switch, host"),
        ({"reading": "direct"}, "reading='direct' must be one of routed, pairwise"),
        (
            {"nvlinks": "mesh"},
            "nvlinks='mesh' must be all, switch or a list of [GPU, GPU, number of links] with two GPUs from 0 to 3",
        ),
        (
            {"nvlinks": [[0, 4, 1]]},
            "nvlinks has [0, 4, 1], but each entry must be [GPU, GPU, number of links] with two GPUs from 0 to 3",
        ),
        ({"nvlinks": [[0, 1, 1], [1, 0, 1]]}, "the connection 'node0/device1->node0/device0' is given twice"),
    ],
    ids=str,
)
def test_a_cluster_refuses(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(IllegalTopologyError) as raised:
        cluster("p100_cluster", **change)

    assert raised.value.reason == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"devices": []}, "it has no device"),
        ({"devices": 3}, "devices must be a list"),
        ({"devices": [{"name": "a"}]}, "devices[0] must have exactly the keys name, kind, node, memory_gb"),
        (
            {"devices": [{"name": "a", "kind": "cpu", "node": "x", "memory_gb": 1}]},
            "devices[0].node='x' must be an integer",
        ),
        (
            {"devices": [{"name": "a", "kind": "cpu", "node": 0, "memory_gb": 0}]},
            "devices[0].memory_gb=0 must be a positive number",
        ),
        (
            {"devices": [{"name": "a", "kind": "cpu", "node": 0, "memory_gb": 16e9}]},
            "devices[0].memory_gb=16000000000.0 is 2**63 bytes or more; it is in units of 10**9 bytes",
        ),
        ({"switches": [{"name": "a", "node": 0}]}, "the name 'a' is used twice"),
        ({"switches": [{"name": "s", "node": "x"}]}, "switches[0].node='x' must be an integer or null"),
        (
            {"connections": [{"src": "a", "dst": "b", **LINK}]},
            "connections[0].dst='b' is neither among devices nor among switches",
        ),
        ({"connections": [{"src": "a", "dst": "a", **LINK}]}, "'a' is connected to itself"),
        ({"transfers_occupy_devices": "yes"}, "transfers_occupy_devices='yes' must be true or false"),
        ({"reduce_ns_per_byte": -1}, "reduce_ns_per_byte=-1 must be a number from 0 on"),
        (
            {"connections": [{"src": "a", "dst": "a", **LINK, "latency_us": "1"}]},
            "connections[0].latency_us='1' must be zero or a positive number",
        ),
    ],
    ids=str,
)
def test_an_explicit_topology_refuses(change: dict[str, Any], reason: str) -> None:
    devices = [{"name": "a", "kind": "cpu", "node": 0, "memory_gb": 1}]

    with pytest.raises(IllegalTopologyError) as raised:
        topologies.explicit(**{"name": "mine", "devices": devices, "switches": [], "connections": []} | change)

    assert str(raised.value) == f"topology mine: {reason}"


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"latency_ns": -1}, "connection 'a->b' has latency_ns=-1, but it must not be negative"),
        ({"bandwidth_gb_per_s": 0}, "connection 'a->b' has bandwidth_gb_per_s=0, but it must be positive and finite"),
        (
            {"bandwidth_gb_per_s": 1e-6},
            "connection 'a->b' with latency_ns=1 and bandwidth_gb_per_s=1e-06 takes 1,000 s or more for 1 MiB",
        ),
    ],
)
def test_a_graph_with_impossible_numbers_is_refused(attributes: dict[str, Any], reason: str) -> None:
    graph = triangle().networkx
    graph.add_edge("a", "b", **{"latency_ns": 1, "bandwidth_gb_per_s": 1.0} | attributes)

    with pytest.raises(IllegalTopologyError) as raised:
        DeviceTopology(graph, name="mine")

    assert raised.value.reason == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: [1", "the file is not YAML (line 1)"),
        ("- 1", "the file must hold keys and values, beginning with _target_"),
        ("", "the file must hold keys and values, beginning with _target_"),
        (
            "_target_: os.system",
            "_target_ is os.system, but must be one of sim.topologies.cluster, sim.topologies.cpu_host, "
            "sim.topologies.explicit",
        ),
        (
            "_target_: sim.topologies.cpu_host\ncores: 3",
            "unknown key 'cores'; it takes name, num_cores, memory_gb, bus, num_devices, reading",
        ),
        ("_target_: sim.topologies.cpu_host\nname: mine", "the key 'num_cores' is missing"),
        (
            "{_target_: sim.topologies.cpu_host, name: mine, num_cores: 2, memory_gb: 1, "
            "bus: {bandwidth_gb_per_s: -4, latency_us: 1}}",
            "bus.bandwidth_gb_per_s=-4 must be a positive number",
        ),
    ],
    ids=["not YAML", "a list", "empty", "a foreign target", "an unknown key", "a missing key", "a negative bandwidth"],
)
def test_a_file_is_refused_by_its_path_and_key(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)

    with pytest.raises(IllegalTopologyError) as raised:
        load_topology(str(path))

    assert str(raised.value) == f"topology {path}: {reason}"
    assert (raised.value.where, raised.value.reason) == (str(path), reason)


def test_a_file_that_does_not_exist_is_refused() -> None:
    with pytest.raises(IllegalTopologyError) as raised:
        load_topology("nowhere/mine.yaml")

    assert str(raised.value) == "topology nowhere/mine.yaml: the file cannot be read (No such file or directory)"


# Scale


def test_sixty_four_devices_are_routed_in_a_fifth_of_a_second() -> None:
    start = time.perf_counter()
    cluster("p100_cluster", num_nodes=16).route_arrays()

    assert time.perf_counter() - start < 0.2


def test_a_thousand_devices_are_routed_in_seconds() -> None:
    start = time.perf_counter()
    topology = cluster("p100_cluster", num_nodes=64, devices_per_node=16)

    assert topology.num_devices == 1024
    assert route_names(topology, 0, 1023)[1:3] == ["node0/pcie0->network", "network->node63/pcie3"]
    assert time.perf_counter() - start < 15
