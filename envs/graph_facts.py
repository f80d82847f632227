"""GraphFacts: what an observation says of operators, edges and devices before anything is placed."""

import numpy as np
from numpy.typing import NDArray

from envs.config_table import Floats
from envs.mdp import Mdp
from sim.kernels.observation import LIMIT
from sim.operator_graph import BYTES_PER_ELEMENT, Operator

OPERATOR_FEATURES = (
    "is_operator",  # 0 in the padding
    "position",  # in topological order, relative to the number of operators
    "num_weights",  # share of the model's
    "num_sharers",  # operators that share its weights, relative to the number of operators
    "serial_time",  # of the unsplit operator
    "forward_share",  # of this time
    "activations",  # what the unsplit operator keeps for its backward pass, as a share of one device's memory
    "sample_degree",  # the most parts along dimensions of each kind; log2, relative to log2 of the number of devices
    "attribute_degree",
    "parameter_degree",
)
EDGE_FEATURES = ("is_edge", "volume")  # volume: time of the whole tensor between two nodes
DEVICE_FEATURES = (
    "is_device",
    "node",
    "slowness",  # time of the whole model on it, relative to the slowest device
    "capacity",  # its memory, relative to the largest
)
LINK_FEATURES = ("time_per_byte", "latency")  # between each two devices, relative to the slowest pair; 0 to itself


class GraphFacts:
    """The arrays that all states of a process have in common.

    Args:
        mdp: the process.

    Attributes:
        arrays: padded, by name: ``operators`` (N, 10), ``edges`` (E, 2) positions of producer and consumer,
            ``edge_features`` (E, 2), ``devices`` (D, 4) and ``links`` (D * D, 2), row by row of the sending device.
        capacity: (D,) bytes of the devices' memory, float32.
        sharers: pointers (N + 1,) and positions of the operators with the same weights.
    """

    def __init__(self, mdp: Mdp) -> None:
        self._mdp, self._problem = mdp, mdp.problem
        graph, topology = mdp.problem.graph, mdp.problem.topology
        self.capacity = np.array([device.memory_bytes for device in topology.devices], dtype=np.float32)
        groups = {member: group for group in graph.weight_groups.values() for member in group}
        members = [groups.get(position, (position,)) for position in range(len(graph))]
        pointers = np.concatenate([[0], np.cumsum([len(group) for group in members])]).astype(np.int64)
        self.sharers: tuple[NDArray[np.int64], NDArray[np.int64]] = pointers, np.concatenate(members).astype(np.int64)
        times = self._serial_ns()
        edges, edge_features = self._edges()
        self.arrays: dict[str, Floats] = {
            "operators": self._operators(times),
            "edges": edges,
            "edge_features": edge_features,
            "devices": self._devices(times.sum(axis=(0, 2))),
            "links": self._links(),
        }

    def _serial_ns(self) -> NDArray[np.float64]:
        """(N, device kinds, 2) forward and backward time of the unsplit operators."""
        problem, ways = self._problem, 2 if self._problem.training else 1
        kinds = problem.topology.device_kinds
        times = np.zeros((len(problem.graph), len(kinds), 2))
        for position, operator in enumerate(problem.graph.operators):
            degrees = (1,) * len(operator.dims)
            for number, kind in enumerate(kinds):
                times[position, number, :ways] = problem.cost.part_ns(operator, degrees, kind)[:ways]
        return times

    def _operators(self, times: NDArray[np.float64]) -> Floats:
        graph, table = self._problem.graph, self._mdp.table
        rows = np.zeros((self._mdp.sizes.num_operators, len(OPERATOR_FEATURES)), dtype=np.float32)
        iteration_ns, memory = max(1, self._problem.data_parallel_ns), float(self.capacity.max())
        pointers = self.sharers[0]
        for position, operator in enumerate(graph.operators):
            forward_ns, backward_ns = times[position, times[position].sum(axis=1).argmax()]
            total_ns = forward_ns + backward_ns
            rows[position, : -len("SAP")] = (
                1.0,
                position / len(graph),
                operator.num_weight_elements / max(1, graph.num_parameters),
                (pointers[position + 1] - pointers[position]) / len(graph),
                table.scaled(total_ns / iteration_ns),
                forward_ns / max(1, total_ns),
                self._problem.saved_bytes(operator, (1,) * len(operator.dims)) / memory,
            )
            rows[position, -len("SAP") :] = self._most_parts(position, operator)
        return np.clip(rows, 0, LIMIT, out=rows)

    def _most_parts(self, position: int, operator: Operator) -> NDArray[np.float64]:
        degrees = np.array(self._mdp.space.degree_tuples(position))
        labels = [dim.label for dim in operator.dims]
        most = [degrees[:, [label == wanted for label in labels]].prod(axis=1).max() for wanted in "SAP"]
        return np.log2(most) / max(1.0, np.log2(len(self.capacity)))

    def _edges(self) -> tuple[Floats, Floats]:
        graph, topology = self._problem.graph, self._problem.topology
        # A graph of one operator has no edges, but a Box needs an element.
        num_edges = max(1, self._mdp.sizes.num_edges)
        edges, features = np.zeros((2, num_edges, 2), dtype=np.float32)
        ns = 1 / topology.route_arrays().bandwidth.min() / max(1, self._problem.data_parallel_ns)
        for number, edge in enumerate(graph.edges):
            edges[number] = edge.src, edge.dst
            num_bytes = BYTES_PER_ELEMENT * graph.operators[edge.src].outputs[edge.output].num_elements
            features[number] = 1.0, min(LIMIT, float(self._mdp.table.scaled(num_bytes * ns)))
        return edges, features

    def _devices(self, kind_ns: NDArray[np.float64]) -> Floats:
        topology = self._problem.topology
        nodes, device_ns = topology.node_numbers, kind_ns[topology.kind_numbers]
        rows = np.zeros((self._mdp.sizes.num_devices, len(DEVICE_FEATURES)), dtype=np.float32)
        columns = (np.ones(len(nodes)), nodes / (nodes.max() + 1), device_ns / max(1, kind_ns.max()))
        rows[: len(nodes)] = np.stack([*columns, self.capacity / self.capacity.max()], axis=1)
        return rows

    def _links(self) -> Floats:
        routes, count, padded = self._problem.topology.route_arrays(), len(self.capacity), self._mdp.sizes.num_devices
        rows = np.zeros((padded, padded, len(LINK_FEATURES)), dtype=np.float32)
        is_other = ~np.eye(count, dtype=bool)
        for column, values in enumerate((1 / routes.bandwidth, routes.latency_ns)):
            table = np.where(is_other, values.reshape(count, count), 0)
            rows[:count, :count, column] = table / max(table.max(), np.finfo(np.float32).tiny)
        return rows.reshape(padded * padded, -1)
