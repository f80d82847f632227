"""construct: an object from its part of the configuration, held against its constructor's signature first."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from hydra.utils import get_object, instantiate
from omegaconf import DictConfig, OmegaConf

from experiments.errors import OptionError
from experiments.flat import flat

RESERVED = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
"""Keys that speak to Hydra and not to the constructor."""


def construct(cfg: DictConfig, group: str, **given: Any) -> Any:
    """Instantiate one group of the configuration.

    Args:
        cfg: the whole configuration.
        group: key of the part with a ``_target_``.
        given: keywords that this program supplies, in place of the configuration's.

    Raises:
        OptionError: a key that the constructor does not have, or a value of another type, or one without end.
    """
    options = resolved(cfg).get(group)
    if not isinstance(options, dict) or "_target_" not in options:
        raise OptionError(group, f"{options!r} is not a group of keys with a _target_")
    for key, value in flat(options).items():
        if isinstance(value, float) and not math.isfinite(value):  # no record could hold it
            raise OptionError(f"{group}.{key}", f"{value} is not a finite number")
    check_options(get_object(options["_target_"]), _spoken(options), prefix=f"{group}.")
    return instantiate(cfg[group], **given, _convert_="all")


def resolved(cfg: DictConfig) -> dict[str, Any]:
    """The whole configuration as plain values."""
    return cast(dict[str, Any], OmegaConf.to_container(cfg, resolve=True))


def check_options(target: Callable[..., Any], options: Mapping[str, Any], *, prefix: str = "") -> None:
    """Hold options against the named parameters of a constructor (``keywords``).

    Raises:
        OptionError: a key that the constructor does not have, or a value of another type; also of an object inside.
    """
    hints, allowed = _hints(target), keywords(target)
    for name, value in options.items():
        if name not in allowed:
            raise OptionError(f"{prefix}{name}", f"there is no such key; {_listed(allowed)}")
        if name in hints and not _accepts(hints[name], value):
            raise OptionError(f"{prefix}{name}", f"{value!r} is not {_described(hints[name])}")
        if isinstance(value, dict) and "_target_" in value:
            check_options(get_object(value["_target_"]), _spoken(value), prefix=f"{prefix}{name}.")


def keywords(target: Callable[..., Any]) -> tuple[str, ...]:
    """Names of the keyword-only parameters of a constructor.

    Of a plain dataclass, its fields; where nothing is keyword-only, as in other people's classes, all that have names.
    """
    parameters = inspect.signature(target).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name[0] != "_"]
    only = [p for p in named if p.kind is p.KEYWORD_ONLY]
    return tuple(p.name for p in (named if is_dataclass(target) or not only else only))


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    """Types of the parameters, but for those that, in other people's classes, only type checkers can look up."""
    function: Any = target.__init__ if inspect.isclass(target) else target
    names, hints = getattr(inspect.unwrap(function), "__globals__", {}), dict[str, Any]()
    for name, annotation in inspect.get_annotations(function).items():
        with suppress(NameError):
            hints |= get_type_hints(SimpleNamespace(__annotations__={name: annotation}), names)
    return hints


def _spoken(options: Mapping[Any, Any]) -> dict[str, Any]:
    """The options of the constructor alone."""
    return {str(key): value for key, value in options.items() if key not in RESERVED}


def _accepts(hint: Any, value: Any) -> bool:
    """Whether a value from YAML may stand where ``hint`` is declared; kinds not listed here pass."""
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return any(_accepts(option, value) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is NoneType:
        return value is None
    if origin in (bool, str):
        return isinstance(value, origin)
    if origin in (int, float):
        return isinstance(value, int | origin) and not isinstance(value, bool)
    if origin is tuple or (inspect.isclass(origin) and issubclass(origin, Sequence)):
        return isinstance(value, list)
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return isinstance(value, dict)
    return True


def _described(hint: Any) -> str:
    origin = get_origin(hint) or hint
    if origin in (Union, UnionType):
        return " or ".join(_described(option) for option in get_args(hint))
    if origin is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", NoneType: "null"}
    if origin in names:
        return names[origin]
    return "a mapping" if inspect.isclass(origin) and issubclass(origin, Mapping) else "a list"


def _listed(names: Sequence[str]) -> str:
    return f"choose one of {', '.join(names)}" if names else "it takes none"
