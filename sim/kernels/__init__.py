"""The compiled kernels of the delta simulation.

Numba's cache does not notice an edit in a callee's file, so the cache folder is named after the content of all
kernels: any edit starts a fresh one.
"""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numba
from numba.core import config as numba_config

config: Any = numba_config


def _cache_directory() -> str:
    folder = Path(__file__).parent
    digest = hashlib.sha256(f"{numba.__version__} {config.BOUNDSCHECK}".encode())
    for source in sorted(folder.glob("*.py")):
        digest.update(source.read_bytes())
    name = f"kernels-{digest.hexdigest()[:12]}"
    roots = [folder / "__pycache__", Path(tempfile.gettempdir()) / f"soap-testbed-{os.getuid()}"]
    for root in roots:
        try:
            (root / name).mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(root / name, os.W_OK):
            return str(root / name)
    return ""


_others_cache, config.CACHE_DIR = config.CACHE_DIR, _cache_directory()
from sim.kernels import additive, batch, chain, delta, joint, neighbourhood, observation  # noqa: E402  (compiled into the folder above)

config.CACHE_DIR = _others_cache

__all__ = ["additive", "batch", "chain", "delta", "joint", "neighbourhood", "observation"]
