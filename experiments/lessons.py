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
    """Draws from solved problems, each once before any of its kind comes again; new ones may be added meanwhile.

    Args:
        lessons: the folder.
        instances: say which models may be drawn, and how often generated ones.
        rng: of the order.

    Raises:
        OptionError: none of the lessons may be drawn.
    """

    def __init__(self, lessons: Lessons, instances: Instances, rng: np.random.Generator) -> None:
        self._lessons, self._instances, self._rng = lessons, instances, rng
        self._known: list[Solved] = []
        self._waiting: dict[bool, list[Solved]] = {True: [], False: []}
        if not self._all(is_generated=True) and not self._all(is_generated=False):
            raise OptionError("lessons", "none of them is of a model that may be drawn")

    def draw(self) -> tuple[Problem, Solution]:
        """The next problem, with its solution."""
        is_generated = self._instances.is_generated(self._rng)
        if not self._waiting[is_generated] and not self._all(is_generated=is_generated):
            is_generated = not is_generated
        if not self._waiting[is_generated]:
            everything = self._all(is_generated=is_generated)
            self._waiting[is_generated] = [everything[k] for k in self._rng.permutation(len(everything)).tolist()]
        solved = self._waiting[is_generated].pop()
        return self._lessons.problem(solved), solved.solution

    def _all(self, *, is_generated: bool) -> list[Solved]:
        """Those in the folder now that may be drawn; those that were there before are the same objects."""
        self._known += self._lessons.read()[len(self._known) :]
        share, models = self._instances.generated_share, self._instances.models
        if is_generated:
            return [solved for solved in self._known if share > 0 and solved.instance.model is None]
        return [solved for solved in self._known if share < 1 and solved.instance.model in models]
