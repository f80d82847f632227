"""Faults in what a user hands to the simulator; each keeps the offending values as fields."""


class SimError(ValueError):
    """A graph, topology, strategy or option that the simulator cannot accept."""


class IllegalGraphError(SimError):
    """An operator graph that contradicts itself."""

    def __init__(self, operator: str, reason: str) -> None:
        self.operator, self.reason = operator, reason
        super().__init__(f"operator '{operator}': {reason}")


class IllegalTopologyError(SimError):
    """A device topology with impossible numbers or unreachable devices."""

    def __init__(self, where: str, reason: str) -> None:
        self.where, self.reason = where, reason
        super().__init__(f"topology {where}: {reason}")


class IllegalConfigError(SimError):
    """A ParallelConfig that its operator, topology or space does not admit."""

    def __init__(self, operator: str, config: object, reason: str) -> None:
        self.operator, self.config, self.reason = operator, config, reason
        super().__init__(f"config {config} of operator '{operator}': {reason}")


class StrategyMismatchError(SimError):
    """A strategy file made for another operator graph or device topology."""

    def __init__(self, what: str, expected: str, found: str) -> None:
        self.what, self.expected, self.found = what, expected, found
        super().__init__(f"the strategy was made for {what} {found}, but this run has {expected}")


class StrategyFormatError(SimError):
    """A strategy file that cannot be read as one."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"strategy file {path}: {reason}")


class UnknownNameError(SimError):
    """A name outside the list of those allowed."""

    def __init__(self, what: str, name: str, allowed: list[str]) -> None:
        self.what, self.name, self.allowed = what, name, allowed
        super().__init__(f"unknown {what} '{name}'; choose one of {', '.join(allowed)}")
