"""The arithmetic of each operator kind: which kernels one part runs, forward and backward, and what it keeps.

The kernels are those of cuDNN and cuBLAS as frameworks of the FlexFlow paper's time called them: one for each
convolution, bias, norm and activation, recurrent matrix products step by step. Work depends on sizes only (A1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from sim.errors import UnknownNameError
from sim.operator_graph import BYTES_PER_ELEMENT, Operator, OperatorGraph

PartSizes = tuple[int, ...]

WINOGRAD_3X3 = 2.0
"""Direct FLOP of a 3x3 convolution of stride 1 for each one executed, in cuDNN's practice.

For all three products: VGG16 trains at 135 % of a P100's direct-FLOP peak, so the weight gradient gains as well.
"""

WINOGRAD_5X5 = 1.5
"""The same for 5x5."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, or several equal ones one after another.

    Attributes:
        name: what it computes.
        flop: floating-point operations of the direct algorithm; 0 where memory traffic alone counts.
        gemm: rows, columns and inner extent of its matrix product, if it is one.
        bytes: traffic to the device's memory.
        algorithm: direct FLOP for each FLOP executed (Winograd).
        launches: kernel launches.
        repeats: how many times all of the above happen, one after another (recurrent steps).
    """

    name: str
    flop: int
    gemm: tuple[int, int, int] | None
    bytes: int
    algorithm: float = 1.0
    launches: int = 1
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class Work:
    """What one part of an operator does.

    Attributes:
        forward: its kernels, in order.
        backward: those of the gradients of its inputs (none for the data) and weights, in order.
        saved_bytes: kept from forward for backward, the part's outputs included, its inputs not.
    """

    forward: tuple[Kernel, ...]
    backward: tuple[Kernel, ...]
    saved_bytes: int


def work(operator: Operator, part_sizes: PartSizes) -> Work:
    """The work of one part.

    Args:
        operator: what is computed.
        part_sizes: extent of each of the operator's dimensions in the part.

    Raises:
        UnknownNameError: the operator's kind has no arithmetic here.
    """
    if operator.kind not in _WORK:
        raise UnknownNameError("operator kind", operator.kind, list(_WORK))
    return _WORK[operator.kind](operator, part_sizes)


def saved_bytes(operator: Operator, part_sizes: PartSizes) -> int:
    """What one part keeps for backward; its output, if the kind has no arithmetic here (times from a table)."""
    if operator.kind not in _WORK:
        return math.prod(part_sizes) * BYTES_PER_ELEMENT
    return work(operator, part_sizes).saved_bytes


def num_macs(graph: OperatorGraph) -> int:
    """Multiply-accumulates of all matrix products and convolutions, forward, for one sample."""
    return sum(
        math.prod(kernel.gemm) * kernel.repeats // operator.sizes[0]
        for operator in graph.operators
        for kernel in work(operator, operator.sizes).forward
        if kernel.gemm is not None
    )


def _gemm(
    name: str, m: int, n: int, k: int, *, elements: int | None = None, algorithm: float = 1.0, repeats: int = 1
) -> Kernel:
    """A matrix product (m x k) (k x n); ``elements`` overrides what it reads and writes."""
    moved = m * k + k * n + m * n if elements is None else elements
    return Kernel(name, 2 * m * n * k, (m, n, k), BYTES_PER_ELEMENT * moved, algorithm, repeats=repeats)


def _gradients(name: str, m: int, n: int, k: int, *, has_input: bool) -> tuple[Kernel, ...]:
    """The two products of a matrix product's backward; without that of the input if it is data."""
    input_gradient = (_gemm(f"{name} dX", m, k, n),) if has_input else ()
    return (*input_gradient, _gemm(f"{name} dW", k, n, m))


def _sweep(name: str, elements: int, *, launches: int = 1, repeats: int = 1) -> Kernel:
    """A kernel bound by memory: ``elements`` read or written; its arithmetic hides behind that."""
    return Kernel(name, 0, None, BYTES_PER_ELEMENT * elements, launches=launches, repeats=repeats)


def _epilogue(operator: Operator, elements: int) -> Work:
    """Bias, batch norm and ReLU, as the operator's attributes ask for them, on an output of ``elements``.

    Saved are only the extra copies: batch norm keeps its input, ReLU works in place.
    """
    forward: list[Kernel] = []
    backward: list[Kernel] = []
    saved = 0
    if operator.attribute("bias"):
        forward.append(_sweep("bias", 2 * elements))
        backward.append(_sweep("bias gradient", elements))
    if operator.attribute("batch_norm"):
        forward.append(_sweep("batch norm", 3 * elements))
        backward.append(_sweep("batch norm gradient", 5 * elements))
        saved = elements
    if operator.attribute("relu"):
        forward.append(_sweep("relu", 2 * elements))
        backward.append(_sweep("relu gradient", 3 * elements))
    return Work(tuple(forward), tuple(reversed(backward)), saved * BYTES_PER_ELEMENT)


def _finish(operator: Operator, part: PartSizes, forward: tuple[Kernel, ...], backward: tuple[Kernel, ...]) -> Work:
    """The work of an operator that keeps its output, with its epilogue."""
    elements = math.prod(part)
    tail = _epilogue(operator, elements)
    saved = elements * BYTES_PER_ELEMENT + tail.saved_bytes
    return Work((*forward, *tail.forward), (*tail.backward, *backward), saved)


def _image_elements(operator: Operator, part: PartSizes, channels: int) -> int:
    """Elements of the input image that a part of a convolution or pooling reads, padding left out."""
    total = part[0] * channels
    for axis, extent in zip(("height", "width"), part[2:], strict=True):
        reach = (extent - 1) * operator.attribute("stride") + operator.attribute(f"kernel_{axis}")
        total *= min(reach, operator.attribute(f"in_{axis}"))
    return total


def _conv2d(operator: Operator, part: PartSizes) -> Work:
    samples, channels, height, width = part
    in_channels = operator.attribute("in_channels")
    kernel = (operator.attribute("kernel_height"), operator.attribute("kernel_width"))
    m, n, k = samples * height * width, channels, in_channels * kernel[0] * kernel[1]
    elements = _image_elements(operator, part, in_channels) + n * k + m * n
    fast = {(3, 3): WINOGRAD_3X3, (5, 5): WINOGRAD_5X5} if operator.attribute("stride") == 1 else {}
    algorithm = fast.get(kernel, 1.0)
    forward = _gemm("conv", m, n, k, elements=elements, algorithm=algorithm)
    backward = [_gemm("conv dW", k, n, m, elements=elements, algorithm=algorithm)]
    if operator.inputs:
        backward.append(_gemm("conv dX", m, k, n, elements=elements, algorithm=algorithm))
    return _finish(operator, part, (forward,), tuple(backward))


def _pool2d(operator: Operator, part: PartSizes) -> Work:
    read, written = _image_elements(operator, part, part[1]), math.prod(part)
    backward = (_sweep("pool gradient", 2 * (read + written)),) if operator.inputs else ()
    return _finish(operator, part, (_sweep("pool", read + written),), backward)


def _linear(operator: Operator, part: PartSizes) -> Work:
    m, n, k = math.prod(part[:-1]), part[-1], operator.attribute("features")
    backward = _gradients("linear", m, n, k, has_input=bool(operator.inputs))
    return _finish(operator, part, (_gemm("linear", m, n, k),), backward)


def _softmax(operator: Operator, part: PartSizes) -> Work:
    elements = math.prod(part)
    linear = _linear(operator, part)
    # Two readings (maximum, sum of exponentials) and one writing; the cross-entropy's gradient is p - y.
    forward = (*linear.forward, _sweep("softmax", 3 * elements))
    return Work(forward, (_sweep("cross-entropy gradient", 2 * elements), *linear.backward), linear.saved_bytes)


def _flat(operator: Operator, part: PartSizes) -> Work:
    return Work((), (), 0)  # a view of its input


def _concat(operator: Operator, part: PartSizes) -> Work:
    copy = _sweep("concat", 2 * math.prod(part), launches=len(operator.inputs))
    return _finish(operator, part, (copy,), (copy,) if operator.inputs else ())


def _add(operator: Operator, part: PartSizes) -> Work:
    # Its own gradient costs nothing; where the two branches fork, their gradients are added up likewise.
    add = _sweep("add", 3 * math.prod(part))
    return _finish(operator, part, (add,), (add,) if operator.inputs else ())


def _dropout(operator: Operator, part: PartSizes) -> Work:
    elements = math.prod(part)
    backward = (_sweep("dropout gradient", 2 * elements),) if operator.inputs else ()
    mask_bytes = elements
    return Work((_sweep("dropout", 2 * elements),), backward, elements * BYTES_PER_ELEMENT + mask_bytes)


def _layer_norm(operator: Operator, part: PartSizes) -> Work:
    elements = math.prod(part)
    forward, backward = _sweep("layer norm", 3 * elements), _sweep("layer norm gradient", 5 * elements)
    return _finish(operator, part, (forward,), (backward,))


def _only_epilogue(operator: Operator, part: PartSizes) -> Work:
    """Batch norm or ReLU as an operator of its own; the input of the norm is saved by its producer."""
    tail = _epilogue(operator, math.prod(part))
    return Work(tail.forward, tail.backward, math.prod(part) * BYTES_PER_ELEMENT)


def _embedding(operator: Operator, part: PartSizes) -> Work:
    elements = math.prod(part)
    # The gradient is read and added to rows of the table's.
    return _finish(operator, part, (_sweep("gather", 2 * elements),), (_sweep("scatter", 3 * elements),))


def _lstm(operator: Operator, part: PartSizes) -> Work:
    """Cells as cuDNN runs them: products with the input over all steps at once, with the state step by step."""
    samples, steps, hidden = part
    whole, features, gates = operator.sizes[2], operator.attribute("features"), 4 * part[2]
    rows, cells = samples * steps, samples * hidden
    # Per cell, forward: two sums of 4 gates and c are read, 4 gates, c and h written. Backward: 4 gates, two c,
    # two gradients of h and one of c read, 4 of the gates and one of c written.
    forward = (
        _gemm("lstm input", rows, gates, features),
        _gemm("lstm state", samples, gates, whole, repeats=steps),
        _sweep("lstm cell", 15 * cells, repeats=steps),
    )
    reads_data = len(operator.inputs) % 2 == 0  # the state comes in two tensors, so an odd one is x
    backward = (
        _sweep("lstm cell gradient", 14 * cells, repeats=steps),
        _gemm("lstm state dX", samples, whole, gates, repeats=steps),
        _gemm("lstm state dW", whole, gates, rows),
        *_gradients("lstm input", rows, gates, features, has_input=not reads_data),
    )
    return Work(forward, backward, 6 * rows * hidden * BYTES_PER_ELEMENT)  # 4 gates, c and h


def _attention(operator: Operator, part: PartSizes) -> Work:
    """Projections of query, key and value, then scores, their softmax and the context, head by head."""
    samples, steps, heads, size = part
    memory_steps = operator.attribute("memory_steps")
    query = (samples * steps, heads * size, operator.attribute("features"))
    memory = (samples * memory_steps, 2 * heads * size, operator.attribute("memory_features"))
    scores, context = _scores_and_context(samples * heads, steps, memory_steps, size)
    has_input = bool(operator.inputs)
    num_scores = samples * heads * steps * memory_steps
    forward = (
        _gemm("query", *query),
        _gemm("key and value", *memory),
        scores,
        _sweep("attention softmax", 3 * num_scores),
        context,
    )
    backward = (
        *_twice(context),
        _sweep("attention softmax gradient", 3 * num_scores),
        *_twice(scores),
        *_gradients("key and value", *memory, has_input=has_input),
        *_gradients("query", *query, has_input=has_input),
    )
    saved = 2 * query[0] * query[1] + memory[0] * memory[1] + num_scores
    return Work(forward, backward, saved * BYTES_PER_ELEMENT)


def _luong_attention(operator: Operator, part: PartSizes) -> Work:
    """Dot-product scores and context, alike in every part along the channel, then its columns of tanh(W [c; h])."""
    samples, steps, channels = part
    features, memory_steps = operator.attribute("features"), operator.attribute("memory_steps")
    scores, context = _scores_and_context(samples, steps, memory_steps, features)
    rows, num_scores = samples * steps, samples * steps * memory_steps
    projection = (rows, channels, 2 * features)
    forward = (
        scores,
        _sweep("attention softmax", 3 * num_scores),
        context,
        _gemm("projection", *projection),
        _sweep("tanh", 2 * rows * channels),
    )
    backward = (
        _sweep("tanh gradient", 3 * rows * channels),
        *_gradients("projection", *projection, has_input=True),
        *_twice(context),
        _sweep("attention softmax gradient", 3 * num_scores),
        *_twice(scores),
    )
    return Work(forward, backward, (rows * (channels + features) + num_scores) * BYTES_PER_ELEMENT)


def _scores_and_context(batch: int, steps: int, memory_steps: int, features: int) -> tuple[Kernel, Kernel]:
    """The two batched products of attention; the batch is counted into the rows."""
    elements = batch * (steps * features + memory_steps * features + steps * memory_steps)
    return (
        _gemm("scores", batch * steps, memory_steps, features, elements=elements),
        _gemm("context", batch * steps, features, memory_steps, elements=elements),
    )


def _twice(kernel: Kernel) -> tuple[Kernel, Kernel]:
    """The backward of a product of two activations: the gradient of each costs what the product does."""
    return kernel, kernel


_WORK: dict[str, Callable[[Operator, PartSizes], Work]] = {
    "add": _add,
    "attention": _attention,
    "batch_norm": _only_epilogue,
    "concat": _concat,
    "conv2d": _conv2d,
    "dropout": _dropout,
    "embedding": _embedding,
    "flat": _flat,
    "layer_norm": _layer_norm,
    "linear": _linear,
    "lstm": _lstm,
    "luong_attention": _luong_attention,
    "pool2d": _pool2d,
    "relu": _only_epilogue,
    "softmax": _softmax,
}
