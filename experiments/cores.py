"""check_cores: refuse ranks that would share cores."""

import os

from experiments.errors import OptionError


def check_cores(option: str, num_ranks: int, *, backend: str, oversubscribe: bool) -> None:
    """Refuse more ranks on CPUs than this process may use cores, unless the user wants that.

    Raises:
        OptionError: there are more.
    """
    num_cores = len(os.sched_getaffinity(0))
    if backend == "gloo" and num_ranks > num_cores and not oversubscribe:
        cores = "1 core" if num_cores == 1 else f"{num_cores} cores"
        group, dot, _ = option.rpartition(".")
        raise OptionError(option, f"{num_ranks} ranks would share {cores}; {group}{dot}oversubscribe=true lets them")
