"""evaluate.py: figures are those of the records, nothing is searched twice, mistakes are found before a search."""

import contextlib
import csv
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from scipy import stats

from agents.graph_network import GraphNetwork
from agents.policy_file import save_policy
from experiments import archive, evaluate
from experiments.archive import FinishedSearch
from experiments.construct import keywords
from experiments.evaluation.curves import speedups
from experiments.evaluation.evaluation import Evaluation
from experiments.help_page import CONF

SMALL = (
    "evaluation.models=[lenet]",
    "+evaluation.clusters.two=['topology=p100_cluster', 'num_devices=2']",
    "+evaluation.clusters.four=['topology=p100_cluster', 'num_devices=4']",
    "evaluation.held_on=[two,four]",
    "+evaluation.contestants.walk=['agent=mcmc']",
    "+evaluation.contestants.drawn=['agent=random']",
    "+evaluation.contestants.known=['agent=expert']",
    "evaluation.entered=[walk,drawn,known]",
    "evaluation.reference=walk",
    "evaluation.simulations=[20,60]",
    "evaluation.seconds=[]",
    "evaluation.seeds=[0,1,2]",
    "evaluation.area_from=5",
)


@dataclass(frozen=True)
class Outcome:
    """What a call left behind."""

    code: str | int | None
    folder: Path
    archive: Path
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[dict[str, str]]:
        with (self.folder / "evaluation.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    @property
    def totals(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "evaluation.json").read_text())["totals"]
        return found

    def total(self, group: str, contestant: str, checkpoint: float) -> dict[str, Any]:
        key = (group, contestant, checkpoint)
        (found,) = (row for row in self.totals if (row["group"], row["contestant"], row["checkpoint"]) == key)
        return found

    def records(self, *words: str) -> list[dict[str, Any]]:
        """Of the searches whose folders have all these words in their names."""
        folders = sorted((self.archive / "searches").iterdir())
        found = [folder for folder in folders if all(word in folder.name for word in words)]
        return [json.loads((folder / "record.json").read_text()) for folder in found]


Evaluate = Callable[..., Outcome]


def evaluated(root: Path, *overrides: str) -> Outcome:
    """Call evaluate.py on tiny problems with overrides; calls below the same folder share an archive."""
    folder, kept = root / f"run{len(list(root.iterdir()))}", root / "archive"
    code: str | int | None = 0
    printed, complained = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYDRA_FULL_ERROR", "1")
        patch.setattr(sys, "argv", ["command", *SMALL, f"hydra.run.dir={folder}", f"archive={kept}", *overrides])
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained):
            try:
                evaluate.main()
            except SystemExit as error:
                code = error.code
    return Outcome(code, folder, kept, printed.getvalue(), complained.getvalue())


@pytest.fixture
def call(tmp_path: Path) -> Evaluate:
    return partial(evaluated, tmp_path)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Of the evaluation as it is."""
    return evaluated(tmp_path_factory.mktemp("evaluation"), "evaluation.seconds=[0.05]")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """An untrained network in a file, said to have cost something."""
    path = tmp_path / "without_alexnet.safetensors"
    first = {"spent": {"seconds": 2.5, "simulations": 100, "decisions": 10}}
    spent = {"seconds": 8.0, "simulations": 200, "decisions": 30, "teacher_seconds": 2.0}
    training = {"spent": spent, "options": {"lessons": "folder"}, "before": first}
    save_policy(GraphNetwork(width=8, num_rounds=1, prior=2.0), path, training=training)
    return path


# What is written


def test_rows_equal_a_second_computation_from_the_records(outcome: Outcome) -> None:
    found = {(row["cluster"], row["contestant"], row["checkpoint"]): float(row["speedup"]) for row in outcome.rows}
    expected = {}
    for cluster, number in (("two", 2), ("four", 4)):
        for checkpoint in ("20", "60"):
            words = (f"num_devices={number},", f"budget.simulations={checkpoint},")
            walks = [record["speedup"] for record in outcome.records("agent=mcmc", *words)]
            expected[cluster, "walk", checkpoint] = stats.trim_mean(walks, 0.25)
            experts = [record["speedup"] for record in outcome.records("agent=expert", words[0])]
            expected[cluster, "known", checkpoint] = experts[0]
    assert {key: found[key] for key in expected} == pytest.approx(expected)


def test_smaller_checkpoint_of_an_anytime_searcher_is_what_a_shorter_search_finds(call: Evaluate) -> None:
    words = ("evaluation.entered=[walk,drawn]", "evaluation.held_on=[four]")
    long, short = call(*words), call(*words, "evaluation.simulations=[20]")

    def drawn(outcome: Outcome) -> list[str]:
        return [row["speedup"] for row in outcome.rows if (row["contestant"], row["checkpoint"]) == ("drawn", "20")]

    assert drawn(long) == drawn(short)


def test_anytime_searcher_searches_once_and_others_once_for_each_budget(outcome: Outcome) -> None:
    counts = {
        agent: len(outcome.records(f"agent={agent}", "budget.simulations=", "0,seed"))
        for agent in ("mcmc", "random", "expert")
    }
    assert counts == {"mcmc": 2 * 2 * 3, "random": 2 * 3, "expert": 2}


def test_totals_equal_a_second_computation_from_the_records(outcome: Outcome) -> None:
    scores, wins, near = [], [], []
    for number in (2, 4):
        best_ms = min(record["best_ms"] for record in outcome.records(f"num_devices={number},"))
        groups = {
            agent: [record["best_ms"] for record in outcome.records(f"num_devices={number},", f"agent={agent}", "=60,")]
            for agent in ("mcmc", "random")
        }
        scores += [best_ms / ms for ms in groups["random"]]
        wins.append(np.mean([(np.sign(b - a) + 1) / 2 for a in groups["random"] for b in groups["mcmc"]]))
        near.append(np.mean([best_ms / ms >= 0.99 for ms in groups["random"]]))
    total = outcome.total("all", "drawn", 60)
    found = [total[key] for key in ("score", "improvement", "near_best", "num_problems")]
    assert found == pytest.approx([stats.trim_mean(scores, 0.25), np.mean(wins), np.mean(near), 2])


def test_area_is_the_mean_score_along_the_search(outcome: Outcome) -> None:
    folders = (outcome.archive / "searches").glob("*num_devices=4,agent=random,budget.simulations=60,seed=*")
    best_ms = min(record["best_ms"] for record in outcome.records("num_devices=4,"))
    x = np.geomspace(5, 60, 60)
    scores = []
    for search in map(FinishedSearch, folders):
        scores.append(speedups(search, "simulations", x) * best_ms / search.record["data_parallel_ms"])

    total = outcome.total("four", "drawn", 60)
    assert total["area"] == pytest.approx(np.mean(scores))


def test_pictures_and_tables_are_left_behind(outcome: Outcome) -> None:
    files = {path.name for path in outcome.folder.iterdir() if path.is_file()}
    assert files == {"evaluation.csv", "evaluation_totals.csv", "evaluation.json", "curves.png", "problems.png"}
    assert "four, 0.05 seconds: speed-up over data parallelism" in outcome.stdout


def test_seconds_alone_may_be_the_budget(call: Evaluate) -> None:
    words = (
        "evaluation.simulations=[]",
        "evaluation.seconds=[0.05]",
        "evaluation.entered=[walk]",
        "evaluation.seeds=[0]",
    )
    outcome = call(*words, "evaluation.held_on=[two]")

    assert (outcome.code, [row["checkpoint"] for row in outcome.rows]) == (0, ["0.05"])


# What was found when


def stored(folder: Path, curve: str, **fields: Any) -> FinishedSearch:
    (folder / "curve.csv").write_text("simulations,seconds,best_ms\n" + curve)
    (folder / "record.json").write_text(json.dumps({"fits_memory": True, "data_parallel_ms": 12.0} | fields))
    return FinishedSearch(folder)


@pytest.mark.parametrize(("unit", "at"), [("simulations", [9, 10, 29, 30, 99]), ("seconds", [0.9, 1, 2.9, 3, 9.9])])
def test_best_so_far_is_the_last_point_of_the_curve(tmp_path: Path, unit: Any, at: list[float]) -> None:
    search = stored(tmp_path, "10,1.0,8.0\n30,3.0,6.0\n40,4.0,6.0\n")

    assert speedups(search, unit, np.array(at)).tolist() == [1.0, 1.5, 1.5, 2.0, 2.0]


def test_strategies_before_a_rise_of_the_cost_do_not_fit_the_memory(tmp_path: Path) -> None:
    search = stored(tmp_path, "10,1.0,3.0\n30,3.0,6.0\n40,4.0,6.0\n")

    assert speedups(search, "simulations", np.array([5, 10, 30])).tolist() == [1.0, 0.0, 2.0]


def test_search_that_ends_beyond_the_memory_scores_nothing(tmp_path: Path) -> None:
    search = stored(tmp_path, "10,1.0,3.0\n10,1.0,3.0\n", fits_memory=False)

    assert speedups(search, "simulations", np.array([10, 20])).tolist() == [0.0, 0.0]


# Stopped, and called again


def test_evaluation_that_was_stopped_repeats_nothing(call: Evaluate, monkeypatch: pytest.MonkeyPatch) -> None:
    made, search = [], archive.make_problem

    def stop(cfg: Any) -> Any:
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(1)
        return search(cfg)

    words = ("evaluation.entered=[walk,drawn]", "evaluation.held_on=[four]")
    monkeypatch.setattr(archive, "make_problem", stop)
    stopped = call(*words)
    monkeypatch.setattr(archive, "make_problem", search)
    again = call(*words)

    assert stopped.code == 130
    assert "9 searches and measurements, 4 of them kept by earlier calls" in again.stdout


def test_what_is_missing_can_be_skipped(call: Evaluate) -> None:
    call("evaluation.entered=[walk]", "evaluation.simulations=[20]")

    rows = call("evaluation.missing=skip").rows
    assert {(row["contestant"], row["checkpoint"]) for row in rows} == {("walk", "20")}


def test_search_with_another_policy_under_the_same_name_is_made_again(call: Evaluate, policy: Path) -> None:
    words = ("evaluation.entered=[walk,told]", "evaluation.simulations=[20]", "evaluation.seeds=[0]")
    told = f"+evaluation.contestants.told=['agent=zero_shot', 'agent.policy={policy}', 'agent.episodes=0']"
    call(*words, told)
    save_policy(
        GraphNetwork(width=4, num_rounds=1, prior=2.0),
        policy,
        training=json.loads(policy.with_suffix(".json").read_text())["training"],
    )

    assert "4 searches and measurements, 2 of them kept" in call(*words, told).stdout


TINY_MEMORY = "+evaluation.clusters.tiny=['topology=p100_cluster', 'num_devices=2', 'topology.memory_gb=1e-6']"
BRIEF = ("evaluation.entered=[walk]", "evaluation.simulations=[20]", "evaluation.seeds=[0]")


def test_problem_on_which_nothing_fits_the_memory_is_left_out_and_named(call: Evaluate) -> None:
    outcome = call(*BRIEF, TINY_MEMORY, "evaluation.held_on=[two,tiny]")

    assert {row["cluster"] for row in outcome.rows} == {"two"}
    assert outcome.total("two", "walk", 20)["num_problems"] == 1
    assert "left out, since nothing found there fits the memory: lenet on tiny" in outcome.stdout


def test_evaluation_in_which_nothing_fits_the_memory_is_refused(call: Evaluate) -> None:
    outcome = call(*BRIEF, TINY_MEMORY, "evaluation.held_on=[tiny]")

    last = outcome.stderr.splitlines()[-1]  # behind what a slow search shows of its progress
    assert (outcome.code, last) == (2, "error: evaluation: nothing found fits the devices' memory")


# Policies


def test_policy_without_the_models_family_judges_it(call: Evaluate, policy: Path) -> None:
    told = f"agent.policy={policy.parent}/without_{{held_out}}.safetensors"
    outcome = call(
        "evaluation.models=[alexnet]",
        "evaluation.held_on=[two]",
        "evaluation.entered=[walk,told]",
        f"+evaluation.contestants.told=['agent=zero_shot', '{told}', 'agent.episodes=0']",
        "evaluation.simulations=[20]",
        "evaluation.seeds=[0]",
    )

    spent = {(row["contestant"], row["pretraining_seconds"], row["pretraining_simulations"]) for row in outcome.rows}
    assert spent == {("walk", "0.0", "0"), ("told", "12.5", "340")}


def test_contestant_with_a_missing_policy_is_refused_before_anything_is_searched(call: Evaluate) -> None:
    told = "+evaluation.contestants.told=['agent=zero_shot', 'agent.policy=nowhere.safetensors']"
    outcome = call("evaluation.entered=[walk,told]", told)

    sentence = "policy file 'nowhere.safetensors' has no readable nowhere.json beside it (No such file or directory)"
    assert (outcome.code, outcome.stderr, outcome.archive.exists()) == (2, f"error: {sentence}\n", False)


# The YAML


def test_yaml_has_exactly_the_constructors_keywords() -> None:
    cfg = OmegaConf.load(CONF / "evaluate.yaml").evaluation

    assert set(cfg) - {"_target_", "quick"} == set(keywords(Evaluation))
    assert set(cfg.quick) <= set(cfg)


# Mistakes

MISTAKES = {
    "evaluation.entered=[walker]": "evaluation.entered: 'walker' is none of random, expert, mcmc, "
    "mcmc_tuned, best_response, large_neighbourhood, guided_mcmc, policy_descent, ppo, a2c, placeto, "
    "zero_shot_trained, guided_mcmc_trained, policy_descent_trained, walk, drawn, known",
    "evaluation.held_on=[three]": "evaluation.held_on: 'three' is none of p100_4, p100_16, h100_16, two, four",
    "evaluation.reference=nobody": "evaluation.reference: 'nobody' is none of walk, drawn, known",
    "evaluation.seeds=[]": "evaluation.seeds: there must be at least one",
    "evaluation.simulations=[-1]": "evaluation.simulations, evaluation.seconds: -1 is not a positive number",
    "evaluation.area_from=60": "evaluation.area_from: 60 is not between 0 and 60",
    "evaluation.missing=guess": "evaluation.missing: 'guess' is not one of search, skip",
    "evaluation.models=[vgg]": "unknown model 'vgg'; choose one of alexnet, generated, inception_v3, lenet, nmt, "
    "resnet101, resnet101_linear, rnnlm, rnntc",
    "evaluation.contestants.walk=['agent=mcmc','sync=byteps']": "contestants.walk: 'sync=byteps' is not about "
    "agent or space",
    "evaluation.contestants.walk=['agent=mcmc','agent.warmth=1']": "unknown key 'agent.warmth'; choose one of "
    "agent.starts, agent.temperature, agent.patience, agent.reset_every, agent.propagation",
    "evaluation.contestants.walk=['agent=zero_shot','agent.policy=without_{held_out}']": "models: 'lenet' is in none "
    "of pre-training's families, alexnet, inception, resnet, rnntc, rnnlm, nmt",
    "quick=very": "quick: 'very' is not true or false",
    "evaluation.missing=skip": "archive: '{archive}' has no complete searches of this evaluation",
}


@pytest.mark.parametrize("override", MISTAKES)
def test_mistake_is_one_sentence(call: Evaluate, override: str) -> None:
    outcome = call(override)

    expected = f"error: {MISTAKES[override].replace('{archive}', str(outcome.archive))}\n"
    assert (outcome.code, outcome.stderr) == (2, expected)
