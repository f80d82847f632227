"""What the exact searchers have in common: the space that they search, listed and described."""

import math

from agents.errors import AgentError
from sim.problem import Problem
from sim.tree import Choice, listed_configs

MAX_EXACT_INT = 2**53
"""Beyond it, JSON's numbers are rounded."""


def listed_choice(problem: Problem, *, max_configs: int) -> Choice:
    """The configs of all operators.

    Raises:
        AgentError: an operator has more than ``max_configs``.
    """
    configs = []
    for position, operator in enumerate(problem.graph.operators):
        own = listed_configs(problem.space, position, max_configs)
        if own is None:
            raise AgentError(
                f"operator '{operator.name}' has more than {max_configs} configs in space={problem.space.variant} on "
                f"{problem.topology.num_devices} devices, too many to list for an exact search; choose fewer devices, "
                "fewer space.dims or space=aligned"
            )
        configs.append(own)
    return Choice(problem, configs)


def described(choice: Choice) -> int | str:
    """The number of strategies, as a power of ten if it is large."""
    if choice.num_strategies <= MAX_EXACT_INT:
        return choice.num_strategies
    return f"10^{sum(math.log10(len(own)) for own in choice.configs):.1f}"
