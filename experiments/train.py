"""A model trained on digits under several strategies: ``python experiments/train.py``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from omegaconf import DictConfig
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from experiments.application import EXIT_INTERRUPTED, application
from experiments.construct import construct
from experiments.digits import load_digits
from experiments.errors import OptionError
from experiments.problem import make_problem
from experiments.progress import ProgressDisplay
from experiments.run_folder import RunFolder
from experiments.simulate import load_strategy
from experiments.sync import check_sync
from experiments.training_curves import HEADER, Curve, curve_rows, picture, table_rows, terminal_table
from runtime.accuracy import accuracy
from runtime.dataset import Dataset
from runtime.launch import Ranks
from runtime.options import RankOptions, RunOptions
from runtime.program import build_program
from runtime.rank_process import settle
from runtime.result import Report
from runtime.single_process import run_single_process
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.strategy import Strategy

REFERENCE = "one process"


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained, on what.

    Attributes:
        problem: its graph has the batch of an iteration.
        train: images in batches.
        test_graph: the model with all test images as its batch.
        test: these.
        options: of each run.
    """

    problem: Problem
    train: Dataset
    test_graph: OperatorGraph
    test: Dataset
    options: RunOptions


@application("train")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Train one process and each strategy; write curves, table and picture, of an interrupted run those so far."""
    training = make_training(cfg)
    folder, console = RunFolder(), Console(stderr=True)
    strategies = make_strategies(cfg, training.problem, folder)
    ranks = {name: len({d for config in s.configs for d in config.devices}) for name, s in strategies.items()}
    curves = [Curve(REFERENCE, 1), *(Curve(name, ranks[name]) for name in strategies)]
    num_ranks, num_cores = training.problem.topology.num_devices, len(os.sched_getaffinity(0))
    is_crowded = num_ranks > num_cores
    title = f"{training.problem.graph.name} on digits, {num_ranks} ranks"
    try:
        train_all(training, strategies, curves, console, is_pinned=not is_crowded)
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    finally:  # whatever ended it
        begun = [curve for curve in curves if curve.losses]
        if begun:
            note = f" ({num_ranks} ranks on {num_cores} cores: meaningless)" if is_crowded else ""
            folder.write_csv("curves.csv", *curve_rows(begun))
            folder.write_csv("training.csv", HEADER, table_rows(begun))
            folder.write_png("training.png", picture(begun, title=title, note=note))
            out = Console()
            out.print(terminal_table(begun, title=title), soft_wrap=True)
            if is_crowded:
                out.print(f"{num_ranks} ranks share {num_cores} cores: times mean nothing", highlight=False)
            out.print(f"curves.csv, training.csv and training.png in {folder.label}", highlight=False, soft_wrap=True)


def make_training(cfg: DictConfig) -> Training:
    """Model and data, if they fit each other.

    Raises:
        OptionError: a number that cannot be trained with, a scheme of synchronisation that ranks do not run as such,
            or a model that reads no images.
        DatasetMismatchError: a model that reads other images than digits.
    """
    check(cfg)
    problem = make_problem(cfg)
    check_sync(problem.sync)
    if "image_size" not in cfg.model:
        raise OptionError("model", f"'{problem.graph.name}' reads no images, which digits are")
    train, test = (
        Dataset(part.images, part.labels, seed=cfg.seed)
        for part in load_digits(image_size=cfg.model.image_size, test_share=cfg.test_share, seed=cfg.seed)
    )
    train.check(problem.graph)
    test_graph = construct(cfg, "model", num_devices=1, batch_per_device=len(test))
    num_iterations = cfg.epochs * (len(train) // problem.graph.operators[0].sizes[0])
    options = RunOptions(
        num_iterations=min(num_iterations, cfg.max_iterations or num_iterations),
        learning_rate=cfg.learning_rate,
        seed=cfg.seed,
        is_collecting=True,
        is_timed=False,
        is_double=cfg.is_double,
    )
    return Training(problem, train, test_graph, test, options)


def check(cfg: DictConfig) -> None:
    """Refuse what is of another type or out of range.

    Raises:
        OptionError: the first such key.
    """

    def require(is_right: bool, key: str, what: str) -> None:
        if not is_right:
            raise OptionError(key, f"{cfg[key]!r} is not {what}")

    for key in ("epochs", "max_iterations"):
        is_none = key == "max_iterations" and cfg[key] is None
        require(is_none or (type(cfg[key]) is int and cfg[key] >= 1), key, "a whole number from 1 on")
    is_rate = type(cfg.learning_rate) in (int, float) and cfg.learning_rate > 0
    require(is_rate, "learning_rate", "a positive number")
    # Below a hundredth, or with as little to train on, some digit might be missing.
    is_share = type(cfg.test_share) is float and 0.01 <= cfg.test_share <= 0.99
    require(is_share, "test_share", "a number from 0.01 to 0.99")
    require(type(cfg.is_double) is bool, "is_double", "true or false")
    require(cfg.training is True, "training", "true, without which nothing is trained")


def make_strategies(cfg: DictConfig, problem: Problem, folder: RunFolder) -> dict[str, Strategy]:
    """Data parallelism, model parallelism, and the strategy that is searched or given, which is saved."""
    if cfg.strategy == "search":
        budget, agent = construct(cfg, "budget"), construct(cfg, "agent")(seed=cfg.seed)
        with ProgressDisplay("search") as display:
            result = agent.search(problem, budget, display)
        if result.is_interrupted:
            raise KeyboardInterrupt
        name, strategy = "searched", result.strategy
    else:
        name, strategy = Path(str(cfg.strategy)).stem, load_strategy(str(cfg.strategy), problem, seed=cfg.seed)
    strategy.save(folder / "strategy.json")
    strategies = {key: load_strategy(key, problem, seed=cfg.seed) for key in ("data_parallel", "model_parallel")}
    strategies[name] = strategy
    for checked in strategies.values():
        build_program(problem, checked)  # refuses before anything is trained
    return strategies


def train_all(
    training: Training, strategies: Mapping[str, Strategy], curves: list[Curve], console: Console, *, is_pinned: bool
) -> None:
    """Train one process, then each strategy on the same ranks; losses are in the curves as soon as they are known."""
    problem, options = training.problem, training.options
    rank_options = RankOptions(is_pinned=is_pinned)
    columns = (BarColumn(bar_width=20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console) as progress:

        def report_to(curve: Curve) -> Report:
            task = progress.add_task(curve.name, total=options.num_iterations)

            def report(iteration: int, loss: float, wall_ms: float) -> None:
                curve.losses.append(loss)
                curve.wall_ms.append(wall_ms)
                progress.update(task, advance=1, description=f"{curve.name}: loss {loss:.4f}")

            return report

        def evaluate(curve: Curve, weights: Mapping[str, Any]) -> None:
            curve.test_accuracy = accuracy(training.test_graph, weights, dataset=training.test, options=options)

        settle(0, RankOptions(num_threads=rank_options.num_threads))  # as each rank does, for the reference
        reference, *others = curves
        alone = run_single_process(problem.graph, data=training.train, options=options, report=report_to(reference))
        evaluate(reference, {name: [tensor.numpy() for tensor in group] for name, group in alone.weights.items()})
        with Ranks(num_ranks=problem.topology.num_devices, options=rank_options) as ranks:
            # The first iteration of fresh ranks takes most of a second.
            warm_up = replace(options, num_iterations=1)
            ranks.run(problem, problem.data_parallel, data=training.train, options=warm_up)
            for curve, strategy in zip(others, strategies.values(), strict=True):
                report = report_to(curve)
                result = ranks.run(problem, strategy, data=training.train, options=options, report=report)
                evaluate(curve, result.weights())


if __name__ == "__main__":
    main()
