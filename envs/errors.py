"""Faults in how an environment is made or used; each keeps the offending values as fields."""

from typing import Any

from numpy.typing import NDArray


class EnvError(ValueError):
    """An argument or a call that an environment cannot accept."""


class IllegalActionError(EnvError):
    """An action whose mask is 0."""

    def __init__(self, action: int, reason: str) -> None:
        self.action, self.reason = action, reason
        super().__init__(f"action {action} is not legal: {reason}; action_masks() tells which are")


class ActionFormError(EnvError):
    """Actions that are not one integer for each episode."""

    def __init__(self, num_episodes: int, actions: NDArray[Any]) -> None:
        self.num_episodes, self.actions = num_episodes, actions
        given = f"{actions.dtype} of shape {actions.shape}"
        super().__init__(f"actions must be integers of shape ({num_episodes},), one for each episode, not {given}")


class NoEpisodeError(EnvError):
    """A step outside an episode."""

    def __init__(self) -> None:
        super().__init__("no episode is running: call reset() before the first step and after the last one")


class MissingArgumentError(EnvError):
    """Neither a problem nor what makes one."""

    def __init__(self, given: str) -> None:
        self.given = given
        super().__init__(f"an environment needs either problem, or graph and topology, not {given}")


class UnknownArgumentError(EnvError):
    """A keyword that no environment takes."""

    def __init__(self, name: str, allowed: list[str]) -> None:
        self.name, self.allowed = name, allowed
        taken = f"an environment takes {', '.join(allowed)}, beside those of its class"
        super().__init__(f"unknown argument '{name}'; {taken}")


class PaddingError(EnvError):
    """Padding that is smaller than the problem."""

    def __init__(self, what: str, given: int, needed: int) -> None:
        self.what, self.given, self.needed = what, given, needed
        super().__init__(f"padding.num_{what}={given} is too small: the problem has {needed} {what}")


class NotEnumerableError(EnvError):
    """A space whose configs have no indices, so that no action can name them."""

    def __init__(self, space: str) -> None:
        self.space = space
        super().__init__(f"the configs of space {space} have no indices; choose the variant aligned or block")


class RewardError(EnvError):
    """A reward with impossible numbers."""

    def __init__(self, name: str, given: float) -> None:
        self.name, self.given = name, given
        super().__init__(f"reward.{name}={given} must not be negative")
