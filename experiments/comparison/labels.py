"""problem_labels and agent_labels: names that say no more than what tells problems, or searchers, apart."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from experiments.comparison.found_run import FoundRun
from experiments.flat import flat

NOT_OF_THE_PROBLEM = (
    "agent",
    "budget",
    "interrupted",
    "num_explained",
    "other",
    "resume",
    "seed",
    "strategy",
    "tracker",
)


def problem_labels(runs: Sequence[FoundRun]) -> list[str]:
    """For each run what it parallelizes: model, cluster and devices, and the keys in which such problems differ.

    Runs that price data parallelism differently (another version of the simulator, other measured costs) are of
    different problems, whatever their configuration.
    """
    names = [f"{run.record['model']} on {run.record['num_devices']} of {run.record['topology']}" for run in runs]
    options = [
        _options({key: value for key, value in run.record["configuration"].items() if key not in NOT_OF_THE_PROBLEM})
        for run in runs
    ]
    prices = [{"data_parallel_ms": run.record["data_parallel_ms"]} for run in runs]
    return _told_apart(_told_apart(names, options), prices)


def agent_labels(runs: Sequence[FoundRun], problems: Sequence[str]) -> list[str]:
    """For each run what searched: the agent, and the keys in which its namesakes on the same problem differ."""
    labels = [""] * len(runs)
    for problem in dict.fromkeys(problems):
        chosen = [number for number, label in enumerate(problems) if label == problem]
        names = [_agent_name(runs[number]) for number in chosen]
        options = [
            _options({key: runs[number].record["configuration"].get(key) or {} for key in ("agent", "budget")})
            for number in chosen
        ]
        for number, label in zip(chosen, _told_apart(names, options), strict=True):
            labels[number] = label
    return labels


def choices(record: Mapping[str, Any]) -> dict[str, str]:
    """Short names of the cost source, the space and the synchronisation."""
    cost, space, sync = (record["configuration"].get(group) or {} for group in ("cost", "space", "sync"))
    return {
        "cost": str(cost.get("_target_", "")).rpartition(".")[0].rpartition(".")[2],
        "space": f"{space.get('variant', '')} {space.get('dims', '')}".strip(),
        "sync": str(sync.get("scheme", "")) + ("" if sync.get("overlap", True) else " serial"),
    }


def _agent_name(run: FoundRun) -> str:
    name = run.record.get("agent")
    if name is None:
        return f"strategy {str(run.record['configuration'].get('strategy')).rpartition('/')[2]}"
    return f"{name} (continued)" if run.record.get("resumed_from") else str(name)


def _told_apart(names: Sequence[str], options: Sequence[Mapping[str, Hashable]]) -> list[str]:
    """The names, each with those options whose values are not the same in all its namesakes."""
    labels = list(names)
    for name in dict.fromkeys(names):
        chosen = [number for number, other in enumerate(names) if other == name]
        keys = dict.fromkeys(key for number in chosen for key in options[number])
        for key in keys:
            if len({options[number].get(key) for number in chosen}) > 1:
                for number in chosen:
                    labels[number] += f", {_short(key)}={_shown(options[number].get(key))}"
    return labels


def _short(key: str) -> str:
    return key.removeprefix("agent.").removeprefix("budget.")


def _shown(value: Hashable) -> str:
    if value is None:
        return "null"
    return f"{value:.3f}" if isinstance(value, float) and not value.is_integer() else str(value)


def _options(configuration: Mapping[str, Any]) -> dict[str, Hashable]:
    """The flat keys of a configuration; lists as text."""
    leaves = flat(configuration).items()
    return {key: json.dumps(value) if isinstance(value, list) else value for key, value in leaves}
