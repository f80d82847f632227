"""Which operators' work must be done before a weight group can be synchronised, however all are split."""

import numpy as np
from numpy.typing import NDArray

from sim.chains import every_reader_is_fed
from sim.operator_graph import OperatorGraph


def precedes_synchronisation(graph: OperatorGraph) -> NDArray[np.bool_]:
    """Whether every part of an operator, forward and backward, ends before some part's gradient of a group is there.

    A part's gradients flow to the parts that it has read from. So all parts of a consumer lead to parts of a
    producer if every element of the consumer reads some of the producer; where inputs are laid side by side
    (concat), each part leads to one producer at least, and so to what all of these lead to.

    Returns:
        (groups, operators): false where it is not certain.
    """
    leads = np.eye(len(graph), dtype=bool)
    is_fed = {edge: every_reader_is_fed(graph, edge) for edge in graph.edges}
    for position in range(len(graph)):
        incoming = [edge for edge in graph.edges if edge.dst == position]
        for edge in incoming:
            if is_fed[edge]:
                leads[position] |= leads[edge.src]
        if incoming and not any(is_fed[edge] for edge in incoming):
            leads[position] |= np.logical_and.reduce([leads[edge.src] for edge in incoming])
    groups = [leads[:, list(members)].any(axis=1) for members in graph.weight_groups.values()]
    return np.array(groups, dtype=bool).reshape(-1, len(graph))
