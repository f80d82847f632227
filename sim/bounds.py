"""Bounds: iteration times that no strategy of a space can beat (REFERENCE 2.9).

They rest on precedence and on work alone, so they hold for every schedule, FIFO's included, whose simulated times
of a partial strategy or of a faster machine are no bounds. Memory is not considered.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from sim.chains import Chains
from sim.degree_bounds import DegreeBounds, DegreeBoundsMaker, Ints
from sim.partial_task_graph import PartialTaskGraph, head_body_tail_ns
from sim.problem import Problem
from sim.strategy import ParallelConfig

NUM_MIXTURES = 128
"""Critical path and work are mixed in steps of one part in so many; small parts of the path matter most."""


def lower_bound_ns(problem: Problem) -> int:
    """The iteration time that every strategy of the problem's space needs, the greatest of all bounds.

    Raises:
        UnknownNameError: the cost source has no time for any degrees of some operator.
    """
    return Bounds(problem).partial_ns({})


def partial_bound_ns(problem: Problem, configs: Mapping[int, ParallelConfig]) -> int:
    """The iteration time that every strategy needs which gives some operators these configs.

    Args:
        problem: graph, topology, costs, space and synchronisation.
        configs: of the operators that are decided, by position; the others may get any config of the space.

    Raises:
        UnknownNameError: the cost source has no time for any degrees of some operator.
    """
    return Bounds(problem).partial_ns(configs)


class Bounds:
    """The bounds of a problem, with all that does not depend on what is decided kept for the next question.

    Args:
        problem: graph, topology, costs, space and synchronisation.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._maker = DegreeBoundsMaker(problem)

    @cached_property
    def _chains(self) -> Chains:
        return Chains(self.problem.graph)

    @cached_property
    def _open(self) -> list[DegreeBounds]:
        return [self._maker.open(position) for position in range(len(self.problem.graph))]

    def partial_ns(self, configs: Mapping[int, ParallelConfig]) -> int:
        """See ``partial_bound_ns``; a bound never falls when more operators are decided."""
        choices = self.choices(configs)
        bounds = [self.path_and_work_ns(choices), self.body_ns(choices)]
        if configs:
            serial_ns = sum(int(choice.serial.min()) for choice in choices)
            bounds.append(serial_ns + self.partial_task_graph(configs).bound_ns())
        return max(bounds)

    def choices(self, configs: Mapping[int, ParallelConfig]) -> list[DegreeBounds]:
        """What each operator costs at least, decided or not."""
        return [
            self._maker.decided(position, configs[position]) if position in configs else choice
            for position, choice in enumerate(self._open)
        ]

    def partial_task_graph(self, configs: Mapping[int, ParallelConfig]) -> PartialTaskGraph:
        """The tasks of decided operators, and what the others do to them at least."""
        return PartialTaskGraph(self.problem, configs, self.choices(configs), self._chains)

    def path_and_work_ns(self, choices: Sequence[DegreeBounds]) -> int:
        """Critical path, work by devices, and all mixtures of both, plus serial synchronisation.

        Proof. The tasks of a chain of elements, forward and mirrored, follow each other, and P devices cannot do
        more than P ns of work in a ns; serial synchronisation is added to either. So T is at least any weighted
        mean of the two, and the least that each operator adds to that mean, over configs that settle its share of
        the path and of the work together, is a bound that knows that splitting shortens paths but adds work.
        """
        num_devices = self.problem.topology.num_devices
        on_path = np.arange(NUM_MIXTURES + 1, dtype=np.int64)[:, None] * num_devices
        of_work = NUM_MIXTURES - on_path // num_devices
        total = np.zeros(NUM_MIXTURES + 1, dtype=np.int64)
        weights: list[tuple[Ints, Ints]] = []
        for choice in choices:
            beside = of_work * (choice.work + choice.updates) + NUM_MIXTURES * num_devices * choice.serial
            least = beside.min(axis=1)
            total += least
            inner = (beside + on_path * choice.both).min(axis=1) - least
            last = (beside + on_path * (choice.both + choice.ending)).min(axis=1) - least
            weights.append((inner, last))
        longest = total - total
        values: list[Ints] = []
        for link in self._chains.links:
            inner, last = weights[link.operator]
            # The backward chain ends where the forward chain began.
            value = last
            for before in link.before:
                value = np.maximum(value, inner + values[before])
            values.append(value)
            longest = np.maximum(longest, value)
        return int((-(-(total + longest) // (NUM_MIXTURES * num_devices))).max())

    def body_ns(self, choices: Sequence[DegreeBounds]) -> int:
        """Head, body and tail of all devices together, plus serial synchronisation.

        Proof. Forward and backward tasks of a set of operators run between the earliest time at which one of them
        can start (the longest chain of forward tasks before it) and the latest at which one can end (the chain of
        backward tasks after it; none after updates). P devices need work / P in between.
        """
        num_devices = self.problem.topology.num_devices
        heads = self.chain_ns([int(choice.forward.min()) for choice in choices])
        tails = self.chain_ns([int(choice.backward.min()) for choice in choices])
        work = np.array([choice.work.min() for choice in choices], dtype=np.int64)
        updates = np.array([choice.updates.min() for choice in choices], dtype=np.int64)
        heads, work = np.concatenate([heads, heads]), np.concatenate([work, updates])
        tails = np.concatenate([tails, np.zeros_like(tails)])
        order = np.argsort(-tails, kind="stable")
        serial = sum(int(choice.serial.min()) for choice in choices)
        return serial + head_body_tail_ns(heads[order], work[order], tails[order], num_devices)

    def chain_ns(self, times: Sequence[int]) -> Ints:
        """For each operator, the longest chain that any of its tasks waits for."""
        values: list[int] = []
        before: list[int] = []
        for link in self._chains.links:
            before.append(max((values[number] for number in link.before), default=0))
            values.append(before[-1] + times[link.operator])
        return np.array([before[number] for number in self._chains.whole], dtype=np.int64)
