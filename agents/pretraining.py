"""Pretraining: one network learns from a growing collection of lessons."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agents.errors import AgentError
from agents.graph_network import GraphNetwork
from agents.imitation import Imitation, Lesson, Solution
from agents.policy_file import open_network
from agents.torch_threads import torch_threads
from sim.problem import Problem

MEMORY = 0.98
"""Of the running averages of loss and agreement, from lesson to lesson."""


@dataclass(frozen=True, slots=True)
class Schooling:
    """How far the training is.

    Attributes:
        seconds: since it began.
        problems: that were solved for it by the teacher, now or before.
        lessons: that were taught, each as often as it was.
        decisions: that were learned from.
        simulations: that the teacher spent on these; those of the episodes are as many as the decisions.
        teacher_seconds: that it took for them.
        loss: running average of the cross-entropy in nats, each before it was learned from.
        agreement: running average of the share of decisions in which the network's first choice was the teacher's.
        teacher_speedup: geometric mean of the teacher's speed-ups over data parallelism.
    """

    seconds: float
    problems: int
    lessons: int
    decisions: int
    simulations: int
    teacher_seconds: float
    loss: float
    agreement: float
    teacher_speedup: float

    @property
    def text(self) -> str:
        """For the display."""
        counts = f"{self.problems} problems  {self.lessons} lessons"
        return f"{counts}  loss {self.loss:.3f}  agreement {self.agreement:.0%}"


class Pretraining:
    """Imitation on problems that are drawn as it goes on.

    Args:
        imitation: prepares and teaches lessons.
        network: made after the seed is set.
        policy: a file whose network is taken instead and learns on, or None.
        lessons_per_problem: that are taught between two searches of the teacher; on old problems too.
        num_lessons: that are kept; the oldest is forgotten first.
        num_threads: of torch.
        seed: of the network's weights, and of what is taught when.

    Attributes:
        imitation: what prepares and teaches lessons.
    """

    def __init__(
        self,
        *,
        imitation: Callable[..., Imitation],
        network: Callable[[], GraphNetwork],
        policy: str | None,
        lessons_per_problem: int,
        num_lessons: int,
        num_threads: int,
        seed: int,
    ) -> None:
        for name, count in (("lessons_per_problem", lessons_per_problem), ("num_lessons", num_lessons)):
            if count < 1:
                raise AgentError(f"pretraining.{name} must be at least 1, not {count}")
        self.network = open_network(policy, network, seed)
        self.imitation = imitation(seed=seed)
        self._optimizer = self.imitation.optimizer(self.network)
        self._rng, self._period, self._num_threads = np.random.default_rng(seed), lessons_per_problem, num_threads
        self._lessons: deque[Lesson] = deque(maxlen=num_lessons)

    def run(
        self,
        draw: Callable[[], tuple[Problem, Solution | None]],
        seconds: float,
        report: Callable[[Schooling], None],
    ) -> Schooling:
        """Prepare and teach until the time is over; the learning rate falls linearly to 0.

        Args:
            draw: makes the next problem, with its solution if the teacher has found one before.
            seconds: wall-clock time.
            report: is told after every lesson; what it spends counts.
        """
        began, lessons, decisions = time.perf_counter(), 0, 0
        solutions: dict[int, tuple[Solution, float]] = {}
        averages = np.zeros(2)
        with torch_threads(self._num_threads):
            while True:
                if lessons % self._period == 0:
                    lesson = self._prepared(*draw())
                    solutions[id(lesson.solution)] = lesson.solution, lesson.speedup
                    self._lessons.append(lesson)
                self._slow_down(1 - (time.perf_counter() - began) / seconds)
                lesson = self._lessons[int(self._rng.integers(len(self._lessons)))]
                marks = self.imitation.teach(self.network, self._optimizer, lesson)
                keep = min(MEMORY, lessons / (lessons + 1))
                averages = keep * averages + (1 - keep) * np.array([marks.loss, marks.agreement])
                lessons, decisions = lessons + 1, decisions + self.imitation.num_envs * len(lesson.solution.choices)
                now = Schooling(
                    seconds=time.perf_counter() - began,
                    problems=len(solutions),
                    lessons=lessons,
                    decisions=decisions,
                    simulations=sum(solution.simulations for solution, _ in solutions.values()),
                    teacher_seconds=sum(solution.seconds for solution, _ in solutions.values()),
                    loss=float(averages[0]),
                    agreement=float(averages[1]),
                    teacher_speedup=float(np.exp(np.mean([np.log(speedup) for _, speedup in solutions.values()]))),
                )
                report(now)
                if now.seconds >= seconds:
                    return now

    def _prepared(self, problem: Problem, solution: Solution | None) -> Lesson:
        return self.imitation.prepare(problem, solution or self.imitation.solve(problem))

    def _slow_down(self, left: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self.imitation.learning_rate * max(0.0, left)
