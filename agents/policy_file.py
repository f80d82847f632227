"""Policy files: the weights of a GraphNetwork (safetensors) beside what they are and how they came about (JSON)."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from agents.errors import PolicyFileError
from agents.graph_network import FEATURES, GraphNetwork

FORMAT_VERSION = 1

ROOT = Path(__file__).resolve().parents[1]
"""Of the repository."""

DRAWING = Lock()
"""Held while a network is drawn: parallel chains would mix their draws."""


def save_policy(network: GraphNetwork, path: Path, *, training: Mapping[str, Any]) -> None:
    """Write ``path`` (.safetensors) and the JSON of the same name, under temporary names first.

    Args:
        network: whose weights are written.
        path: ends in .safetensors.
        training: what the network was trained on and at what cost, as JSON.
    """
    about = {
        "format_version": FORMAT_VERSION,
        "width": network.width,
        "num_rounds": network.num_rounds,
        "features": {name: list(features) for name, features in FEATURES.items()},
        "training": dict(training),
    }
    drafts = [path.with_name(f".{path.stem}.{os.getpid()}{suffix}") for suffix in (".safetensors", ".json")]
    try:
        save_file(network.state_dict(), drafts[0])
        drafts[1].write_text(json.dumps(about, indent=1) + "\n")
        drafts[1].replace(path.with_suffix(".json"))
        drafts[0].replace(path)
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)


def load_policy(path: str | Path) -> GraphNetwork:
    """The network that ``save_policy`` wrote.

    Args:
        path: ends in .safetensors; see ``found``.

    Raises:
        PolicyFileError: a file is missing or not a policy, or was trained on other features than there are now.
    """
    path = found(path)
    about = read_about(path)
    features = {name: list(own) for name, own in FEATURES.items()}
    if about.get("features") != features:
        raise PolicyFileError(path, "was trained on other features than the environment's; train it again")
    try:
        network = GraphNetwork(width=int(about["width"]), num_rounds=int(about["num_rounds"]), prior=0.0)
        network.load_state_dict(load_file(path))
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, SafetensorError) as error:
        raise PolicyFileError(path, f"does not hold the weights of a GraphNetwork ({error})") from error
    return network


def open_network(policy: str | None, untrained: Callable[[], GraphNetwork], seed: int) -> GraphNetwork:
    """The network of a policy file, or, where none is given, one whose weights are drawn with the seed.

    Raises:
        PolicyFileError: see ``load_policy``.
    """
    # Layers draw from the process's random numbers; other searches, and a training that is validated, go on with these.
    with DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return untrained() if policy is None else load_policy(policy)


def found(path: str | Path) -> Path:
    """The path itself, or, where there is no such file, one of the same name from the root of the repository on.

    So ``experiments/policies/without_nmt.safetensors`` is found from any working directory.
    """
    here, there = Path(path), ROOT / path
    return there if there.exists() and not here.exists() else here


def read_about(path: Path) -> dict[str, Any]:
    """The JSON beside the weights.

    Raises:
        PolicyFileError: it is missing or not that of a policy.
    """
    if not path.name:
        raise PolicyFileError(path, "is no file")
    try:
        about = json.loads(path.with_suffix(".json").read_text())
    except OSError as error:
        raise PolicyFileError(path, f"has no readable {path.stem}.json beside it ({error.strerror})") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise PolicyFileError(path, f"has a {path.stem}.json beside it that is not JSON ({error})") from error
    if not isinstance(about, dict) or about.get("format_version") != FORMAT_VERSION:
        raise PolicyFileError(path, f"is not a policy of format version {FORMAT_VERSION}")
    return about
