"""Observations: what an agent sees of a state. A new observation is one more class here."""

from typing import Protocol, TypeAlias

import numpy as np
from gymnasium import spaces

from envs.config_table import CONFIG_FEATURES, Floats
from envs.decisions import NONE
from envs.graph_facts import GraphFacts
from envs.mdp import Mdp
from envs.state import States
from envs.transfer_table import TransferTable
from sim.kernels import observation as kernel
from sim.kernels.observation import LIMIT, Facts, Views

Arrays: TypeAlias = dict[str, Floats]

OPERATOR_STATE_FEATURES = (
    "is_open",  # its config may be chosen now
    *CONFIG_FEATURES,  # of its current config
    "forward_start",  # of the first part in the simulated iteration, relative to its length, as all that follows
    "forward_end",  # of the last part
    "backward_start",
    "backward_end",
    "wait",  # for its devices after it was ready, forward and backward, average of its parts
    "slack",  # from the end of the last forward part to the first start of a consumer
)
DEVICE_STATE_FEATURES = ("busy", "memory")  # busy: relative to the iteration of data parallelism
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


CANDIDATES_PER_THREAD = 1000
"""So many take compiled code about as long as it takes to hand them to another thread."""


class Observation(Protocol):
    """Turns states into arrays.

    Attributes:
        space: of one state's observation.
        shapes: of each array before it was flattened.
    """

    space: spaces.Dict
    shapes: dict[str, tuple[int, ...]]

    def __call__(self, states: States) -> Arrays:
        """Fresh arrays, (S, size) each, for S states."""
        ...


class GraphObservation:
    """Padded float32 arrays of operators, edges, devices and the candidate configs of the open operators.

    All are scale-free: times are relative to the iteration of data parallelism (log(1 + N t) for N operators, so
    that 1 / N, an operator's average, is 0.7), sizes to the memory or the number of devices. Each array is flattened
    row by row, as Stable-Baselines3 asks; ``shapes`` has the rows and columns. ``edges`` holds positions of
    operators, ``operator`` that of the current one, or the number of padded operators if there is not exactly one.

    What never changes (``envs.graph_facts``) is in arrays of its own: a policy for one problem may encode ``static``
    once, and leave these arrays out of what it is told at every step. All else is written by compiled code, for all
    states together.

    Args:
        mdp: the process whose states are observed.
        has_static: whether the arrays of ``static`` are part of every observation.

    Attributes:
        static: what all states have in common, as ``envs.graph_facts`` has it.
    """

    def __init__(self, mdp: Mdp, *, has_static: bool = True) -> None:
        self._mdp, self._table = mdp, mdp.table
        self._transfers = TransferTable(mdp.table)
        facts = GraphFacts(mdp)
        self.static = facts.arrays
        self._capacity = facts.capacity
        self._sharer_ptr, self._sharer = facts.sharers
        iteration_ns = max(1, mdp.problem.data_parallel_ns)
        num_operators, total = len(mdp.problem.graph), float(self._capacity.sum(dtype=np.float64))
        self._scale = np.array([num_operators, iteration_ns, total, mdp.decisions.num_steps], dtype=np.float64)
        sizes, num_actions = mdp.sizes, mdp.decisions.num_actions
        self._num_blocks = num_actions // sizes.num_configs
        self._dynamic: dict[str, tuple[int, ...]] = {
            "operator_states": (sizes.num_operators, len(OPERATOR_STATE_FEATURES)),
            "device_states": (sizes.num_devices, len(DEVICE_STATE_FEATURES)),
            "candidates": (num_actions, len(CANDIDATE_FEATURES)),
            "action_mask": (num_actions,),
            "progress": (len(PROGRESS_FEATURES),),
        }
        static = {name: array.shape for name, array in self.static.items()} if has_static else {}
        self.shapes: dict[str, tuple[int, ...]] = {**static, **self._dynamic, "operator": (1,)}
        high = {"edges": float(sizes.num_operators), "operator": float(sizes.num_operators), "action_mask": 1.0}
        self.space = spaces.Dict(
            {
                name: spaces.Box(0.0, high.get(name, LIMIT), (int(np.prod(shape)),), np.float32)
                for name, shape in self.shapes.items()
            }
        )

    def __call__(self, states: States) -> Arrays:
        """Fresh arrays, (S, size) each, for S states."""
        count = len(states)
        arrays = {name: np.zeros((count, *shape), np.float32) for name, shape in self._dynamic.items()}
        open_operators = self._mdp.open_operators(states)
        self._write(states, open_operators, arrays)
        for name, array in self.static.items():
            if name in self.shapes:
                arrays[name] = np.repeat(array[None], count, axis=0)
        num_padded = self._mdp.sizes.num_operators
        current = open_operators[:, 0] if self._num_blocks == 1 else np.full(count, NONE)
        arrays["operator"] = np.where(current == NONE, num_padded, current).astype(np.float32)
        return {name: arrays[name].reshape(count, -1) for name in self.space}

    def _write(self, states: States, open_operators: np.ndarray, arrays: Arrays) -> None:
        """Let compiled code fill the arrays; rows of transfers that it lacks are computed between its calls."""
        count, simulations = len(states), states.simulations
        blocks = (count, self._num_blocks, -1)
        views = Views(
            configs=arrays["operator_states"],
            loads=arrays["device_states"],
            candidates=arrays["candidates"].reshape(*blocks, len(CANDIDATE_FEATURES)),
            action_mask=arrays["action_mask"].reshape(blocks),
            progress=arrays["progress"],
            missing=np.full((count, 3), NONE, np.int64),
            is_done=np.zeros(count, np.int8),
        )
        facts = self._facts()

        def run(first: int, last: int) -> int:
            chosen = (states.choices, states.step, open_operators, first, last, views)
            undone: int = kernel.observe(self._mdp.problem.tables, facts, simulations.states, *chosen)
            return undone

        least = -(-CANDIDATES_PER_THREAD // self._mdp.decisions.num_actions)
        while any(simulations.workers.run(run, count, least=least)):
            for row in views.missing[views.is_done == 0].tolist():
                self._transfers.learn(*row)
            facts = self._facts()

    def _facts(self) -> Facts:
        table, transfers = self._table, self._transfers
        return Facts(
            operator_class=table.operator_class,
            num_configs=table.num_configs,
            features=table.features,
            local_time=table.local_time,
            parts=table.parts,
            devices=table.devices,
            busy=table.busy,
            memory=table.memory,
            edge_kind=transfers.edge_kind,
            slot=transfers.slot,
            transfers=transfers.rows,
            sharer_ptr=self._sharer_ptr,
            sharer=self._sharer,
            capacity=self._capacity,
            scale=self._scale,
        )
