"""Rank: runs one rank's share of a program, iteration by iteration."""

import os
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.activations import Activations, PartKey
from runtime.data_needs import data_needs
from runtime.event_log import EventLog, ObservedTransport
from runtime.initial_state import DataSource, dropout_seed
from runtime.messages import Messages, packed, unpacked
from runtime.options import RunOptions
from runtime.part_function import run_parts
from runtime.parts.part import Part
from runtime.peak_memory import PeakMemory
from runtime.program import Program
from runtime.rank_exchanger import exchanger_of
from runtime.result import RankIteration, RankResult, Report, ShardKey
from runtime.steps import ComputeStep, MessageStep, ReduceStep, Step, TransferStep, UpdateStep
from runtime.transport import Transport
from runtime.weight_store import WeightStore
from sim.flows import weight_interval


class Rank:
    """One rank of a program: its weights, its data, and what it does in an iteration.

    Args:
        program: of all ranks.
        transport: to the others.
        data: what operators without producers read, and labels.
        options: of the run.
        device: of this rank.
    """

    def __init__(
        self, program: Program, *, transport: Transport, data: DataSource, options: RunOptions, device: torch.device
    ) -> None:
        self._program, self._options, self._data, self._device = program, options, data, device
        self._memory = PeakMemory(device)
        self._log = EventLog(device=device, is_timed=options.is_timed)
        self._transport = ObservedTransport(transport, self._log)
        # A single holder has nothing to reduce, and a single rank no threads that move messages.
        self._steps = [s for s in program.steps_of(transport.rank) if not isinstance(s, ReduceStep) or len(s.ranks) > 1]
        self._is_yielding = program.num_ranks > 1
        self._weights = WeightStore(program, transport.rank, seed=options.seed, device=device, dtype=options.dtype)
        self._activations = Activations(program, transport.rank, device=device, dtype=options.dtype)
        self._messages = Messages(
            program,
            transport=self._transport,
            log=self._log,
            device=device,
            dtype=options.dtype,
            receive_ahead=0 if transport.is_ordered else options.receive_ahead,
        )
        computes = [step for step in self._steps if isinstance(step, ComputeStep)]
        self._exchangers = {step.number: exchanger_of(step, self._transport) for step in computes}
        self._mine = {
            step.number: [p for p, device in zip(step.parts, step.devices, strict=True) if device == transport.rank]
            for step in computes
        }
        self._parts: dict[PartKey, Part] = {}
        self._arriving = _arriving(program, transport.rank)
        # Steps that bring gradients of each shard, and those that bring updated weights, not waited for yet.
        self._reducing: dict[ShardKey, list[int]] = {}
        self._pulled: list[MessageStep] = []
        self._losses: list[Tensor] = []
        self._gradients: dict[ShardKey, list[Tensor]] = {}

    def run(self, report: Report | None = None) -> RankResult:
        """All iterations.

        Args:
            report: called after each, with this rank's share of the loss and its own time.
        """
        iterations: list[RankIteration] = []
        for number in range(self._options.num_iterations):
            iterations.append(self._iterate(number))
            if report is not None:
                report(number, iterations[-1].loss, iterations[-1].wall_ns / 1e6)
        rank = self._transport.rank
        weights: dict[ShardKey, list[Tensor]] = {}
        if self._options.is_collecting:
            for group, shards in enumerate(self._program.shards):
                held = [number for number, shard in enumerate(shards) if rank in shard.holders]
                weights |= {(group, number): self._weights.weights(group, number) for number in held}
        return RankResult(
            rank,
            tuple(iterations),
            dict(self._transport.sent_bytes),
            dict(self._transport.exchanged_bytes),
            dict(self._transport.reduced_bytes),
            self._memory.bytes,
            {key: _arrays(tensors) for key, tensors in weights.items()},
            {key: _arrays(tensors) for key, tensors in self._gradients.items()},
        )

    def _iterate(self, iteration: int) -> RankIteration:
        if not iteration or not self._data.is_constant:
            self._load(iteration)
        self._losses.clear()
        self._transport.restart()
        self._transport.barrier()
        self._log.restart()
        for step in self._steps:
            self._log.step = step.number
            if self._is_yielding:
                os.sched_yield()  # to the threads that move messages, see background_threads
            self._messages.post_before(step)
            self._run(step, iteration)
        for pull in self._pulled:
            self._overwrite(pull)
        self._pulled.clear()
        self._messages.finish()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        wall_ns = self._log.now_ns
        self._weights.clear_gradients()
        self._activations.clear()
        loss = sum(share.item() for share in self._losses)
        return RankIteration(loss, self._log.origin_ns, wall_ns, tuple(self._log.events))

    def _load(self, iteration: int) -> None:
        """The data of an iteration, and the parts that read them, without their inputs."""
        graph, rank, options = self._program.graph, self._transport.rank, self._options
        for position, (operator, config) in enumerate(zip(graph.operators, self._program.configs, strict=True)):
            is_terminal = position in self._program.terminals
            needs = data_needs(operator, is_terminal=is_terminal)
            for number in (part for part, device in enumerate(config.devices) if device == rank):
                span = config.box(operator, number)
                weights: tuple[Tensor, ...] = ()
                if operator.weight is not None:
                    weights = self._weights.leaf(operator.weight.group, weight_interval(operator, config, number))
                boxes = (self._data.box(operator, need, need.box(span), iteration) for need in needs)
                data = tuple(
                    box.to(self._device, options.dtype if box.is_floating_point() else torch.int64) for box in boxes
                )
                self._parts[position, number] = Part(operator, span, (), data, weights, is_terminal)

    def _run(self, step: Step, iteration: int) -> None:
        match step:
            case ComputeStep(is_backward=False):
                self._forward(step, iteration)
            case ComputeStep():
                self._backward(step)
            case TransferStep():
                if step.ranks[0] == self._transport.rank:
                    self._messages.send(step, self._activations.outgoing(step))
            case ReduceStep():
                self._reduce(step)
            case MessageStep():
                self._pass_on(step)
            case UpdateStep():
                self._update(step)

    def _forward(self, step: ComputeStep, iteration: int) -> None:
        mine = self._mine[step.number]
        self._await(step, mine)
        with self._log.timed("compute"):
            seed = dropout_seed(self._options.seed, iteration)
            parts = [
                replace(
                    self._parts[step.operator, part], inputs=self._activations.inputs(step.operator, part), seed=seed
                )
                for part in mine
            ]
            with torch.set_grad_enabled(self._program.training):
                results = run_parts(parts, self._exchangers[step.number])
            for number, part, outputs in zip(mine, parts, results, strict=True):
                self._activations.finish_forward(step.operator, number, part.inputs, outputs)
                if part.is_terminal:
                    self._losses.append(outputs[0].detach())

    def _backward(self, step: ComputeStep) -> None:
        mine = self._mine[step.number]
        self._await(step, mine)
        with self._log.timed("compute"):
            roots, gradients = [], []
            for part in mine:
                of_part = self._activations.start_backward(step.operator, part)
                roots += of_part[0]
                gradients += of_part[1]
            if roots:
                # One pass over all parts: where they meet other ranks, they do so once, in the mirrored order.
                torch.autograd.backward(roots, gradients)
            for part in mine:
                self._activations.finish_backward(step.operator, part)

    def _await(self, step: ComputeStep, parts: list[int]) -> None:
        """Take the messages that parts need; one that several parts need is taken by the first of them."""
        for part in parts:
            for message in self._arriving.get((step.operator, part, step.is_backward), ()):
                if self._messages.is_awaited(message.number):
                    self._activations.arrive(message, self._messages.take(message.number))

    def _reduce(self, step: ReduceStep) -> None:
        self._messages.start_all_reduce(step, self._weights.gradients(step.group, step.shard))
        self._reducing[step.group, step.shard] = [step.number]

    def _pass_on(self, step: MessageStep) -> None:
        """Push a gradient to a parameter server, or pull the updated weights from it."""
        is_sender = step.ranks[0] == self._transport.rank
        if step.what == "push" and not is_sender:
            self._reducing.setdefault((step.group, step.shard), []).append(step.number)
        elif step.what == "pull" and not is_sender:
            self._pulled.append(step)
        else:
            read = self._weights.gradients if step.what == "push" else self._weights.weights
            self._messages.send(step, read(step.group, step.shard))

    def _update(self, step: UpdateStep) -> None:
        for shard in step.shards:
            key = step.group, shard
            weights = self._weights.weights(*key)
            numbers = self._reducing.pop(key, [])
            is_reduced = bool(numbers) and isinstance(self._program.steps[numbers[0]], ReduceStep)
            gradients = self._messages.take_sums(numbers[0]) if is_reduced else self._weights.gradients(*key)
            arrived = [] if is_reduced else [self._messages.take(number) for number in numbers]
            with self._log.timed("update"):
                if arrived:
                    gradients = unpacked(sum(arrived, packed(gradients)), weights)
                for weight, gradient in zip(weights, gradients, strict=True):
                    weight.add_(gradient, alpha=-self._options.learning_rate)
            if self._options.is_collecting:
                self._gradients[key] = [gradient.clone() for gradient in gradients]

    def _overwrite(self, pull: MessageStep) -> None:
        weights = self._weights.weights(pull.group, pull.shard)
        for weight, update in zip(weights, unpacked(self._messages.take(pull.number), weights), strict=True):
            weight.copy_(update)


def _arriving(program: Program, rank: int) -> dict[tuple[int, int, bool], list[TransferStep]]:
    """The transfers to a rank, for each operator, part and direction that needs them."""
    arriving: dict[tuple[int, int, bool], list[TransferStep]] = {}
    for step in program.steps:
        if isinstance(step, TransferStep) and step.ranks[1] == rank:
            parts = (step.flow.src_part,) if step.is_backward else step.flow.dst_parts
            operator = step.edge.src if step.is_backward else step.edge.dst
            for part in parts:
                arriving.setdefault((operator, part, step.is_backward), []).append(step)
    return arriving


def _arrays(tensors: list[Tensor]) -> list[NDArray[np.float64]]:
    return [tensor.detach().cpu().double().numpy() for tensor in tensors]
