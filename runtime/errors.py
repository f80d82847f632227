"""Faults in what a user asks the runtime to run; each keeps the offending values as fields."""


class RuntimeRoomError(ValueError):
    """A problem, strategy or option that the runtime cannot run."""


class UnsupportedOperatorError(RuntimeRoomError):
    """An operator that the simulator can price but the runtime cannot compute."""

    def __init__(self, operator: str, reason: str) -> None:
        self.operator, self.reason = operator, reason
        super().__init__(f"operator '{operator}' cannot be run: {reason}")


class UnsupportedSyncError(RuntimeRoomError):
    """A synchronisation that the simulator can price but the runtime cannot run."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the runtime does not synchronise gradients {what}")


class TooFewRanksError(RuntimeRoomError):
    """A strategy that uses more devices than there are ranks."""

    def __init__(self, num_needed: int, num_ranks: int) -> None:
        self.num_needed, self.num_ranks = num_needed, num_ranks
        super().__init__(
            f"the strategy uses device {num_needed - 1} and needs {num_needed} ranks, but there are {num_ranks}"
        )


class TooFewGpusError(RuntimeRoomError):
    """More ranks than GPUs."""

    def __init__(self, num_ranks: int, num_gpus: int) -> None:
        self.num_ranks, self.num_gpus = num_ranks, num_gpus
        super().__init__(f"backend nccl needs a GPU for each of {num_ranks} ranks, but there are {num_gpus}")


class RankFailedError(RuntimeError):
    """A rank that died or gave up; the job has ended."""

    def __init__(self, rank: int, reason: str) -> None:
        self.rank, self.reason = rank, reason
        super().__init__(f"rank {rank} {reason}")

    def __reduce__(self) -> tuple[type["RankFailedError"], tuple[int, str]]:
        return type(self), (self.rank, self.reason)
