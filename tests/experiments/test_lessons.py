"""Solved problems serve several trainings, each of which sees only what it may."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents.imitation import Solution
from experiments.errors import OptionError
from experiments.instances import Instance, Instances
from experiments.lessons import FILE, Curriculum, Lessons

LENET = Instance("lenet", "p100_cluster", 2, "ring")
GENERATED = Instance(None, "p100_cluster", 2, "parameter_server", overlap=False, network_seed=3)


def instances(*, held_out: str | None = None, generated_share: float = 0.5) -> Instances:
    return Instances(
        families={"lenet": ["lenet"], "alexnet": ["alexnet"]},
        held_out=held_out,
        generated_share=generated_share,
        topologies={"p100_cluster": 16},
        num_devices=[2],
        syncs=["ring"],
        serial_share=0.5,
    )


def solution(instance: Instance) -> Solution:
    """Data parallelism, as if a teacher had found it."""
    problem = instance.problem()
    choices = tuple(problem.space.index(*pair) for pair in enumerate(problem.data_parallel.configs))
    return Solution(choices, problem.data_parallel_ns, 10, 0.5)


@pytest.fixture
def lessons(tmp_path: Path) -> Lessons:
    folder = Lessons(tmp_path)
    for instance in (LENET, GENERATED):
        folder.add(instance, solution(instance))
    return folder


def drawn(lessons: Lessons, source: Instances, count: int = 20) -> set[str]:
    curriculum = Curriculum(lessons, source, np.random.default_rng(0))
    return {curriculum.draw()[0].graph.name for _ in range(count)}


def test_what_is_written_is_read(lessons: Lessons) -> None:
    first, second = lessons.read()

    assert (first.instance, second.instance) == (LENET, GENERATED)
    assert second.solution == solution(GENERATED)


def test_all_that_may_be_drawn_is_drawn(lessons: Lessons) -> None:
    assert drawn(lessons, instances()) == {"lenet", "generated_3"}


def test_the_family_that_is_held_out_is_not_drawn(lessons: Lessons) -> None:
    assert drawn(lessons, instances(held_out="lenet")) == {"generated_3"}


def test_without_generated_networks_none_is_drawn(lessons: Lessons) -> None:
    assert drawn(lessons, instances(generated_share=0.0)) == {"lenet"}


def test_lessons_that_are_added_meanwhile_are_drawn(lessons: Lessons) -> None:
    curriculum = Curriculum(lessons, instances(generated_share=0.0), np.random.default_rng(0))
    curriculum.draw()
    alexnet = Instance("alexnet", "p100_cluster", 2, "ring")
    lessons.add(alexnet, solution(alexnet))

    assert {curriculum.draw()[0].graph.name for _ in range(2)} == {"lenet", "alexnet"}


def test_a_folder_without_lessons_for_the_training_is_refused(tmp_path: Path) -> None:
    folder = Lessons(tmp_path)
    folder.add(LENET, solution(LENET))
    with pytest.raises(OptionError) as error:
        Curriculum(folder, instances(held_out="lenet"), np.random.default_rng(0))

    assert str(error.value) == "lessons: none of them is of a model that may be drawn"


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as error:
        Lessons(tmp_path).read()

    assert str(error.value) == f"lessons: '{tmp_path / FILE}' cannot be read (No such file or directory)"


def test_a_lesson_of_another_cost_is_refused(tmp_path: Path) -> None:
    folder, found = Lessons(tmp_path), solution(LENET)
    folder.add(LENET, replace(found, cost_ns=7))
    with pytest.raises(OptionError) as error:
        folder.problem(folder.read()[0])

    reason = f"took 7 ns, and takes {found.cost_ns} ns now; solve the problems again"
    assert str(error.value) == f"lessons: line 1 of '{tmp_path / FILE}' {reason}"


@pytest.mark.parametrize("line", ["{", "[]", '{"format_version": 0}'])
def test_a_line_that_is_no_lesson_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / FILE).write_text(line + "\n")
    with pytest.raises(OptionError) as error:
        Lessons(tmp_path).read()

    reason = "is not a lesson of format version 1; solve the problems again"
    assert str(error.value) == f"lessons: line 1 of '{tmp_path / FILE}' {reason}"
