"""A network learns from a teacher, and is of use where it was not taught."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.budget import Budget
from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.imitation import Imitation
from agents.large_neighbourhood import LargeNeighbourhood
from agents.policy_file import save_policy
from agents.pretraining import Pretraining, Schooling
from agents.zero_shot import ZeroShot
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

NETWORK = partial(GraphNetwork, width=16, num_rounds=1, prior=0.0)


def imitation(*, noise: float = 0.1, seed: int = 0) -> Imitation:
    shares = {"critical": 0.5, "grouped": 0.5, "slack": 0.02, "threshold": 0.002}
    teacher = partial(LargeNeighbourhood, start="data_parallel", size=2, num_samples=10, **shares)
    return Imitation(
        teacher=teacher,
        simulations=500,
        noise=noise,
        num_envs=4,
        batch_size=12,
        learning_rate=0.003,
        max_gradient_norm=0.5,
        seed=seed,
    )


def zero_shot(**changes: Any) -> ZeroShot:
    options = {"policy": None, "network": NETWORK, "episodes": None, "num_envs": 2, "aligned_only": True}
    return ZeroShot(**{**options, "num_threads": 1, "seed": 0, **changes})


@pytest.fixture(scope="module")
def problem() -> Problem:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant="aligned"))


def test_agreement_with_the_teacher_rises(problem: Problem) -> None:
    torch.manual_seed(0)
    school, network = imitation(), NETWORK()
    lesson, optimizer = school.prepare(problem), school.optimizer(network)

    marks = [school.teach(network, optimizer, lesson) for _ in range(40)]
    assert marks[0].agreement < 0.5 < 0.9 < marks[-1].agreement
    assert marks[-1].loss < 0.5 * marks[0].loss


def test_noise_of_1_is_refused() -> None:
    with pytest.raises(AgentError) as error:
        imitation(noise=1.0)

    assert str(error.value) == "noise must be at least 0 and below 1, not 1.0"


def test_pretraining_reports_what_it_spent(problem: Problem) -> None:
    training = Pretraining(
        imitation=imitation, network=NETWORK, policy=None, lessons_per_problem=2, num_lessons=3, num_threads=1, seed=0
    )
    reports: list[Schooling] = []

    spent = training.run(lambda: problem, 0.5, reports.append)
    assert reports[-1] == spent
    assert spent.simulations == 500 * spent.problems
    assert spent.decisions == 4 * len(problem.graph) * spent.lessons
    assert spent.teacher_speedup >= 1


def test_a_first_episode_of_favourites_is_what_the_teacher_does(problem: Problem, tmp_path: Path) -> None:
    torch.manual_seed(0)
    school, network = imitation(), NETWORK()
    lesson, optimizer = school.prepare(problem), school.optimizer(network)
    for _ in range(100):
        school.teach(network, optimizer, lesson)
    save_policy(network, tmp_path / "policy.safetensors", training={})

    budget = Budget(simulations=1 + len(problem.graph))
    taught = zero_shot(policy=str(tmp_path / "policy.safetensors")).search(problem, budget)
    assert problem.data_parallel_ns / taught.cost_ns == pytest.approx(lesson.speedup, rel=0.01)


def test_zero_shot_ends_after_its_episodes(problem: Problem) -> None:
    result = zero_shot(episodes=4).search(problem, Budget(simulations=10_000))

    assert result.simulations == 1 + (1 + 4) * len(problem.graph)


def test_zero_shot_spends_exactly_its_budget(problem: Problem) -> None:
    result = zero_shot().search(problem, Budget(simulations=101))

    assert result.simulations == 101


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("num_envs", 0, "agent.num_envs must be positive, not 0"),
        ("episodes", -1, "agent.episodes must be at least 0, not -1"),
    ],
)
def test_impossible_number_is_refused(name: str, value: int, message: str) -> None:
    with pytest.raises(AgentError) as error:
        zero_shot(**{name: value})

    assert str(error.value) == message
