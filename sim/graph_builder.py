"""GraphBuilder: writes an OperatorGraph operator by operator, with the SOAP dimensions of each kind."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sim.operator_graph import WHOLE, Dimension, Exchange, Output, Weight, Window
from sim.operator_writer import (
    IMAGE,
    SEQUENCE,
    VECTOR,
    OperatorWriter,
    Read,
    Source,
    Tensor,
    axes_of,
    dimensions,
    same_windows,
    sizes_of,
)

Pair: TypeAlias = int | tuple[int, int]
"""Along height and width; one number for both."""


@dataclass(frozen=True, slots=True)
class LstmTensors:
    """What an LSTM produces: h of every step, and h and c after the last one."""

    sequence: Tensor
    hidden: Tensor
    cell: Tensor


class GraphBuilder(OperatorWriter):
    """Writes an operator graph in topological order.

    Every method appends an operator called ``name``, whose inputs are ``source`` (data, if it is a tuple of
    sizes: there is no input operator), and returns its output. Images are (sample, channel, height, width),
    sequences (sample, step, channel). All parameters of one operator form one weight; operators of equal
    ``group`` share theirs.

    Args:
        name: of the graph.
        fused: batch norm and ReLU are part of the operator that they follow; else operators of their own,
            called ``<name>_norm`` and ``<name>_relu``.
    """

    def __init__(self, name: str, *, fused: bool = True) -> None:
        super().__init__(name)
        self.fused = fused

    def conv2d(
        self,
        name: str,
        source: Source,
        channels: int,
        kernel: Pair,
        *,
        stride: int = 1,
        pad: Pair = 0,
        bias: bool = True,
        batch_norm: bool = False,
        relu: bool = False,
    ) -> Tensor:
        """A convolution, cut along samples, output channels (its weights) and the image."""
        image, windows, attributes = self._slide(name, source, kernel, stride, pad)
        samples, in_channels, height, width = image
        (kernel_height, kernel_width), fused = _pair(kernel), self.fused
        elements = in_channels * kernel_height * kernel_width + bias + 2 * (batch_norm and fused)
        output = self.append(
            name,
            "conv2d",
            dimensions(IMAGE, (samples, channels, height, width), "SPAA"),
            [(source, (windows[0], Window(WHOLE), *windows[2:]))],
            weight=Weight(name, 1, elements),
            exchange=_NORM_EXCHANGE if batch_norm and fused else None,
            attributes={"bias": bias, "batch_norm": batch_norm and fused, "relu": relu and fused, **attributes},
        )
        if batch_norm and not fused:
            output = self.batch_norm(f"{name}_norm", output)
        return self.relu(f"{name}_relu", output) if relu and not fused else output

    def pool2d(
        self, name: str, source: Source, kernel: Pair, *, stride: int = 1, pad: Pair = 0, average: bool = False
    ) -> Tensor:
        """Maximum or average pooling; channels are attributes here."""
        sizes, windows, attributes = self._slide(name, source, kernel, stride, pad)
        dims = dimensions(IMAGE, sizes, "SAAA")
        return self.append(name, "pool2d", dims, [(source, windows)], attributes={"average": average, **attributes})

    def global_pool2d(self, name: str, source: Source) -> Tensor:
        """The mean of each channel's whole image."""
        _, _, height, width = self.image_sizes(name, source)
        return self.pool2d(name, source, (height, width), average=True)

    def flat(self, name: str, source: Source) -> Tensor:
        """An image as a vector; feature f comes from channel f // (height * width)."""
        samples, channels, height, width = self.image_sizes(name, source)
        dims = dimensions(VECTOR, (samples, channels * height * width), "SA")
        windows = (Window(0), Window(1, divisor=height * width), Window(WHOLE), Window(WHOLE))
        return self.append(name, "flat", dims, [(source, windows)])

    def linear(
        self,
        name: str,
        source: Source,
        channels: int,
        *,
        bias: bool = True,
        relu: bool = False,
        group: str | None = None,
    ) -> Tensor:
        """A matrix product with all features of a vector, an image or each step of a sequence."""
        output = self._dense(name, "linear", source, channels, bias=bias, relu=relu and self.fused, group=group)
        return self.relu(f"{name}_relu", output) if relu and not self.fused else output

    def softmax(
        self, name: str, source: Source, vocabulary: int, *, bias: bool = True, group: str | None = None
    ) -> Tensor:
        """A linear layer, its softmax and the cross-entropy: where the model ends.

        Parts along the vocabulary tell each other maximum and sum forward, the same volume backward.
        """
        return self._dense(name, "softmax", source, vocabulary, bias=bias, relu=False, group=group)

    def concat(self, name: str, sources: Sequence[Source]) -> Tensor:
        """Tensors side by side along their channels."""
        self.require(name, bool(sources), "it concatenates nothing")
        names, sizes = axes_of(sources[0]), list(sizes_of(sources[0]))
        axis = 1 if "step" not in names else len(names) - 1
        sizes[axis] = 0
        reads: list[Read] = []
        for source in sources:
            others = [size for i, size in enumerate(sizes_of(source)) if i != axis]
            expected = [size for i, size in enumerate(sizes) if i != axis]
            self.require(name, others == expected, f"it concatenates sizes {sizes_of(source)} and {tuple(sizes)}")
            pads = [sizes[axis] if i == axis else 0 for i in range(len(sizes))]
            reads.append((source, tuple(Window(i, pad=pad) for i, pad in enumerate(pads))))
            sizes[axis] += sizes_of(source)[axis]
        return self.append(name, "concat", _elementwise_dims(names, tuple(sizes)), reads, attributes={"axis": axis})

    def add(self, name: str, left: Source, right: Source, *, relu: bool = False) -> Tensor:
        """The sum of two tensors of equal sizes."""
        self.require(name, sizes_of(left) == sizes_of(right), f"it adds sizes {sizes_of(left)} and {sizes_of(right)}")
        output = self._elementwise(name, "add", left, right, attributes={"relu": relu and self.fused})
        return self.relu(f"{name}_relu", output) if relu and not self.fused else output

    def relu(self, name: str, source: Source) -> Tensor:
        """max(0, x)."""
        return self._elementwise(name, "relu", source, attributes={"relu": True})

    def dropout(self, name: str, source: Source, *, rate_percent: int = 50) -> Tensor:
        """Zeroes elements at random."""
        self.require(name, 0 <= rate_percent < 100, f"rate_percent = {rate_percent} must be in 0..99")
        return self._elementwise(name, "dropout", source, attributes={"rate_percent": rate_percent})

    def batch_norm(self, name: str, source: Source) -> Tensor:
        """Normalization of each channel over samples and image; parts exchange two statistics per channel."""
        sizes = self.image_sizes(name, source)
        return self.append(
            name,
            "batch_norm",
            dimensions(IMAGE, sizes, "SPAA"),
            [(source, same_windows(4))],
            weight=Weight(name, 1, 2),
            exchange=_NORM_EXCHANGE,
            attributes={"batch_norm": True},
        )

    def layer_norm(self, name: str, source: Source) -> Tensor:
        """Normalization over the channels of each step; parts along the channels exchange two statistics."""
        names, sizes = axes_of(source), sizes_of(source)
        self.require(name, len(names) <= len(SEQUENCE), f"it needs a vector or a sequence, not axes {names}")
        last = len(sizes) - 1
        return self.append(
            name,
            "layer_norm",
            dimensions(names, sizes, "S-P" if last > 1 else "SP"),
            [(source, same_windows(len(sizes)))],
            weight=Weight(name, last, 2),
            exchange=Exchange("all_reduce", across=(last,), over=tuple(range(last)), factor=2),
        )

    def embedding(
        self, name: str, sizes: tuple[int, int], vocabulary: int, channels: int, *, group: str | None = None
    ) -> Tensor:
        """A table of word vectors, cut along its columns; ``sizes`` of the words are (sample, step)."""
        self.require_positive(name, vocabulary=vocabulary)
        return self.append(
            name,
            "embedding",
            dimensions(SEQUENCE, (*sizes, channels), "S-P"),
            [],
            weight=Weight(group or name, 2, vocabulary),
            attributes={"vocabulary": vocabulary},
        )

    def lstm(
        self,
        name: str,
        source: Source,
        hidden: int,
        *,
        state: LstmTensors | None = None,
        bias: bool = True,
        state_rows: int = 1,
        group: str | None = None,
    ) -> LstmTensors:
        """An LSTM layer over the steps of ``source``.

        Split along hidden units, parts gather each other's h after every step but the last.

        Args:
            name: of the operator.
            source: a sequence.
            hidden: units.
            state: where its first h and c come from; zeros by default.
            bias: cuDNN's two vectors of 4 * hidden.
            state_rows: steps that the h and c handed over are counted as; true is 1.
            group: of its weights.
        """
        samples, steps, features = self.sequence_sizes(name, source)
        self.require_positive(name, state_rows=state_rows)
        dims = dimensions(("sample", "step", "hidden"), (samples, steps, hidden), "S-P")
        reads: list[Read] = [(source, (Window(0), Window(1), Window(WHOLE)))]
        if state is not None:
            found, expected = state.cell.sizes[::2], (samples, hidden)
            self.require(name, found == expected, f"its state has (sample, hidden) = {found}, not {expected}")
            # The product with the state needs all of h, the cell its own part of c.
            reads.append((state.hidden, (Window(0), Window(WHOLE), Window(WHOLE))))
            reads.append((state.cell, (Window(0), Window(WHOLE), Window(2))))
        last = (samples, state_rows, hidden)
        outputs = (
            Output("sequence", (samples, steps, hidden), (0, 1, 2)),
            Output("hidden", last, (0, WHOLE, 2)),
            Output("cell", last, (0, WHOLE, 2)),
        )
        sequence = self.append(
            name,
            "lstm",
            dims,
            reads,
            outputs=outputs,
            weight=Weight(group or name, 2, 4 * (features + hidden) + 8 * bias),
            exchange=Exchange("all_gather", (2,), over=(0, 2), factor=1, rounds=steps - 1) if steps > 1 else None,
            attributes={"bias": bias, "features": features},
        )
        return LstmTensors(sequence, Tensor(name, 1, SEQUENCE, last), Tensor(name, 2, SEQUENCE, last))

    def attention(
        self, name: str, query: Source, heads: int, *, memory: Source | None = None, bias: bool = True
    ) -> Tensor:
        """Multi-head attention without its output projection: (sample, step, head, head_size).

        Heads are a parameter dimension, with their own query, key and value matrices. A ``linear`` reads
        the result whole and projects it. ``memory`` is attended to; by default the query itself.
        """
        samples, steps, features = self.sequence_sizes(name, query)
        memory_sizes = self.sequence_sizes(name, query if memory is None else memory)
        self.require_positive(name, heads=heads)
        self.require(name, features % heads == 0, f"{heads} heads do not divide {features} features")
        self.require(name, memory_sizes[0] == samples, f"{memory_sizes[0]} samples of memory are not {samples}")
        size = features // heads
        attended = (Window(0), Window(WHOLE), Window(WHOLE))
        own = attended if memory is None else (Window(0), Window(1), Window(WHOLE))
        return self.append(
            name,
            "attention",
            dimensions(("sample", "step", "head", "head_size"), (samples, steps, heads, size), "S-P-"),
            [(query, own)] if memory is None else [(query, own), (memory, attended)],
            weight=Weight(name, 2, size * (features + 2 * memory_sizes[2] + 3 * bias)),
            attributes={
                "bias": bias,
                "features": features,
                "memory_features": memory_sizes[2],
                "memory_steps": memory_sizes[1],
            },
        )

    def luong_attention(
        self, name: str, query: Source, memories: Sequence[Source], *, bias: bool = True, group: str | None = None
    ) -> Tensor:
        """Luong's global attention, dot score: tanh(W [context; query]) as wide as the query.

        ``memories`` are the groups of source steps, one after another. Every part needs them whole.
        """
        samples, steps, features = self.sequence_sizes(name, query)
        expected, memory_steps = (samples, features), 0
        self.require(name, bool(memories), "it needs at least one memory")
        for memory in memories:
            sizes = self.sequence_sizes(name, memory)
            self.require(name, sizes[::2] == expected, f"memory of {sizes[::2]} is not {expected}")
            memory_steps += sizes[1]
        whole = (Window(0), Window(WHOLE), Window(WHOLE))
        return self.append(
            name,
            "luong_attention",
            dimensions(SEQUENCE, (samples, steps, features), "S-P"),
            [(query, (Window(0), Window(1), Window(WHOLE))), *((memory, whole) for memory in memories)],
            weight=Weight(group or name, 2, 2 * features + bias),
            attributes={"bias": bias, "features": features, "memory_steps": memory_steps},
        )

    def unrolled_embedding(
        self, name: str, samples: int, steps: int, vocabulary: int, channels: int, *, steps_per_op: int
    ) -> list[Tensor]:
        """An embedding of ``steps`` words as operators of ``steps_per_op`` each that share the table."""
        self.require_positive(name, steps=steps, steps_per_op=steps_per_op)
        self.require(name, steps % steps_per_op == 0, f"{steps} steps cannot be unrolled {steps_per_op} at a time")
        sizes = (samples, steps_per_op)
        return [
            self.embedding(f"{name}_{i}", sizes, vocabulary, channels, group=name) for i in range(steps // steps_per_op)
        ]

    def unrolled_lstm(
        self,
        name: str,
        sources: Sequence[Source],
        hidden: int,
        *,
        state: LstmTensors | None = None,
        bias: bool = True,
        state_rows: int = 1,
    ) -> list[LstmTensors]:
        """An LSTM layer as one operator for each of ``sources``, which share weights and hand h and c on."""
        layer: list[LstmTensors] = []
        for i, source in enumerate(sources):
            state = self.lstm(f"{name}_{i}", source, hidden, state=state, bias=bias, state_rows=state_rows, group=name)
            layer.append(state)
        return layer

    def _dense(
        self, name: str, kind: str, source: Source, units: int, *, bias: bool, relu: bool, group: str | None
    ) -> Tensor:
        names, sizes = axes_of(source), sizes_of(source)
        lead = 2 if "step" in names else 1
        features = math.prod(sizes[lead:])
        dim = "vocabulary" if kind == "softmax" else "channel"
        windows = (*same_windows(lead), *(Window(WHOLE),) * (len(sizes) - lead))
        return self.append(
            name,
            kind,
            dimensions((*names[:lead], dim), (*sizes[:lead], units), "S-P" if lead > 1 else "SP"),
            [(source, windows)],
            weight=Weight(group or name, lead, features + bias),
            exchange=Exchange("all_reduce", (lead,), over=tuple(range(lead)), factor=2) if kind == "softmax" else None,
            attributes={"bias": bias, "features": features, "relu": relu},
        )

    def _elementwise(self, name: str, kind: str, *sources: Source, attributes: Mapping[str, int]) -> Tensor:
        names, sizes = axes_of(sources[0]), sizes_of(sources[0])
        reads = [(source, same_windows(len(sizes))) for source in sources]
        return self.append(name, kind, _elementwise_dims(names, sizes), reads, attributes=attributes)

    def _slide(
        self, name: str, source: Source, kernel: Pair, stride: int, pad: Pair
    ) -> tuple[tuple[int, ...], tuple[Window, ...], dict[str, int]]:
        """Output sizes, windows and attributes of what slides over an image, channels kept."""
        samples, channels, *image = self.image_sizes(name, source)
        kernels, pads = _pair(kernel), _pair(pad)
        self.require_positive(name, stride=stride, kernel=min(kernels))
        fits = all(0 <= p < k for p, k in zip(pads, kernels, strict=True))
        self.require(name, fits, f"pad = {pad} must be at least 0 and less than the kernel {kernel}")
        self.require(
            name,
            all(size + 2 * p >= k for size, k, p in zip(image, kernels, pads, strict=True)),
            f"an image of {image[0]} x {image[1]} is too small for a kernel of {kernels[0]} x {kernels[1]}",
        )
        sizes = tuple((size + 2 * p - k) // stride + 1 for size, k, p in zip(image, kernels, pads, strict=True))
        windows = tuple(Window(2 + i, stride=stride, pad=pads[i], kernel=kernels[i]) for i in range(2))
        attributes = {"in_channels": channels, "stride": stride}
        for axis, size, k, p in zip(("height", "width"), image, kernels, pads, strict=True):
            attributes |= {f"in_{axis}": size, f"kernel_{axis}": k, f"pad_{axis}": p}
        return (samples, channels, *sizes), (Window(0), Window(1), *windows), attributes


_NORM_EXCHANGE = Exchange("all_reduce", across=(0, 2, 3), over=(1,), factor=2)
"""Sum and sum of squares of each channel (backward: of the gradients), over samples and image."""


def _pair(value: Pair) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


def _elementwise_dims(names: tuple[str, ...], sizes: tuple[int, ...]) -> tuple[Dimension, ...]:
    """Samples are samples, everything else an attribute; steps are not divisible."""
    labels = "".join({"sample": "S", "step": "-"}.get(name, "A") for name in names)
    return dimensions(names, sizes, labels)
