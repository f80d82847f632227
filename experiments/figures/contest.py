"""Contests: baselines and searchers on the same problems, searches with several seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from experiments.archive import Archive, Overrides
from experiments.seed_statistics import bootstrap_interval, interquartile_mean

BYTES_PER_GIB = 1 << 30
BASELINES = ("data_parallel", "expert")
DETERMINISTIC = (*BASELINES, "optcnn")
"""One simulation, and no use for seeds."""


@dataclass(frozen=True, slots=True)
class Case:
    """A problem of a contest.

    Attributes:
        model: name of the model.
        topology: name of the cluster.
        num_devices: how many of its devices.
        sync: what the figure calls the synchronisation.
    """

    model: str
    topology: str
    num_devices: int
    sync: str


@dataclass(frozen=True)
class Outcome:
    """What a baseline or searcher reached on a problem.

    Attributes:
        records: one for each seed.
    """

    records: tuple[dict[str, Any], ...]

    @cached_property
    def iteration_ms(self) -> float:
        """Interquartile mean over the seeds."""
        return self._mean([record["best_ms"] for record in self.records])

    @cached_property
    def interval_ms(self) -> tuple[float, float]:
        """95 % bootstrap interval of the iteration time."""
        times = [np.array([record["best_ms"] for record in self.records])]
        return bootstrap_interval(interquartile_mean, times, rng=np.random.default_rng(0))

    @property
    def best_ms(self) -> float:
        """Of the best seed, infinite if none fits in memory."""
        return min((record["best_ms"] for record in self.records if record["fits_memory"]), default=np.inf)

    @property
    def data_parallel_ms(self) -> float:
        """Data parallelism on the same problem."""
        time: float = self.records[0]["data_parallel_ms"]
        return time

    @property
    def samples_per_s(self) -> float:
        """Throughput of all devices."""
        return self.throughput(self.iteration_ms)

    def throughput(self, time_ms: float) -> float:
        """Samples/s of all devices at an iteration time."""
        configuration = self.records[0]["configuration"]
        batch: int = configuration["model"]["batch_per_device"] * configuration["num_devices"]
        return batch / time_ms * 1e3

    @property
    def communication_gib(self) -> float:
        """Bytes moved in an iteration, interquartile mean, GiB."""
        return self._mean([record["communication_bytes"] for record in self.records]) / BYTES_PER_GIB

    @property
    def compute_s(self) -> float:
        """Execution times of all tasks on compute devices, interquartile mean."""
        return self._mean([record["compute_ms"] for record in self.records]) / 1e3

    @property
    def waiting_share(self) -> float:
        """Share of the devices' time in which they do not compute."""
        return 1 - self.compute_s * 1e3 / self.records[0]["num_devices"] / self.iteration_ms

    @property
    def fits_memory(self) -> bool:
        """Whether all seeds' strategies fit the memory."""
        return all(record["fits_memory"] for record in self.records)

    @staticmethod
    def _mean(values: Sequence[float]) -> float:
        return interquartile_mean([np.array(values, float)])


def hold_contest(
    archive: Archive,
    cases: Sequence[Case],
    agents: Sequence[str],
    *,
    syncs: Mapping[str, Sequence[str]],
    simulations: int,
    seeds: Sequence[int],
) -> dict[tuple[Case, str], Outcome]:
    """Let every agent try every problem.

    Args:
        archive: keeps the searches.
        cases: the problems.
        agents: names of ``agent=``.
        syncs: overrides of run.py for each name of a synchronisation.
        simulations: budget of each search.
        seeds: of each search; deterministic agents have one.
    """
    # The first seed of all problems comes before the second of any, so that what is there after a while is even.
    entries = [
        (case, agent, seed)
        for number, seed in enumerate(seeds)
        for case in cases
        for agent in agents
        if number == 0 or agent not in DETERMINISTIC
    ]
    overrides = [
        search_overrides(case, syncs[case.sync], agent, 1 if agent in DETERMINISTIC else simulations, seed)
        for case, agent, seed in entries
    ]
    records: dict[tuple[Case, str], list[dict[str, Any]]] = {}
    for (case, agent, _), found in zip(entries, archive.searches(overrides), strict=True):
        records.setdefault((case, agent), []).append(found.record)
    return {key: Outcome(tuple(values)) for key, values in records.items()}


def search_overrides(case: Case, sync: Sequence[str], agent: str, simulations: int, seed: int) -> Overrides:
    """The command of one search."""
    problem = (f"model={case.model}", f"topology={case.topology}", f"num_devices={case.num_devices}", *sync)
    return (*problem, f"agent={agent}", f"budget.simulations={simulations}", f"seed={seed}")
