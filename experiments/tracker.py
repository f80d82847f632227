"""Tracker: where a search reports to while it runs; wandb or nothing."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from wandb import Run

    from agents.budget import Progress
    from sim.strategy import Strategy

logger = logging.getLogger(__name__)

AXES = ("simulations", "seconds")
"""What curves are drawn against; by_AXIS/best_ms and by_AXIS/speedup are the curves, for all agents."""

MAX_SHARE = 0.01
"""Of the time of a search, for its curve."""

STRATEGY_COLUMNS = ("operator", "kind", "degrees", "num_tasks", "devices")


class Tracker(Protocol):
    """Follows one run; nothing that goes wrong in it may end the run."""

    def start(self, *, group: str, job_type: str, folder: Path, configuration: Mapping[str, Any]) -> None:
        """Begin a run: ``group`` is model/topology, ``job_type`` the agent, ``folder`` takes the tracker's files."""

    def log(self, progress: "Progress") -> None:
        """Add a point to the curve."""

    def finish(self, record: Mapping[str, Any], strategy: "Strategy", artifacts: Iterable[Path]) -> None:
        """End the run with its record as summary and its strategy as a table, and keep files."""


class NoTracker:
    """Tracks nothing."""

    def start(self, *, group: str, job_type: str, folder: Path, configuration: Mapping[str, Any]) -> None:
        """Nothing to begin."""

    def log(self, progress: "Progress") -> None:
        """Nothing to add."""

    def finish(self, record: Mapping[str, Any], strategy: "Strategy", artifacts: Iterable[Path]) -> None:
        """Nothing to end."""


class WandbTracker:
    """Tracks with wandb: the curve against simulations and against seconds.

    Args:
        project: of wandb.
        mode: online, offline, or None: online if the user is logged in. ``WANDB_MODE`` comes before it.
        init_timeout_s: how long to wait for the server before the run goes on offline.
        finish_timeout_s: how long to wait for the server at the end; what it has not got by then is on disk.
    """

    def __init__(
        self,
        *,
        project: str,
        mode: Literal["online", "offline"] | None,
        init_timeout_s: float,
        finish_timeout_s: float,
    ) -> None:
        self.project, self.mode = project, mode
        self.init_timeout_s, self.finish_timeout_s = init_timeout_s, finish_timeout_s
        self._run: Run | None = None
        self._next_point = 0.0

    def start(self, *, group: str, job_type: str, folder: Path, configuration: Mapping[str, Any]) -> None:
        """See ``Tracker``."""
        # Artifacts are staged here and not in the home folder; each job of a sweep has its own.
        os.environ["WANDB_DATA_DIR"] = str(folder / "wandb")
        options = {
            "project": self.project,
            "name": f"{job_type} seed {configuration['seed']}",
            "group": group,
            "job_type": job_type,
            "dir": folder,
            "config": dict(configuration),
        }
        self._guard(lambda: self._start(options))

    def _start(self, options: dict[str, Any]) -> None:
        import wandb  # half a second

        wandb.setup(wandb.Settings(silent=True))
        mode: Any = os.environ.get("WANDB_MODE") or self.mode
        if mode is None:
            mode = "online" if wandb.login(prompt=False, verify=False) else "offline"
        # Its capture of the console would garble the progress bar.
        timeouts = {"init_timeout": self.init_timeout_s, "finish_timeout": self.finish_timeout_s}
        settings: dict[str, Any] = {"silent": True, "console": "off", **timeouts}
        try:
            run = wandb.init(**options, settings=wandb.Settings(mode=mode, **settings))
        except wandb.errors.Error as error:
            if mode == "offline":
                raise
            logger.warning("wandb goes on offline: %s", error)
            run = wandb.init(**options, settings=wandb.Settings(mode="offline", **settings))
        for axis in AXES:
            run.define_metric(axis)
            run.define_metric(f"by_{axis}/*", step_metric=axis)
        self._run = run

    def log(self, progress: "Progress") -> None:
        """See ``Tracker``; a point takes 0.1 ms, and 10 ms on a crowded machine: then fewer are logged."""
        began = time.perf_counter()
        if began < self._next_point:
            return
        self._guard(lambda: self._log(progress))
        ended = time.perf_counter()
        self._next_point = ended + (ended - began) / MAX_SHARE

    def _log(self, progress: "Progress") -> None:
        speedup = progress.data_parallel_ns / progress.best_ns
        self._point(progress.simulations, progress.seconds, progress.best_ns / 1e6, speedup)

    def _point(self, simulations: int, seconds: float, best_ms: float, speedup: float) -> None:
        if self._run is None:
            return
        point: dict[str, float] = {"simulations": simulations, "seconds": seconds}
        for axis in AXES:
            point |= {f"by_{axis}/best_ms": best_ms, f"by_{axis}/speedup": speedup}
        self._run.log(point)

    def finish(self, record: Mapping[str, Any], strategy: "Strategy", artifacts: Iterable[Path]) -> None:
        """See ``Tracker``."""
        self._guard(lambda: self._finish(record, strategy, artifacts))

    def _finish(self, record: Mapping[str, Any], strategy: "Strategy", artifacts: Iterable[Path]) -> None:
        import wandb

        run = self._run
        if run is None:
            return
        # Progress is told several times a second, so the last improvements are missing.
        self._point(record["simulations"], record["search_seconds"], record["best_ms"], record["speedup"])
        run.log({"strategy": wandb.Table(columns=list(STRATEGY_COLUMNS), data=strategy_rows(strategy))})
        run.summary.update({key: value for key, value in record.items() if key != "configuration"})
        for path in artifacts:
            artifact = wandb.Artifact(f"{path.stem}-{run.id}", type=path.stem)
            artifact.add_file(str(path))
            run.log_artifact(artifact)
        self._run = None
        run.finish()

    def _guard(self, action: Callable[[], None]) -> None:
        """Whatever wandb raises (disk, network, versions), the search is worth more than its track."""
        try:
            action()
        except Exception as error:
            logger.warning("this run goes on without wandb: %s", error)
            self._run = None


def strategy_rows(strategy: "Strategy") -> list[list[Any]]:
    """A row of ``STRATEGY_COLUMNS`` for each operator, in graph order."""
    return [
        [
            operator.name,
            operator.kind,
            ", ".join(f"{dim.name} {n}" for dim, n in zip(operator.dims, config.degrees, strict=True) if n > 1),
            config.num_tasks,
            " ".join(map(str, config.devices)),
        ]
        for operator, config in zip(strategy.graph.operators, strategy.configs, strict=True)
    ]
