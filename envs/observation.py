"""Observations: what an agent sees of a state. A new observation is one more class here."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envs.config_table import CONFIG_FEATURES, Floats
from envs.decisions import NONE
from envs.mdp import Mdp
from envs.state import State
from envs.transfer_table import TransferTable
from sim.operator_graph import BYTES_PER_ELEMENT

Arrays: TypeAlias = dict[str, Floats]

OPERATOR_FEATURES = (
    "is_operator",  # 0 in the padding
    "is_open",  # its config may be chosen now
    "position",  # in topological order, relative to the number of operators
    "num_weights",  # share of the model's
    "num_sharers",  # operators that share its weights, relative to the number of operators
    "serial_time",  # of the unsplit operator
    *CONFIG_FEATURES,  # of its current config
)
EDGE_FEATURES = ("is_edge", "volume")  # volume: time of the whole tensor between two nodes
DEVICE_FEATURES = ("is_device", "node", "busy", "memory")  # busy: relative to the iteration of data parallelism
CANDIDATE_FEATURES = (
    "is_candidate",
    "is_current",
    *CONFIG_FEATURES,
    "from_producers",  # time of transfers, forward and backward, if the neighbours keep their configs
    "to_consumers",
    "excess",  # part, exchange, synchronisation and transfers, above those of the best candidate
    "agreement",  # share of the operators with the same weights that have this config
    "mean_load",  # busy time of its devices without this operator
    "peak_load",  # of the busiest device with it
    "peak_memory",  # share of the fullest device's memory with it
)
PROGRESS_FEATURES = ("step", "cost", "overflow")

LIMIT = 16.0
"""No feature is greater."""


class Observation(Protocol):
    """Turns states into arrays.

    Attributes:
        space: of one state's observation.
        shapes: of each array before it was flattened.
    """

    space: spaces.Dict
    shapes: dict[str, tuple[int, ...]]

    def __call__(self, states: Sequence[State]) -> Arrays:
        """Fresh arrays, (B, size) each, for B states."""
        ...


class GraphObservation:
    """Padded float32 arrays of operators, edges, devices and the candidate configs of the open operators.

    All are scale-free: times are relative to the iteration of data parallelism (log(1 + N t) for N operators, so
    that 1 / N, an operator's average, is 0.7), sizes to the memory or the number of devices. Each array is flattened
    row by row, as Stable-Baselines3 asks; ``shapes`` has the rows and columns. ``edges`` holds positions of
    operators, ``operator`` that of the current one, or the number of padded operators if there is not exactly one.

    What does not change is computed once per problem. A step costs a few numpy calls for all B states together,
    and for each state a look-up for each edge at its open operators.

    Args:
        mdp: the process whose states are observed.
    """

    def __init__(self, mdp: Mdp) -> None:
        self._mdp, self._table = mdp, mdp.table
        self._transfers = TransferTable(mdp.table)
        topology, graph = mdp.problem.topology, mdp.problem.graph
        self._iteration_ns = np.float32(max(1, mdp.problem.data_parallel_ns))
        self._capacity = np.array([device.memory_bytes for device in topology.devices], dtype=np.float32)
        self._incoming: list[list[tuple[int, int]]] = [[] for _ in graph.operators]
        self._outgoing: list[list[tuple[int, int]]] = [[] for _ in graph.operators]
        for number, edge in enumerate(graph.edges):
            self._incoming[edge.dst].append((number, edge.src))
            self._outgoing[edge.src].append((number, edge.dst))
        sharers = {member: np.array(group) for group in graph.weight_groups.values() for member in group}
        self._sharers = [sharers.get(position, np.array([position])) for position in range(len(graph))]
        self._make_space()
        self._static = self._static_arrays()

    def __call__(self, states: Sequence[State]) -> Arrays:
        """Fresh arrays, (B, size) each, for B states."""
        open_operators = self._mdp.open_operators(states)
        arrays = {name: np.stack([array] * len(states)) for name, array in self._static.items()}
        busy = np.stack([state.simulation.busy_ns for state in states]).astype(np.float32) / self._iteration_ns
        memory = np.stack([state.simulation.memory_bytes for state in states]).astype(np.float32) / self._capacity
        self._add_operators(arrays["operators"], states, open_operators)
        arrays["devices"][:, : busy.shape[1], 2] = busy
        arrays["devices"][:, : memory.shape[1], 3] = memory
        arrays["candidates"] = self._candidates(states, open_operators, busy, memory)
        arrays["action_mask"] = self._mdp.masks(states).astype(np.float32)
        if open_operators.shape[1] == 1:
            current = open_operators[:, 0]
            arrays["operator"][:, 0] = np.where(current == NONE, self.shapes["operators"][0], current)
        arrays["progress"] = self._progress(states)
        for name in ("operators", "devices", "candidates", "progress"):
            np.clip(arrays[name], 0, LIMIT, out=arrays[name])
        return {name: arrays[name].reshape(len(states), -1) for name in self.shapes}

    def _make_space(self) -> None:
        sizes, num_actions = self._mdp.sizes, self._mdp.decisions.num_actions
        # A graph of one operator has no edges, but a Box needs an element.
        num_edges = max(1, sizes.num_edges)
        self.shapes = {
            "operators": (sizes.num_operators, len(OPERATOR_FEATURES)),
            "edges": (num_edges, 2),
            "edge_features": (num_edges, len(EDGE_FEATURES)),
            "devices": (sizes.num_devices, len(DEVICE_FEATURES)),
            "candidates": (num_actions, len(CANDIDATE_FEATURES)),
            "action_mask": (num_actions,),
            "operator": (1,),
            "progress": (len(PROGRESS_FEATURES),),
        }
        high = {"edges": float(sizes.num_operators), "operator": float(sizes.num_operators), "action_mask": 1.0}
        self.space = spaces.Dict(
            {
                name: spaces.Box(0.0, high.get(name, LIMIT), (int(np.prod(shape)),), np.float32)
                for name, shape in self.shapes.items()
            }
        )

    def _static_arrays(self) -> Arrays:
        """What all states have in common, zero where they differ."""
        arrays = {name: np.zeros(shape, dtype=np.float32) for name, shape in self.shapes.items()}
        problem, table = self._mdp.problem, self._table
        graph, devices, kinds = problem.graph, problem.topology.devices, problem.topology.device_kinds
        for position, operator in enumerate(graph.operators):
            times = [sum(problem.cost.part_ns(operator, (1,) * len(operator.dims), kind)) for kind in kinds]
            arrays["operators"][position, : len(OPERATOR_FEATURES) - len(CONFIG_FEATURES)] = (
                1.0,
                0.0,
                position / len(graph),
                operator.num_weight_elements / max(1, graph.num_parameters),
                len(self._sharers[position]) / len(graph),
                table.scaled(max(times) / float(self._iteration_ns)),
            )
        bandwidth = problem.topology.route_arrays().bandwidth.min()
        for number, edge in enumerate(graph.edges):
            arrays["edges"][number] = edge.src, edge.dst
            num_bytes = BYTES_PER_ELEMENT * graph.operators[edge.src].outputs[edge.output].num_elements
            volume = table.scaled(num_bytes / bandwidth / float(self._iteration_ns))
            arrays["edge_features"][number] = 1.0, min(LIMIT, float(volume))
        nodes = np.unique([device.node for device in devices], return_inverse=True)[1]
        arrays["devices"][: len(devices), 0] = 1.0
        arrays["devices"][: len(devices), 1] = nodes / (nodes.max() + 1)
        arrays["operator"][:] = self.shapes["operators"][0]
        return {name: arrays[name] for name in ("operators", "edges", "edge_features", "devices", "operator")}

    def _add_operators(self, operators: Floats, states: Sequence[State], open_operators: NDArray[np.int64]) -> None:
        """The columns that change."""
        num_operators = len(self._mdp.problem.graph)
        operators[:, :num_operators, -len(CONFIG_FEATURES) :] = np.stack([state.features[:-1] for state in states])
        rows, blocks = np.nonzero(open_operators != NONE)
        operators[rows, open_operators[rows, blocks], 1] = 1.0

    def _candidates(
        self, states: Sequence[State], open_operators: NDArray[np.int64], busy: Floats, memory: Floats
    ) -> Floats:
        """(B, actions, features); B states of K open operators with C configs each are one batch."""
        table, batch = self._table, np.arange(len(states))[:, None]
        classes = table.operator_class[open_operators]
        num_own = table.features.shape[1]
        out = np.zeros((*classes.shape, self._mdp.sizes.num_configs, len(CANDIDATE_FEATURES)), dtype=np.float32)
        own = out[:, :, :num_own]
        is_candidate = np.arange(num_own) < table.num_configs[classes][..., None]
        choices = np.stack([state.choices for state in states])[batch, open_operators]
        from_producers, to_consumers, agreement = self._neighbours(states, open_operators, num_own)
        total = np.where(is_candidate, table.local_time[classes] + from_producers + to_consumers, np.float32(np.inf))
        best = np.where(is_candidate.any(axis=2), total.min(axis=2), np.float32(0))
        # Loads without the open operator; rounding of float32 may leave it a little below 0.
        load = busy[:, None] - np.stack([state.busy for state in states])[batch, open_operators]
        memory = memory[:, None] - np.stack([state.memory for state in states])[batch, open_operators]
        columns = (
            is_candidate,
            is_candidate & (np.arange(num_own) == choices[..., None]),
            table.features[classes],
            table.scaled(from_producers),
            table.scaled(to_consumers),
            table.scaled(np.where(is_candidate, total - best[..., None], np.float32(0))),
            agreement,
            (load[:, :, None] @ table.occupied[classes])[:, :, 0],
            (load[..., None] + table.busy[classes]).max(axis=2) * is_candidate,
            (memory[..., None] + table.memory[classes]).max(axis=2) * is_candidate,
        )
        first = 0
        for column in columns:
            if column.ndim == 3:
                own[..., first], first = column, first + 1
            else:
                own[..., first : first + column.shape[3]], first = column, first + column.shape[3]
        return out.reshape(len(states), -1, len(CANDIDATE_FEATURES))

    def _neighbours(
        self, states: Sequence[State], open_operators: NDArray[np.int64], num_own: int
    ) -> tuple[Floats, Floats, Floats]:
        """(B, K, C) transfers from producers, transfers to consumers, agreement on shared weights."""
        from_producers, to_consumers, agreement = np.zeros((3, *open_operators.shape, num_own), dtype=np.float32)
        for number, state in enumerate(states):
            for block, operator in enumerate(open_operators[number].tolist()):
                if operator == NONE:
                    continue
                for edge, src in self._incoming[operator]:
                    row = self._transfers.row(edge, state.simulation.config(src), to_candidates=True)
                    from_producers[number, block, : len(row)] += row
                for edge, dst in self._outgoing[operator]:
                    row = self._transfers.row(edge, state.simulation.config(dst), to_candidates=False)
                    to_consumers[number, block, : len(row)] += row
                sharers = self._sharers[operator]
                # One place more takes the configs outside the space, whose index is -1.
                shares = np.bincount(state.choices[sharers] + 1, minlength=num_own + 1) / len(sharers)
                agreement[number, block] = shares[1:]
        return from_producers, to_consumers, agreement

    def _progress(self, states: Sequence[State]) -> Floats:
        num_steps, capacity = self._mdp.decisions.num_steps, float(self._capacity.sum())
        rows = [
            (
                state.step / num_steps,
                np.log1p(state.price.cost_ns / float(self._iteration_ns)),
                state.price.overflow_bytes / capacity,
            )
            for state in states
        ]
        return np.array(rows, dtype=np.float32)
