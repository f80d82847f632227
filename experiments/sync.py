"""check_sync: refuse synchronisation that ranks would run otherwise than it is said and simulated."""

from experiments.errors import OptionError
from sim.sync import Sync

TRUE_SCHEMES = ("ring", "parameter_server")
"""What ranks run as it is simulated; everything else is one all-reduce."""


def check_sync(sync: Sync) -> None:
    """Refuse a scheme that ranks do not run as such.

    Raises:
        OptionError: it is one.
    """
    if sync.scheme not in TRUE_SCHEMES:
        reason = f"ranks run '{sync.scheme}' as one all-reduce, not as it is simulated"
        raise OptionError("sync", f"{reason}; choose one of {', '.join(TRUE_SCHEMES)}")
