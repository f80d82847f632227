"""Record: what a run found, and all that is needed to repeat it."""

import hashlib
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from experiments.construct import resolved
from sim.bounds import lower_bound_ns
from sim.costs.measured import MeasuredCost
from sim.problem import Problem
from sim.simulation import Simulation

if TYPE_CHECKING:
    from agents.agent import SearchResult

FORMAT_VERSION = 1

PACKAGES = ("gymnasium", "networkx", "numba", "numpy", "sb3-contrib", "stable-baselines3", "torch")

NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The content of record.json (DESIGN, section 6).

    Attributes:
        format_version: of this file.
        command: how the run was started.
        model: name of the operator graph.
        topology: name of the device topology.
        num_devices: compute devices.
        agent: what searched; None if nothing did.
        seed: of everything random.
        configuration: all keys, resolved.
        versions: of Python and the packages that matter.
        commit: of the checkout, with ``-dirty`` if it had changes; None outside a git repository.
        data_parallel_ms: iteration time of data parallelism.
        best_ms: iteration time of the strategy found (or priced), by full simulation.
        speedup: the first over the second.
        lower_bound_ms: no strategy of the space is faster (``sim.bounds``), or none that fits (an exact search).
        simulations: priced strategies, those cut off early included.
        cutoffs: pricings that stopped once they were proven too slow.
        search_seconds: wall-clock time of the search.
        is_interrupted: whether the user ended the search before its budget did.
        is_partial: the search went on when this was written, so it is running or was killed; the files beside say what
            it had found, at most some seconds ago.
        attempts: how often the search was started in this folder; all but the last were killed or interrupted.
        resumed_from: what earlier attempts had spent and found, if this one went on from there instead of starting
            again; then the result is not that of an uninterrupted search.
        is_one_opt: whether the agent proved that no other config of any single operator is better.
        fits_memory: whether the strategy fits the memory of every device.
        strategy_hash: of the strategy.
        num_operators: of the graph.
        num_tasks: of the strategy's task graph.
        num_parameters: trainable elements.
        communication_bytes: transfers, exchanges and synchronisation of one iteration.
        compute_ms: sum over the tasks on compute devices.
        policy_sha256: of the file ``agent.policy``, which may be another one tomorrow; None without one.
        num_part_shapes: distinct part shapes that a measured cost was asked for; None for other cost sources.
        num_unmeasured: those of them that were not measured, but priced analytically.
        notes: what the search found out beside the strategy.
    """

    format_version: int
    command: list[str]
    model: str
    topology: str
    num_devices: int
    agent: str | None
    seed: int
    configuration: dict[str, Any]
    versions: dict[str, str]
    commit: str | None
    data_parallel_ms: float
    best_ms: float
    speedup: float
    lower_bound_ms: float
    simulations: int
    cutoffs: int
    search_seconds: float
    is_interrupted: bool
    is_partial: bool
    attempts: int
    resumed_from: list[dict[str, int | float | str]]
    is_one_opt: bool
    fits_memory: bool
    strategy_hash: str
    num_operators: int
    num_tasks: int
    num_parameters: int
    communication_bytes: int
    compute_ms: float
    policy_sha256: str | None
    num_part_shapes: int | None
    num_unmeasured: int | None
    notes: dict[str, int | float | str]

    def to_dict(self) -> dict[str, Any]:
        """What is written on disk."""
        return asdict(self)


def make_record(
    cfg: DictConfig,
    problem: Problem,
    simulation: Simulation,
    result: "SearchResult | None" = None,
    *,
    attempts: int = 1,
    resumed_from: Sequence[Mapping[str, int | float | str]] = (),
    choices: Mapping[str, str] | None = None,
) -> Record:
    """The record of a strategy.

    Args:
        cfg: the configuration of the run.
        problem: what was to be parallelized.
        simulation: of the strategy found or priced.
        result: of the search; None if there was none.
        attempts: see ``Record``.
        resumed_from: see ``Record``.
        choices: of groups, by their names; those of the current Hydra job by default.
    """
    measured = problem.cost if isinstance(problem.cost, MeasuredCost) else None
    choices = choices if choices is not None else HydraConfig.get().runtime.choices
    return Record(
        format_version=FORMAT_VERSION,
        command=sys.argv,
        model=choices["model"],
        topology=problem.topology.name,
        num_devices=problem.topology.num_devices,
        agent=choices.get("agent"),
        seed=cfg.seed,
        configuration=resolved(cfg),
        versions={"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        commit=commit(),
        data_parallel_ms=problem.data_parallel_ns / NS_PER_MS,
        lower_bound_ms=max(lower_bound_ns(problem) / NS_PER_MS, _proven_ms(result)),
        simulations=result.simulations if result else 0,
        cutoffs=result.cutoffs if result else 0,
        search_seconds=result.seconds if result else 0.0,
        is_interrupted=result.is_interrupted if result else False,
        is_partial=False,
        attempts=attempts,
        resumed_from=[dict(earlier) for earlier in resumed_from],
        is_one_opt=result.is_one_opt if result else False,
        num_operators=len(problem.graph),
        num_parameters=problem.graph.num_parameters,
        policy_sha256=policy_sha256(cfg),
        num_part_shapes=measured.num_asked if measured else None,
        num_unmeasured=measured.num_fallbacks if measured else None,
        notes=dict(result.notes) if result else {},
        **priced(problem, simulation),
    )


def priced(problem: Problem, simulation: Simulation) -> dict[str, Any]:
    """The fields that a strategy's price gives."""
    return {
        "best_ms": simulation.cost_ns / NS_PER_MS,
        "speedup": problem.data_parallel_ns / simulation.cost_ns,
        "fits_memory": simulation.overflow_bytes == 0,
        "strategy_hash": simulation.strategy.hash,
        "num_tasks": simulation.num_tasks,
        "communication_bytes": simulation.communication_bytes,
        "compute_ms": simulation.compute_ns / NS_PER_MS,
    }


def _proven_ms(result: "SearchResult | None") -> float:
    """What an exact search proved (``agents.branch_and_bound``)."""
    return float(result.notes.get("lower_bound_ms", 0.0)) if result else 0.0


def policy_sha256(cfg: DictConfig) -> str | None:
    """Of the policy file that the agent begins with; None if it has none."""
    path = (resolved(cfg).get("agent") or {}).get("policy")
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if path and Path(path).is_file() else None


def commit() -> str | None:
    """The checkout that runs, with ``-dirty`` if it has changes; None outside a git repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        git = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    except OSError:  # no git on this machine
        return None
    return git.stdout.strip() or None
