"""Faults in what a user hands to the simulator; each keeps the offending values as fields."""

from collections.abc import Mapping


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


class MismatchError(SimError):
    """A strategy or space made for another operator graph or device topology."""

    def __init__(self, thing: str, what: str, expected: str, found: str) -> None:
        self.thing, self.what, self.expected, self.found = thing, what, expected, found
        super().__init__(f"the {thing} was made for {what} {found}, but this run has {expected}")


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


class TimingFileError(SimError):
    """A file of measured times that cannot be read as one."""

    def __init__(self, path: str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"measured costs {path}: {reason}")


class MissingTimingsError(SimError):
    """Parts whose times were not measured."""

    def __init__(self, path: str, device_kind: str, first: str, num_missing: int, num_shapes: int) -> None:
        self.path, self.device_kind, self.first = path, device_kind, first
        self.num_missing, self.num_shapes = num_missing, num_shapes
        super().__init__(
            f"measured costs {path}: {num_missing} of {num_shapes} part shapes were not measured on '{device_kind}', "
            f"first {first}; measure them by experiments/profile_operators.py with the same model, num_devices, "
            "topology and space, or give cost.fallback=analytic"
        )


class AmbiguousTimingsError(SimError):
    """Measured times of several platforms, or of none, fit what was asked for."""

    def __init__(
        self, path: str, device_kind: str, wanted: Mapping[str, object], num_fitting: int, platforms: list[str]
    ) -> None:
        self.path, self.device_kind, self.wanted = path, device_kind, wanted
        self.num_fitting, self.platforms = num_fitting, platforms
        asked = ", ".join(f"cost.{key}={value}" for key, value in wanted.items())
        super().__init__(
            f"measured costs {path}: of the platforms of '{device_kind}', {num_fitting} fit"
            f"{f' {asked}' if asked else ''}, not one; choose by cost.device, cost.num_threads, cost.dtype and "
            f"cost.torch_version among: {'; '.join(platforms)}"
        )
