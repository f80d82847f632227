"""Lessons: a folder of solved problems, so that the teacher's searches serve several trainings."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from agents.imitation import Solution
from experiments.errors import OptionError
from experiments.instances import Instance, Instances
from sim.problem import Problem
from sim.strategy import Strategy

FILE = "lessons.jsonl"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Solved:
    """A line of the file.

    Attributes:
        number: of the line.
        instance: what was solved.
        solution: what the teacher found.
    """

    number: int
    instance: Instance
    solution: Solution


class Lessons:
    """Solved problems, one JSON object a line.

    Args:
        folder: made if missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / FILE

    def add(self, instance: Instance, solution: Solution) -> None:
        """Write one more."""
        line = {"format_version": FORMAT_VERSION, "instance": asdict(instance), "solution": asdict(solution)}
        with self._path.open("a") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def read(self) -> list[Solved]:
        """All of them.

        Raises:
            OptionError: there is none, or a line is no lesson.
        """
        try:
            lines = self._path.read_text().splitlines()
        except OSError as error:
            raise OptionError("lessons", f"'{self._path}' cannot be read ({error.strerror})") from error
        return [self._solved(number, line) for number, line in enumerate(lines, start=1)]

    def problem(self, solved: Solved) -> Problem:
        """The problem of a line.

        Raises:
            OptionError: here the strategy has another cost.
        """
        problem, choices = solved.instance.problem(), solved.solution.choices
        try:
            configs = [problem.space.config(*pair) for pair in enumerate(choices)]
            cost_ns = problem.simulation(Strategy(problem.graph, problem.topology, configs)).cost_ns
        except (IndexError, ValueError) as error:
            raise self._fault(solved.number, "does not fit its problem") from error
        if cost_ns != solved.solution.cost_ns:
            raise self._fault(solved.number, f"took {solved.solution.cost_ns} ns, and takes {cost_ns} ns now")
        return problem

    def _solved(self, number: int, line: str) -> Solved:
        try:
            content = json.loads(line)
            if content["format_version"] != FORMAT_VERSION:
                raise ValueError
            instance, solution = Instance(**content["instance"]), content["solution"]
            return Solved(number, instance, Solution(**{**solution, "choices": tuple(solution["choices"])}))
        except (KeyError, TypeError, ValueError) as error:
            raise self._fault(number, f"is not a lesson of format version {FORMAT_VERSION}") from error

    def _fault(self, number: int, reason: str) -> OptionError:
        return OptionError("lessons", f"line {number} of '{self._path}' {reason}; solve the problems again")


class Curriculum:
    """Draws from solved problems, each once before any of its kind comes again.

    Args:
        lessons: the folder.
        instances: say which models may be drawn, and how often generated ones.
        rng: of the order.

    Raises:
        OptionError: none of the lessons may be drawn.
    """

    def __init__(self, lessons: Lessons, instances: Instances, rng: np.random.Generator) -> None:
        self._lessons, self._instances, self._rng = lessons, instances, rng
        known = lessons.read()
        self._kinds = {
            True: [solved for solved in known if solved.instance.model is None],
            False: [solved for solved in known if solved.instance.model in instances.models],
        }
        if not any(self._kinds.values()):
            raise OptionError("lessons", "none of them is of a model that may be drawn")
        self._waiting: dict[bool, list[Solved]] = {True: [], False: []}

    def draw(self) -> tuple[Problem, Solution]:
        """The next problem, with its solution."""
        is_generated = self._instances.is_generated(self._rng)
        if not self._kinds[is_generated]:
            is_generated = not is_generated
        waiting, all_of_kind = self._waiting[is_generated], self._kinds[is_generated]
        if not waiting:
            waiting += [all_of_kind[number] for number in self._rng.permutation(len(all_of_kind)).tolist()]
        solved = waiting.pop()
        return self._lessons.problem(solved), solved.solution
