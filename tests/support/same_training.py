"""Whether a run of a strategy did what one process does."""

import torch

from runtime.initial_state import RandomData
from runtime.options import RunOptions
from runtime.result import RunResult
from runtime.single_process import run_single_process
from runtime.weight_layout import weight_layout


def assert_same_training(result: RunResult, options: RunOptions, *, tolerance: float = 1e-9) -> None:
    """Losses, every rank's weights and gradients are those of one process, relative to each tensor's largest."""
    graph = result.program.graph
    expected = run_single_process(graph, data=RandomData(seed=options.seed), options=options)
    torch.testing.assert_close(result.losses, expected.losses, rtol=10 * tolerance, atol=tolerance)
    updated = set()
    for rank in result.ranks:
        updated |= set(rank.gradients)
        for what, found, whole in (
            ("weights", rank.weights, expected.weights),
            ("gradients", rank.gradients, expected.gradients),
        ):
            for (group, number), tensors in found.items():
                name, members = list(graph.weight_groups.items())[group]
                shard = result.program.shards[group][number]
                for spec, tensor, reference in zip(
                    weight_layout(graph.operators[members[0]]), tensors, whole[name], strict=True
                ):
                    scale = max(1.0, float(reference.abs().max()))
                    torch.testing.assert_close(
                        torch.from_numpy(tensor),
                        reference.narrow(spec.unit_axis, shard.low, shard.high - shard.low).double(),
                        rtol=0,
                        atol=tolerance * scale,
                        msg=lambda text, n=name, w=what, s=spec, r=rank: f"{w} of {n} {s.name}, rank {r.rank}: {text}",
                    )
    assert updated == {
        (group, number) for group, shards in enumerate(result.program.shards) for number in range(len(shards))
    }
