"""check_algorithm: the options of Stable-Baselines3's algorithms, which it uses unseen."""

import inspect
from collections.abc import Callable, Set
from typing import Any

from agents.errors import AgentError

COUNTS = ("n_steps", "n_epochs", "batch_size")
SHARES = ("gamma", "gae_lambda")


def check_algorithm(algorithm: Callable[..., Any], *, prefix: str, given: Set[str], given_by: str) -> None:
    """Refuse keywords that would be overruled, and values that make no sense.

    Args:
        algorithm: with the keywords of the configuration.
        prefix: of their names, for the message.
        given: keywords that the caller supplies.
        given_by: says where their values come from.

    Raises:
        AgentError: such a keyword or value.
    """
    options = getattr(algorithm, "keywords", {})
    for name in sorted(given & set(options)):
        raise AgentError(f"{prefix}.{name} is not for the algorithm alone: {given_by}")
    for name in COUNTS:
        if name in options and options[name] < 1:
            raise AgentError(f"{prefix}.{name} must be at least 1, not {options[name]}")
    for name in SHARES:
        if name in options and not 0 <= options[name] <= 1:
            raise AgentError(f"{prefix}.{name} must be between 0 and 1, not {options[name]}")
    clip_range = options.get("clip_range", 1.0)
    if not isinstance(clip_range, int | float) or not clip_range > 0:
        raise AgentError(f"{prefix}.clip_range must be a positive number, not {clip_range}")


def check_minibatches(algorithm: Callable[..., Any], *, num_envs: int) -> None:
    """Refuse minibatches of a single decision where advantages are normalised in each.

    The deviation of one number is not a number, and the weights would not be either.

    Args:
        algorithm: with the keywords of the configuration.
        num_envs: episodes at a time.

    Raises:
        AgentError: there would be one.
    """
    options = {name: parameter.default for name, parameter in inspect.signature(algorithm).parameters.items()}
    decisions = num_envs * options["n_steps"]
    size = options.get("batch_size", decisions)
    if options.get("normalize_advantage") and (size == 1 or decisions % size == 1):
        raise AgentError(
            f"agent.num_envs={num_envs} times agent.algorithm.n_steps={options['n_steps']} decisions leave a minibatch "
            f"of a single one with agent.algorithm.batch_size={size}, whose advantages cannot be normalised; choose "
            "another batch_size"
        )
