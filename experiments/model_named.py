"""model_named: the constructor of one of ``sim.models``."""

from collections.abc import Callable
from importlib import import_module
from typing import cast

from experiments.errors import OptionError
from sim.operator_graph import OperatorGraph


def model_named(name: str, *, option: str) -> Callable[..., OperatorGraph]:
    """The constructor of a model.

    Args:
        name: of the model.
        option: the key that named it.

    Raises:
        OptionError: there is no such model.
    """
    try:
        return cast(Callable[..., OperatorGraph], getattr(import_module(f"sim.models.{name}"), name))
    except (ImportError, AttributeError):
        raise OptionError(option, f"there is no model called {name!r}") from None
