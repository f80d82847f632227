"""A network learns from a teacher, and is of use where it was not taught."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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
from sim.strategies import start_strategy
from sim.topology import load_topology

NETWORK = partial(GraphNetwork, width=16, num_rounds=1, prior=0.0)


def imitation(*, noise: float = 0.1, midway: float = 0.0, seed: int = 0) -> Imitation:
    shares = {"critical": 0.5, "grouped": 0.5, "slack": 0.02, "threshold": 0.002}
    teacher = partial(LargeNeighbourhood, start="data_parallel", size=2, num_samples=10, **shares)
    return Imitation(
        teacher=teacher,
        simulations=500,
        noise=noise,
        midway=midway,
        num_envs=4,
        batch_size=12,
        learning_rate=0.003,
        max_gradient_norm=0.5,
        seed=seed,
    )


def zero_shot(**changes: Any) -> ZeroShot:
    options = {"policy": None, "network": NETWORK, "episodes": None, "num_envs": 2, "aligned_only": True}
    options |= {"known": [], "refine": False, "temperature": 1.0}
    return ZeroShot(**{**options, "num_threads": 1, "seed": 0, **changes})


@pytest.fixture(scope="module")
def problem() -> Problem:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    return Problem(graph, topology, space=SoapSpace(graph, topology, variant="aligned"))


def test_agreement_with_the_teacher_rises(problem: Problem) -> None:
    torch.manual_seed(0)
    school, network = imitation(), NETWORK()
    lesson, optimizer = school.prepare(problem, school.solve(problem)), school.optimizer(network)

    marks = [school.teach(network, optimizer, lesson) for _ in range(40)]
    assert marks[0].agreement < 0.7 < 0.9 < marks[-1].agreement
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

    spent = training.run(lambda: (problem, None), 0.5, reports.append)
    assert reports[-1] == spent
    assert spent.simulations == 500 * spent.problems
    assert spent.decisions == 4 * len(problem.graph) * spent.lessons
    assert spent.teacher_speedup >= 1


def test_a_first_episode_of_favourites_is_what_the_teacher_does(problem: Problem, tmp_path: Path) -> None:
    torch.manual_seed(0)
    school, network = imitation(), NETWORK()
    lesson, optimizer = school.prepare(problem, school.solve(problem)), school.optimizer(network)
    for _ in range(100):
        school.teach(network, optimizer, lesson)
    save_policy(network, tmp_path / "policy.safetensors", training={})

    budget = Budget(simulations=1 + len(problem.graph))
    taught = zero_shot(policy=str(tmp_path / "policy.safetensors")).search(problem, budget)
    assert problem.data_parallel_ns / taught.cost_ns == pytest.approx(lesson.speedup, rel=0.01)


def test_no_temperature_makes_zero_shot_draw_what_is_illegal(problem: Problem) -> None:
    result = zero_shot(episodes=20, temperature=1e30).search(problem, Budget(simulations=100))

    assert result.simulations == 100


def test_zero_shot_ends_after_its_episodes(problem: Problem) -> None:
    result = zero_shot(episodes=4).search(problem, Budget(simulations=10_000))

    # The start is priced for the favourites, and once for all that are drawn.
    assert result.simulations == 2 + (1 + 4) * len(problem.graph)


def test_zero_shot_spends_exactly_its_budget(problem: Problem) -> None:
    result = zero_shot().search(problem, Budget(simulations=101))

    assert result.simulations == 101


def test_known_strategies_are_priced_at_a_simulation_each(problem: Problem) -> None:
    found = zero_shot(known=["expert", "single_device"], episodes=0).search(problem, Budget(simulations=10_000))
    expert_ns = problem.simulation(start_strategy("expert", problem, np.random.default_rng(0))).cost_ns

    assert found.simulations == 3 + len(problem.graph)
    assert found.cost_ns <= expert_ns


def test_refinement_goes_on_until_an_episode_finds_nothing_better(problem: Problem) -> None:
    network = partial(GraphNetwork, width=16, num_rounds=1, prior=2.0)
    once, again = (zero_shot(network=network, refine=refine, episodes=0) for refine in (False, True))
    first, last = (agent.search(problem, Budget(simulations=10_000)) for agent in (once, again))

    episodes, rest = divmod(last.simulations, 1 + len(problem.graph))
    assert rest == 0
    assert last.curve[-2].simulations <= (episodes - 1) * (1 + len(problem.graph))
    assert last.cost_ns <= first.cost_ns


def test_a_lesson_may_start_on_the_way_to_the_teachers_strategy(problem: Problem) -> None:
    school = imitation(midway=1.0)
    lesson = school.prepare(problem, school.solve(problem))
    torch.manual_seed(0)
    school.teach(network := NETWORK(), school.optimizer(network), lesson)

    choices = lesson.env.states.choices[0]
    data_parallel = [lesson.env.mdp.table.number(*pair) for pair in enumerate(problem.data_parallel.configs)]
    is_taught = choices == lesson.solution.choices
    assert all(is_taught | (choices == data_parallel))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("temperature", 0.0, "agent.temperature must be positive, not 0.0"),
        ("num_envs", 0, "agent.num_envs must be positive, not 0"),
        ("episodes", -1, "agent.episodes must be at least 0, not -1"),
    ],
)
def test_impossible_number_is_refused(name: str, value: int, message: str) -> None:
    with pytest.raises(AgentError) as error:
        zero_shot(**{name: value})

    assert str(error.value) == message
