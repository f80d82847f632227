"""Case studies: the best strategy found for a model on one node, beside what the paper says about its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from omegaconf import OmegaConf

from experiments.archive import Archive
from experiments.figures.bars import LABELS
from experiments.figures.contest import Case, search_overrides
from experiments.figures.reproduction import Reproduction
from experiments.problem import make_problem
from experiments.scene import scene_figure, stacked
from experiments.strategy_picture import strategy_scene
from sim.operator_graph import Operator
from sim.problem import Problem
from sim.strategy import ParallelConfig, Strategy
from sim.task_graph_builder import build_task_graph

TOPOLOGY, NUM_DEVICES = "p100_cluster", 4
HEADER = ("sync", "quantity", "ours", "paper")

Quantities: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Found:
    """The best strategy under one synchronisation.

    Attributes:
        agent: who found it.
        problem: what it is for.
        strategy: the strategy.
        quantities: what is compared with the paper.
    """

    agent: str
    problem: Problem
    strategy: Strategy
    quantities: Quantities


def study(
    model: str,
    *,
    syncs: Mapping[str, Sequence[str]],
    agents: Sequence[str],
    simulations: int,
    seeds: Sequence[int],
    archive: Archive,
    paper: Mapping[str, float],
    shares: Mapping[str, Callable[[Operator, ParallelConfig], bool | None]],
    sentence: Callable[[str, Found], str],
) -> Reproduction:
    """Search a strategy with every agent and seed, and draw the best.

    Args:
        model: name of the model.
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        agents: searchers.
        simulations: budget of each search.
        seeds: of each search.
        archive: keeps the searches.
        paper: its values, by the name of a quantity.
        shares: quantities that are shares of operators: whether one counts, None if it is not of those meant.
        sentence: of a synchronisation and what was found under it.
    """
    found = {}
    for sync, overrides in syncs.items():
        case = Case(model, TOPOLOGY, NUM_DEVICES, sync)
        trials = [(agent, seed) for seed in seeds for agent in agents]
        words = [search_overrides(case, overrides, agent, simulations, seed) for agent, seed in trials]
        results = list(zip(trials, archive.searches(words), strict=True))
        (agent, _), best = min(results, key=lambda entry: entry[1].record["best_ms"])
        problem = make_problem(OmegaConf.create(best.record["configuration"]))
        strategy = best.strategy(problem)
        found[sync] = Found(agent, problem, strategy, _quantities(problem, strategy, shares))
    scenes = [strategy_scene([one.strategy], title=_title(model, sync, one)) for sync, one in found.items()]
    rows: list[list[Any]] = [
        [sync, name, round(value, 4), paper.get(name, "")]
        for sync, one in found.items()
        for name, value in one.quantities.items()
    ]
    difference = " ".join(sentence(sync, one) for sync, one in found.items())
    return Reproduction(scene_figure(stacked(scenes)), HEADER, rows, difference)


def _title(model: str, sync: str, found: Found) -> str:
    return (
        f"{model} on {NUM_DEVICES} P100s, sync={sync}: {found.quantities['iteration_ms']:.1f} ms, data parallelism "
        f"{found.quantities['data_parallel_ms']:.1f} ms ({LABELS[found.agent]})"
    )


def _quantities(
    problem: Problem,
    strategy: Strategy,
    shares: Mapping[str, Callable[[Operator, ParallelConfig], bool | None]],
) -> Quantities:
    """Times and bytes beside data parallelism's, and shares of operators."""
    sums = []
    for one in (strategy, problem.data_parallel):
        task_graph = build_task_graph(problem, one)
        syncs = [task for task in task_graph.tasks if task.kind == "sync"]
        sync_ns, sync_bytes = sum(task.exe_time for task in syncs), sum(task.num_bytes for task in syncs)
        sums.append((task_graph.simulate(), sync_bytes, sync_ns, task_graph.communication_bytes))
    quantities: Quantities = {"iteration_ms": sums[0][0] / 1e6, "data_parallel_ms": sums[1][0] / 1e6}
    names = ("iteration", "synchronised_bytes", "synchronisation_time", "communication_bytes")
    quantities |= {f"{name}_ratio": ours / max(1, whole) for name, ours, whole in zip(names, *sums, strict=True)}
    pairs = list(zip(problem.graph.operators, strategy.configs, strict=True))
    for name, holds in shares.items():
        counts = [counted for pair in pairs if (counted := holds(*pair)) is not None]
        quantities[f"share_{name}"] = sum(counts) / max(1, len(counts))
    return quantities


def has_split(operator: Operator, config: ParallelConfig, label: str) -> bool:
    """Whether a dimension of this label is split."""
    return any(dim.label == label and degree > 1 for dim, degree in zip(operator.dims, config.degrees, strict=True))


def is_on_fewer_devices(operator: Operator, config: ParallelConfig) -> bool:
    """Whether an operator leaves devices to others."""
    return len(set(config.devices)) < NUM_DEVICES
