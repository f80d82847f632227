"""Mover: moves tagged arrays between parts as a task graph says, to see whether the right data ends up right."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sim.flows import needed_box, written_box
from sim.operator_graph import Box, Edge
from sim.problem import Problem
from sim.strategy import Strategy
from sim.task_graph import Key, Task, TaskGraph


def region(box: Box) -> tuple[slice, ...]:
    """A box as slices; an empty interval may end below 0, which means another thing to numpy."""
    return tuple(slice(low, max(low, high)) for low, high in box)


class Mover:
    """Moves tagged arrays between the parts as a task graph says.

    Attributes:
        parts: for each (edge, destination part), what arrived of the edge's tensor; 0 where nothing did.
        gradients: for each (operator, output, part), how many gradients arrived for each element that it wrote.
    """

    def __init__(self, problem: Problem, strategy: Strategy, task_graph: TaskGraph) -> None:
        self.graph, self.strategy, self.tasks = problem.graph, strategy, task_graph.tasks
        self.by_key: dict[Key, Task] = {task.key: task for task in self.tasks}
        self.incoming = {(edge.dst, edge.input): edge for edge in self.graph.edges}
        self.parts: dict[tuple[Edge, int], NDArray[np.int64]] = {}
        self.gradients: dict[tuple[int, int, int], NDArray[np.int64]] = {}
        for edge in self.graph.edges:
            for part in range(strategy[edge.dst].num_tasks):
                self.parts[edge, part] = np.zeros_like(self.tensor(edge))
            for part in range(strategy[edge.src].num_tasks):
                self.gradients.setdefault((edge.src, edge.output, part), np.zeros_like(self.tensor(edge)))

    def tensor(self, edge: Edge) -> NDArray[np.int64]:
        """The edge's tensor: every element has its own tag."""
        sizes = self.graph.operators[edge.src].outputs[edge.output].sizes
        return np.arange(1, 1 + int(np.prod(sizes)), dtype=np.int64).reshape(sizes)

    def written(self, edge: Edge, part: int) -> NDArray[np.int64]:
        """What a source part holds of the edge's tensor; 0 elsewhere."""
        operator, whole = self.graph.operators[edge.src], self.tensor(edge)
        box = region(written_box(operator, edge.output, self.strategy[edge.src].box(operator, part)))
        held = np.zeros_like(whole)
        held[box] = whole[box]
        return held

    def needed(self, edge: Edge, part: int) -> NDArray[np.int64]:
        """What a destination part needs of the edge's tensor; 0 elsewhere."""
        box = region(needed_box(self.graph, edge, self.strategy[edge.dst].box(self.graph.operators[edge.dst], part)))
        whole = self.tensor(edge)
        wanted = np.zeros_like(whole)
        wanted[box] = whole[box]
        return wanted

    def transfers(self, *, backward: bool) -> Iterable[tuple[Edge, Task]]:
        """All transfers of one direction, and the edge whose tensor they move."""
        num_operators = len(self.graph)
        for task in self.tasks:
            if task.kind == "transfer" and (task.key[0] >= 2 * num_operators) == backward:
                phase = 4 * num_operators - 1 - task.key[0] if backward else task.key[0]
                yield self.incoming[phase // 2, task.key[1]], task

    def completes(self, operator: int, *, backward: bool) -> dict[int, int]:
        """For each part of an operator, the task that completes it: its own, or the exchange behind it."""
        phase = 4 * len(self.graph) - 2 * operator - 2 if backward else 2 * operator + 1
        done = {}
        for part in range(self.strategy[operator].num_tasks):
            own = self.by_key[phase, 0, part, 0].id
            behind = [task.id for task in self.tasks if task.key[:2] == (phase, 1) and own in task.in_tasks]
            done[part] = behind[0] if behind else own
        return done

    def move_forward(self) -> None:
        """Tensors to the parts that wait for a transfer, or for a source part on their own device."""
        for edge, task in self.transfers(backward=False):
            assert task.flow is not None
            assert task.in_tasks == [self.completes(edge.src, backward=False)[task.flow.src_part]]
            held = self.written(edge, task.flow.src_part)
            for part, box in zip(task.flow.dst_parts, task.flow.boxes, strict=True):
                assert task.id in self.by_key[2 * edge.dst + 1, 0, part, 0].in_tasks
                self.parts[edge, part][region(box)] = held[region(box)]
        for edge, part in self.parts:
            waits_for = self.by_key[2 * edge.dst + 1, 0, part, 0].in_tasks
            here = self.strategy[edge.dst].devices[part]
            for src_part, done in self.completes(edge.src, backward=False).items():
                if done in waits_for and self.strategy[edge.src].devices[src_part] == here:
                    held = self.written(edge, src_part)
                    self.parts[edge, part] += np.where(self.needed(edge, part) > 0, held, 0)

    def move_backward(self) -> None:
        """The gradient of every element back to the part that wrote it."""
        for edge, task in self.transfers(backward=True):
            assert task.flow is not None
            done = self.completes(edge.dst, backward=True)
            assert set(task.in_tasks) == {done[part] for part in task.flow.dst_parts}
            assert task.id in self.waits_for(edge, task.flow.src_part)
            for box in task.flow.boxes:
                self.gradients[edge.src, edge.output, task.flow.src_part][region(box)] += 1
        for edge, part in self.parts:
            done_part = self.completes(edge.dst, backward=True)[part]
            for src_part, device in enumerate(self.strategy[edge.src].devices):
                if device == self.strategy[edge.dst].devices[part] and done_part in self.waits_for(edge, src_part):
                    both = (self.written(edge, src_part) > 0) & (self.needed(edge, part) > 0)
                    self.gradients[edge.src, edge.output, src_part] += both

    def waits_for(self, edge: Edge, src_part: int) -> list[int]:
        """What the backward task of a source part waits for."""
        return self.by_key[4 * len(self.graph) - 2 * edge.src - 2, 0, src_part, 0].in_tasks
