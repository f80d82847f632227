"""The steps of an iteration: what one rank or several do together at one position of the global order."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from sim.flows import Flow
from sim.operator_graph import Box, Edge


@dataclass(frozen=True, slots=True)
class ComputeStep:
    """Parts of one operator, forward or backward: all of one exchange group in lock step, or a single one.

    Attributes:
        number: position in the global order; the tag of what is sent.
        task_ids: of the task graph's forward or backward tasks, one for each part, then of the exchange, if any.
        ranks: of the parts, ascending, each once.
        operator: its position in the graph.
        parts: ascending.
        devices: of these parts.
        is_backward: the direction.
    """

    number: int
    task_ids: tuple[int, ...]
    ranks: tuple[int, ...]
    operator: int
    parts: tuple[int, ...]
    devices: tuple[int, ...]
    is_backward: bool


@dataclass(frozen=True, slots=True)
class TransferStep:
    """A box of a tensor from one rank to another; backward, its gradient the other way.

    Attributes:
        number: position in the global order, and the message's tag.
        task_ids: of the one transfer task.
        ranks: sender and receiver.
        edge: whose tensor it is.
        flow: between which parts.
        pieces: disjoint boxes whose union is that of the flow's boxes: what is sent, one after another.
        is_backward: the direction.
    """

    number: int
    task_ids: tuple[int, ...]
    ranks: tuple[int, int]
    edge: Edge
    flow: Flow
    pieces: tuple[Box, ...]
    is_backward: bool


@dataclass(frozen=True, slots=True)
class ReduceStep:
    """The gradient of a weight shard is summed over its holders.

    Attributes:
        number: position in the global order.
        task_ids: of the synchronisation task.
        ranks: the holders.
        group: number of the weight group.
        shard: number of the shard in it.
    """

    number: int
    task_ids: tuple[int, ...]
    ranks: tuple[int, ...]
    group: int
    shard: int


@dataclass(frozen=True, slots=True)
class MessageStep:
    """A shard's gradient to its parameter server, or its updated weights back.

    Attributes:
        number: position in the global order, and the message's tag.
        task_ids: of the synchronisation task.
        ranks: sender and receiver.
        group: number of the weight group.
        shard: number of the shard in it.
        what: ``push`` or ``pull``.
    """

    number: int
    task_ids: tuple[int, ...]
    ranks: tuple[int, int]
    group: int
    shard: int
    what: Literal["push", "pull"]


@dataclass(frozen=True, slots=True)
class UpdateStep:
    """SGD on shards that one rank holds.

    Attributes:
        number: position in the global order.
        task_ids: of the update task.
        ranks: the one that updates.
        group: number of the weight group.
        shards: numbers of the shards in it.
    """

    number: int
    task_ids: tuple[int, ...]
    ranks: tuple[int, ...]
    group: int
    shards: tuple[int, ...]


Step: TypeAlias = ComputeStep | TransferStep | ReduceStep | MessageStep | UpdateStep
