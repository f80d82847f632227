"""A policy for many problems: ``python experiments/pretrain.py instances.held_out=nmt seconds=900``."""

import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from hydra.utils import get_object
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, track

from agents.budget import Budget
from agents.imitation import Imitation, Solution
from agents.policy_file import found, read_about, save_policy
from agents.pretraining import Pretraining, Schooling
from agents.reinforcement import Practice, Reinforcement
from experiments.application import application
from experiments.construct import check_options, construct, keywords, resolved
from experiments.errors import OptionError
from experiments.instances import Instance, Instances
from experiments.lessons import Curriculum, Lessons
from experiments.run_folder import RunFolder
from sim.problem import Problem

POLICY = "policy.safetensors"


class Watch:
    """Shows how the training goes, and saves and validates the policy every now and then.

    Args:
        cfg: of the command.
        folder: where the policy goes.
        pretraining: whose policy it is.
        bar: shows the progress.
    """

    def __init__(
        self, cfg: DictConfig, folder: RunFolder, pretraining: Pretraining | Reinforcement, bar: Progress
    ) -> None:
        self._cfg, self._options, self._folder, self._pretraining = cfg, resolved(cfg), folder, pretraining
        instances = [_instance(entry) for entry in self._options["validation"]]
        self._problems = {_title(one): one.problem() for one in instances}
        self._bar, self._task = bar, bar.add_task("preparing the first problem", total=self._options["seconds"])
        self._saved_s = 0.0
        policy = self._options["pretraining"]["policy"]
        self._before = policy and read_about(found(policy))["training"]
        self.best = dict.fromkeys(self._problems, 0.0)
        self.speedups: list[dict[str, Any]] = []

    def __call__(self, now: Schooling | Practice) -> None:
        """After every lesson, or problem."""
        seen = "  ".join(f"{name} {speedup:.3f}x" for name, speedup in self.best.items() if speedup)
        self._bar.update(self._task, completed=now.seconds, description=f"{now.text}  {seen}")
        if now.seconds - self._saved_s >= self._options["save_every_s"]:
            self._saved_s = now.seconds
            self.save(now)

    def save(self, now: Schooling | Practice) -> None:
        """Validate the policy and write it."""
        speedups = {name: self._zero_shot(problem) for name, problem in self._problems.items()}
        self.best = {name: max(speedup, self.best[name]) for name, speedup in speedups.items()}
        self.speedups.append(asdict(now) | speedups)
        training = {
            "command": " ".join([Path(sys.executable).name, *sys.argv]),
            "spent": asdict(now),
            "before": self._before,
            "validation_speedups": self.speedups,
            "options": {key: self._options[key] for key in ("seed", "seconds", "lessons", "pretraining", "instances")},
            "versions": {"python": platform.python_version()} | {name: version(name) for name in ("numba", "torch")},
        }
        save_policy(self._pretraining.network, self._folder / POLICY, training=training)
        if not self._bar.console.is_terminal:
            shown = "  ".join(f"{name} {speedup:.3f}x" for name, speedup in speedups.items())
            self._bar.console.print(f"{now.seconds:.0f} s  {now.text}  {shown}", highlight=False, soft_wrap=True)

    def _zero_shot(self, problem: Problem) -> float:
        """Speed-up over data parallelism of one episode of favourites."""
        once: dict[str, Any] = {"policy": None, "episodes": 0, "known": [], "refine": False}
        given = {"network": lambda: self._pretraining.network, **once}
        agent = construct(self._cfg, "agent", **given)(seed=0)
        result = agent.search(problem, Budget(simulations=len(problem.graph) + 1))
        return problem.data_parallel_ns / result.cost_ns


def _title(one: Instance) -> str:
    return f"{one.model} {one.num_devices} {one.topology} {one.sync}" + ("" if one.overlap else " serial")


def _instance(entry: dict[str, Any]) -> Instance:
    """One of the configuration's validation instances."""
    check_options(Instance, entry, prefix="validation.")
    if missing := {"model", "topology", "num_devices", "sync"} - set(entry):
        raise OptionError("validation", f"{entry} has no {', '.join(sorted(missing))}")
    return Instance(**entry)


def _solve(count: int, instances: Instances, lessons: Lessons, school: Imitation, rng: np.random.Generator) -> None:
    """Let the teacher search new problems."""
    for _ in track(range(count), "solving problems", console=Console(stderr=True)):
        instance = instances.draw(rng)
        lessons.add(instance, school.solve(instance.problem()))


def _problems(
    instances: Instances, lessons: Lessons | None, rng: np.random.Generator
) -> Callable[[], tuple[Problem, Solution | None]]:
    """What draws the problems to learn from."""
    if lessons is not None:
        return Curriculum(lessons, instances, rng).draw
    return lambda: (instances.draw(rng).problem(), None)


def _train(
    pretraining: Pretraining | Reinforcement,
    instances: Instances,
    lessons: Lessons | None,
    watch: Watch,
    options: dict[str, Any],
) -> Schooling | Practice:
    """Train until the time is over."""
    rng = np.random.default_rng(options["seed"])
    if isinstance(pretraining, Reinforcement):
        return pretraining.run(lambda: instances.draw(rng).problem(), options["seconds"], watch)
    return pretraining.run(_problems(instances, lessons, rng), options["seconds"], watch)


def _check(options: dict[str, Any]) -> None:
    if "network" not in keywords(get_object(options["agent"]["_target_"])):
        raise OptionError("agent", f"{options['agent']['_target_']} has no network to train; agent=zero_shot has")
    for key in ("seconds", "save_every_s"):
        if not (isinstance(options[key], int | float) and options[key] > 0):
            raise OptionError(key, f"{options[key]!r} is not a positive number")
    for key in ("seed", "solve"):
        if type(options[key]) is not int or options[key] < 0:
            raise OptionError(key, f"{options[key]!r} is not a whole number from 0 on")
    if options["solve"] and options["lessons"] is None:
        raise OptionError("solve", "needs a folder to write to: lessons=FOLDER")


@application("pretrain")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Train until the time is over, or solve problems for trainings to come."""
    options, folder = resolved(cfg), RunFolder()
    _check(options)
    instances: Instances = construct(cfg, "instances")
    pretraining: Pretraining | Reinforcement = construct(cfg, "pretraining")(seed=options["seed"])
    lessons = None if options["lessons"] is None else Lessons(Path(options["lessons"]))
    if lessons is not None:
        if isinstance(pretraining, Reinforcement):
            raise OptionError("lessons", "are for pretraining=imitation; reinforcement needs no solved problems")
        if options["solve"]:
            _solve(options["solve"], instances, lessons, pretraining.imitation, np.random.default_rng(options["seed"]))
            Console().print(f"{options['solve']} solved problems in {options['lessons']}", highlight=False)
            return
    with Progress(BarColumn(bar_width=10), TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
        watch = Watch(cfg, folder, pretraining, bar)
        spent = _train(pretraining, instances, lessons, watch, options)
        watch.save(spent)
    speedups = "  ".join(f"{name} {watch.speedups[-1][name]:.3f}x" for name in watch.best)
    Console().print(f"{spent.text}  {speedups}\n{POLICY} in {folder.label}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
