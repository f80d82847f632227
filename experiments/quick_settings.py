"""choose_settings: a command's quick settings in the place of its full ones."""

from collections.abc import Sequence

from omegaconf import DictConfig, open_dict

from experiments.errors import OptionError


def choose_settings(cfg: DictConfig, group: str, overrides: Sequence[str]) -> None:
    """Put the quick settings of a group in the place of the full ones if they are asked for.

    Args:
        cfg: the whole configuration, with ``quick`` beside the group.
        group: key of the part that has quick settings.
        overrides: of the command line; what they name stays as it is.

    Raises:
        OptionError: ``quick`` is neither true nor false.
    """
    if not isinstance(cfg.quick, bool):
        raise OptionError("quick", f"{cfg.quick!r} is not true or false")
    with open_dict(cfg):
        quick = cfg[group].pop("quick", {})
        if cfg.quick:
            named = {override.lstrip("+").partition("=")[0] for override in overrides}
            cfg[group].merge_with({key: value for key, value in quick.items() if f"{group}.{key}" not in named})
