"""Faults in what a user asks of a command."""


class OptionError(ValueError):
    """A key or value on the command line that no room accepts."""

    def __init__(self, option: str, reason: str) -> None:
        self.option, self.reason = option, reason
        super().__init__(f"{option}: {reason}")
