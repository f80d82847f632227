"""choose_settings: a command's quick settings in the place of its full ones."""

from omegaconf import DictConfig, open_dict

from experiments.errors import OptionError


def choose_settings(cfg: DictConfig, group: str) -> None:
    """Put the quick settings of a group in the place of the full ones if they are asked for.

    Args:
        cfg: the whole configuration, with ``quick`` beside the group.
        group: key of the part that has quick settings.

    Raises:
        OptionError: ``quick`` is neither true nor false.
    """
    if not isinstance(cfg.quick, bool):
        raise OptionError("quick", f"{cfg.quick!r} is not true or false")
    with open_dict(cfg):
        quick = cfg[group].pop("quick", {})
        if cfg.quick:
            cfg[group].merge_with(quick)
