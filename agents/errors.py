"""Faults in what a user asks of an agent."""


class AgentError(ValueError):
    """An option that no agent can work with."""


class IllegalBudgetError(AgentError):
    """A budget that allows nothing, or that has no end."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        self.key, self.value = key, value
        super().__init__(f"budget.{key}={value}: {reason}")


class PolicyFileError(AgentError):
    """A file is not a policy that can be used here."""

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"policy file '{path}' {reason}")
