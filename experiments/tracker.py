"""Tracker: where a search reports to while it runs; wandb or nothing."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from wandb import Run

    from agents.budget import Progress

logger = logging.getLogger(__name__)


class Tracker(Protocol):
    """Follows one run; nothing that goes wrong in it may end the run."""

    def start(self, *, group: str, job_type: str, folder: Path, configuration: Mapping[str, Any]) -> None:
        """Begin a run: ``group`` is model/topology, ``job_type`` the agent, ``folder`` takes the tracker's files."""

    def log(self, progress: "Progress") -> None:
        """Add a point to the curve."""

    def finish(self, record: Mapping[str, Any], artifacts: Iterable[Path]) -> None:
        """End the run with its record as summary, and keep files."""


class NoTracker:
    """Tracks nothing."""

    def start(self, *, group: str, job_type: str, folder: Path, configuration: Mapping[str, Any]) -> None:
        """Nothing to begin."""

    def log(self, progress: "Progress") -> None:
        """Nothing to add."""

    def finish(self, record: Mapping[str, Any], artifacts: Iterable[Path]) -> None:
        """Nothing to end."""


class WandbTracker:
    """Tracks with wandb: the curve against simulations and against seconds.

    Args:
        project: of wandb.
        mode: online, offline, or None: online if the user is logged in. ``WANDB_MODE`` comes before it.
        init_timeout_s: how long to wait for the server before the run goes on offline.
    """

    def __init__(
        self,
        *,
        project: str,
        mode: Literal["online", "offline"] | None,
        init_timeout_s: float,
    ) -> None:
        self.project, self.mode = project, mode
        self.init_timeout_s = init_timeout_s
        self._run: Run | None = None

    def start(self, *, group: str, job_type: str, folder: Path, configuration: Mapping[str, Any]) -> None:
        """See ``Tracker``."""
        # Artifacts are staged here and not in the home folder; each job of a sweep has its own.
        os.environ["WANDB_DATA_DIR"] = str(folder / "wandb")
        options = {
            "project": self.project,
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
        settings: dict[str, Any] = {"silent": True, "console": "off", "init_timeout": self.init_timeout_s}
        try:
            run = wandb.init(**options, settings=wandb.Settings(mode=mode, **settings))
        except wandb.errors.Error as error:
            if mode == "offline":
                raise
            logger.warning("wandb goes on offline: %s", error)
            run = wandb.init(**options, settings=wandb.Settings(mode="offline", **settings))
        for axis in ("simulations", "seconds"):
            run.define_metric(axis)
            run.define_metric(f"by_{axis}/*", step_metric=axis)
        self._run = run

    def log(self, progress: "Progress") -> None:
        """See ``Tracker``; a point takes 0.13 ms."""
        self._guard(lambda: self._log(progress))

    def _log(self, progress: "Progress") -> None:
        if self._run is None:
            return
        best_ms, speedup = progress.best_ns / 1e6, progress.data_parallel_ns / progress.best_ns
        point: dict[str, float] = {"simulations": progress.simulations, "seconds": progress.seconds}
        for axis in ("simulations", "seconds"):
            point |= {f"by_{axis}/best_ms": best_ms, f"by_{axis}/speedup": speedup}
        self._run.log(point)

    def finish(self, record: Mapping[str, Any], artifacts: Iterable[Path]) -> None:
        """See ``Tracker``."""
        self._guard(lambda: self._finish(record, artifacts))

    def _finish(self, record: Mapping[str, Any], artifacts: Iterable[Path]) -> None:
        import wandb

        run, self._run = self._run, None
        if run is None:
            return
        run.summary.update({key: value for key, value in record.items() if key != "configuration"})
        for path in artifacts:
            artifact = wandb.Artifact(f"{path.stem}-{run.id}", type=path.stem)
            artifact.add_file(str(path))
            run.log_artifact(artifact)
        run.finish()

    def _guard(self, action: Callable[[], None]) -> None:
        """Whatever wandb raises (disk, network, versions), the search is worth more than its track."""
        try:
            action()
        except Exception as error:
            logger.warning("this run goes on without wandb: %s", error)
            self._run = None
