"""Activations: the tensors between operators that one rank holds during an iteration, and their gradients."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

import torch
from torch import Tensor

from runtime.boxes import region, sizes_of
from runtime.program import Program
from runtime.steps import TransferStep
from sim.flows import Flow, intersection, needed_box, volume, written_box
from sim.operator_graph import Box, Edge

PartKey = tuple[int, int]
"""Position of an operator, and a part of it."""


@dataclass(slots=True)
class OpenPart:
    """A part between its forward and its backward task.

    Attributes:
        inputs: leaves of the autograd graph, one for each of the operator's inputs.
        outputs: its roots; of a terminal operator, the share of the loss.
        gradients: for each output, what has arrived of its gradient.
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    gradients: list["Gradient"] = field(default_factory=list)


class Gradient:
    """The sum of gradients that arrive for boxes of a tensor.

    Args:
        box: of the tensor.
    """

    __slots__ = ("_pieces", "box")

    def __init__(self, box: Box) -> None:
        self.box = box
        self._pieces: list[tuple[Box, Tensor]] = []

    def add(self, box: Box, gradient: Tensor) -> None:
        """Add the gradient of one box; it is kept, but not modified."""
        self._pieces.append((box, gradient))

    def total(self) -> Tensor | None:
        """The sum of what has arrived; None if nothing has."""
        wholes = [gradient for box, gradient in self._pieces if box == self.box]
        if len(wholes) == len(self._pieces):
            return sum(wholes[1:], wholes[0]) if wholes else None
        boxes = [box for box, _ in self._pieces]
        is_cut = sum(map(volume, boxes)) == volume(self.box) and not any(
            volume(intersection(left, right)) for left, right in combinations(boxes, 2)
        )
        # Pieces that neither overlap nor leave gaps need no zeros to be added to.
        gradient = self._pieces[0][1]
        total = (gradient.new_empty if is_cut else gradient.new_zeros)(sizes_of(self.box))
        for box, gradient in self._pieces:
            target = region(total, self.box, box)
            if is_cut:
                target.copy_(gradient)
            else:
                target.add_(gradient)
        return total


class Activations:
    """What has arrived for the rank's parts, and what they have made, in both directions.

    A tensor is kept until its last reader has it: pieces until their part computes, gradients until the part or the
    message that they are for has been made, a part's outputs until its backward task.

    Args:
        program: of all ranks.
        rank: this one.
        device: where tensors are made.
        dtype: of them.
    """

    def __init__(self, program: Program, rank: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self.program, self.rank, self._device, self._dtype = program, rank, device, dtype
        graph, configs = program.graph, program.configs
        self._incoming: list[list[Edge]] = [[] for _ in graph.operators]
        # What stays on this rank: for each source part, where its boxes go.
        self._local: dict[PartKey, list[tuple[Edge, Flow]]] = {}
        self._local_to: dict[tuple[Edge, int], list[tuple[Flow, Box]]] = {}
        # For each destination part, how many messages its gradient is sent in.
        self._num_messages: dict[tuple[Edge, int], int] = {}
        self._needed: dict[tuple[Edge, int], Box] = {}
        self._written = {
            (position, part): [
                written_box(operator, output, config.box(operator, part)) for output in range(len(operator.outputs))
            ]
            for position, (operator, config) in enumerate(zip(graph.operators, configs, strict=True))
            for part, device_id in enumerate(config.devices)
            if device_id == rank
        }
        for edge, flows in program.flows.items():
            self._incoming[edge.dst].append(edge)
            for part, device_id in enumerate(configs[edge.dst].devices):
                if device_id == rank:
                    span = configs[edge.dst].box(graph.operators[edge.dst], part)
                    self._needed[edge, part] = needed_box(graph, edge, span)
            for flow in flows:
                self._add_flow(edge, flow)
        self._pieces: dict[tuple[Edge, int], list[tuple[Box, Tensor]]] = {}
        self._gradients: dict[tuple[Edge, int], Tensor] = {}
        self._num_unsent: dict[tuple[Edge, int], int] = {}
        self.open: dict[PartKey, OpenPart] = {}

    def _add_flow(self, edge: Edge, flow: Flow) -> None:
        if flow.dst_device != self.rank:
            return
        for part, box in zip(flow.dst_parts, flow.boxes, strict=True):
            if flow.src_device == self.rank:
                self._local_to.setdefault((edge, part), []).append((flow, box))
            else:
                self._num_messages[edge, part] = self._num_messages.get((edge, part), 0) + 1
        if flow.src_device == self.rank:
            self._local.setdefault((edge.src, flow.src_part), []).append((edge, flow))

    def clear(self) -> None:
        """Let go what is left at the end of an iteration: of the forward pass alone, what no backward task took."""
        assert not self._pieces, "something arrived that no part read"
        assert not self._gradients, "a gradient was not sent"
        assert not (self.open and self.program.training), "a part did not go backward"
        self.open.clear()

    def inputs(self, operator: int, part: int) -> tuple[Tensor, ...]:
        """What a part reads, as leaves that collect gradients; what had arrived for it is let go."""
        return tuple(self._assemble(edge, part) for edge in self._incoming[operator])

    def _assemble(self, edge: Edge, part: int) -> Tensor:
        needed, pieces = self._needed[edge, part], self._pieces.pop((edge, part), [])
        assert sum(volume(box) for box, _ in pieces) == volume(needed), "something has not arrived"
        if len(pieces) == 1 and pieces[0][0] == needed:
            whole = pieces[0][1].detach()
        else:
            whole = torch.empty(sizes_of(needed), dtype=self._dtype, device=self._device)
            for box, tensor in pieces:
                region(whole, needed, box).copy_(tensor)
        return whole.requires_grad_() if self.program.training else whole

    def finish_forward(self, operator: int, part: int, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
        """Keep what a part has made for its backward task, and hand it to its readers on this rank."""
        opened = OpenPart(inputs, outputs)
        self.open[operator, part] = opened
        if operator in self.program.terminals:
            return
        opened.gradients = [Gradient(box) for box in self._written[operator, part]]
        for edge, flow in self._local.get((operator, part), []):
            held = opened.gradients[edge.output].box
            output = outputs[edge.output].detach()
            for dst_part, box in zip(flow.dst_parts, flow.boxes, strict=True):
                self._pieces.setdefault((edge, dst_part), []).append((box, region(output, held, box)))

    def start_backward(self, operator: int, part: int) -> tuple[list[Tensor], list[Tensor | None]]:
        """Roots of a part's backward pass and their gradients; zeros if none arrived, so that its parts still meet."""
        opened = self.open[operator, part]
        if operator in self.program.terminals:
            return [root for root in opened.outputs if root.requires_grad], [None] * opened.outputs[0].requires_grad
        totals = [gradient.total() for gradient in opened.gradients]
        pairs = [
            (root, total)
            for root, total in zip(opened.outputs, totals, strict=True)
            if root.requires_grad and total is not None
        ]
        if not pairs and opened.outputs[0].requires_grad:
            pairs = [(opened.outputs[0], torch.zeros_like(opened.outputs[0]))]
        opened.gradients, opened.outputs = [], ()
        return [root for root, _ in pairs], [gradient for _, gradient in pairs]

    def finish_backward(self, operator: int, part: int) -> None:
        """Hand the gradients of a part's inputs to their makers on this rank, and keep those for messages."""
        opened = self.open.pop((operator, part))
        for edge, leaf in zip(self._incoming[operator], opened.inputs, strict=True):
            gradient = leaf.grad
            for flow, box in self._local_to.get((edge, part), []):
                if gradient is not None:
                    target = self.open[edge.src, flow.src_part].gradients[edge.output]
                    target.add(box, region(gradient, self._needed[edge, part], box))
            if (edge, part) in self._num_messages:
                self._gradients[edge, part] = gradient if gradient is not None else torch.zeros_like(leaf)
                self._num_unsent[edge, part] = self._num_messages[edge, part]

    def outgoing(self, step: TransferStep) -> Iterator[Tensor]:
        """The pieces of a transfer's message, on its sender."""
        edge, flow = step.edge, step.flow
        if not step.is_backward:
            held = self._written[edge.src, flow.src_part][edge.output]
            output = self.open[edge.src, flow.src_part].outputs[edge.output].detach()
            yield from (region(output, held, piece) for piece in step.pieces)
            return
        for piece in step.pieces:
            total = Gradient(piece)
            for part, box in zip(flow.dst_parts, flow.boxes, strict=True):
                common = intersection(piece, box)
                if volume(common):
                    total.add(common, region(self._gradients[edge, part], self._needed[edge, part], common))
            whole = total.total()
            assert whole is not None
            yield whole
        for part in flow.dst_parts:
            self._num_unsent[edge, part] -= 1
            if not self._num_unsent[edge, part]:
                del self._gradients[edge, part], self._num_unsent[edge, part]

    def arrive(self, step: TransferStep, message: Tensor) -> None:
        """Hand the pieces of a transfer's message to whom they are for, on its receiver."""
        edge, flow = step.edge, step.flow
        counts = [volume(piece) for piece in step.pieces]
        for piece, flat in zip(step.pieces, torch.split(message, counts), strict=True):
            tensor = flat.view(sizes_of(piece))
            if step.is_backward:
                self.open[edge.src, flow.src_part].gradients[edge.output].add(piece, tensor)
                continue
            for part, box in zip(flow.dst_parts, flow.boxes, strict=True):
                common = intersection(piece, box)
                if volume(common):
                    self._pieces.setdefault((edge, part), []).append((common, region(tensor, piece, common)))
