"""weight_buckets: which weight groups are synchronised together (gradient buckets, as in PyTorch DDP)."""

from sim.operator_graph import BYTES_PER_ELEMENT, OperatorGraph

BYTES_PER_MB = 2**20
"""As PyTorch counts the megabytes of its ``bucket_cap_mb``."""


def weight_buckets(graph: OperatorGraph, bucket_mb: float | None) -> tuple[tuple[int, ...], ...]:
    """Put the weight groups of a graph into buckets, whatever its strategy.

    Groups come in the order in which the backward pass completes their gradients on one device: the one whose first
    operator comes last goes first. They fill a bucket until its whole weights would exceed ``bucket_mb``; a group that
    exceeds it alone is a bucket of its own.

    Args:
        graph: the operator graph.
        bucket_mb: size of a bucket in MiB; None for a bucket for each group, in the order of the groups.

    Returns:
        Numbers of the weight groups of each bucket, in the order of ``OperatorGraph.weight_groups``.
    """
    groups = list(graph.weight_groups.values())
    if bucket_mb is None:
        return tuple((group,) for group in range(len(groups)))
    buckets: list[list[int]] = []
    filled = 0
    for group in reversed(range(len(groups))):
        num_bytes = BYTES_PER_ELEMENT * graph.operators[groups[group][0]].num_weight_elements
        if not buckets or filled + num_bytes > bucket_mb * BYTES_PER_MB:
            buckets.append([])
            filled = 0
        buckets[-1].append(group)
        filled += num_bytes
    return tuple(tuple(bucket) for bucket in buckets)
