"""Sync: how weight gradients are synchronised between the devices that hold a shard."""

from dataclasses import dataclass
from typing import Literal

from sim.errors import SimError, UnknownNameError

SCHEMES = ("ring", "parameter_server", "halving_doubling", "hierarchical", "byteps", "zero")
"""In the order of their numbers in the kernels (``sim.kernels.layout``)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sync:
    """Scheme of parameter synchronisation (REFERENCE 2.14).

    Attributes:
        scheme: ``ring``: one all-reduce per weight shard on the connections of a ring through its holders.
            ``parameter_server``: every holder pushes its gradient to one of them, which updates the shard and
            sends it back; servers are taken in turn, shard by shard.
            ``halving_doubling``: the ring's connections, 2 log2 p steps.
            ``hierarchical``: reduce-scatter within nodes, rings across them, all-gather within nodes.
            ``byteps``: the same, but across through spare CPU machines, one for each node of the shard, with a
            network as fast as the nodes' and never contended.
            ``zero``: reduce-scatter, each holder updates its p-th of the shard, all-gather.
        overlap: start a shard's synchronisation with its last gradient. False adds all synchronisation, one
            shard after another, behind the last backward task, as the code of 2018 did.
        optimizer_copies: copies of the weights that the optimizer keeps (SGD 0, momentum 1, Adam 2).
        bucket_mb: MiB of whole weights that are synchronised together: consecutive weight groups, from the last
            layers on, share a bucket (``sim.buckets``), in which shards with the same holders become one. None: each
            shard on its own. PyTorch DDP's default is 25.
        zero_stage: of ``zero``, what a holder keeps only a p-th of: 1 the optimizer's copies, 2 gradients too,
            3 weights too, which are then gathered twice, for the forward and for the backward pass.
    """

    scheme: Literal["ring", "parameter_server", "halving_doubling", "hierarchical", "byteps", "zero"] = "ring"
    overlap: bool = True
    optimizer_copies: int = 0
    bucket_mb: float | None = None
    zero_stage: Literal[1, 2, 3] = 1

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise UnknownNameError("synchronisation scheme", str(self.scheme), list(SCHEMES))
        if type(self.optimizer_copies) is not int or self.optimizer_copies < 0:
            raise SimError(f"sync.optimizer_copies must be a whole number from 0 on, not {self.optimizer_copies!r}")
        if self.bucket_mb is not None and not self.bucket_mb > 0:
            raise SimError(f"sync.bucket_mb must be positive, or null for no buckets, not {self.bucket_mb}")
        if self.zero_stage not in (1, 2, 3):
            raise SimError(f"sync.zero_stage must be 1, 2 or 3, not {self.zero_stage}")

    def copies(self, *, training: bool) -> tuple[int, int]:
        """Copies of a shard that each of p holders keeps whole, and copies of which it keeps a p-th."""
        if not training:
            return 1, 0
        if self.scheme != "zero":
            return 2 + self.optimizer_copies, 0
        whole = 3 - self.zero_stage
        return whole, 2 + self.optimizer_copies - whole

    @property
    def num_gathers(self) -> int:
        """How often ``zero`` gathers the weights in an iteration."""
        return 2 if self.zero_stage == 3 else 1
