"""Parts of operators on images: convolution, pooling, batch norm, and the view that flattens one."""

from torch import Tensor
from torch.nn import functional

from runtime.exchange import Steps, all_moments
from runtime.parts.normalisation import NORM_EPSILON, moments, normalise
from runtime.parts.part import Part


def conv2d(part: Part) -> Steps[tuple[Tensor, ...]]:
    """A convolution of the part's box, padded where the image ends; then batch norm and ReLU."""
    has_bias = bool(part.operator.attribute("bias"))
    kernel, bias, norm = part.weights[0], part.weights[1] if has_bias else None, part.weights[1 + has_bias :]
    stride = part.operator.attribute("stride")
    source, pads = _padded(part, part.source, 0.0)
    output = functional.conv2d(source, kernel, bias, stride=stride, padding=pads)
    if norm:
        output = yield from _batch_norm(part, output, *norm)
    return (functional.relu(output, inplace=True) if part.operator.attribute("relu") else output,)


def batch_norm(part: Part) -> Steps[tuple[Tensor, ...]]:
    """Batch norm as an operator of its own."""
    output = yield from _batch_norm(part, part.source, *part.weights)
    return (output,)


def pool2d(part: Part) -> tuple[Tensor, ...]:
    """The maximum, or the mean with the padding's zeros counted, of each window of the part's box."""
    kernel = (part.operator.attribute("kernel_height"), part.operator.attribute("kernel_width"))
    stride = part.operator.attribute("stride")
    if part.operator.attribute("average"):
        source, pads = _padded(part, part.source, 0.0, is_pool=True)
        return (functional.avg_pool2d(source, kernel, stride, pads),)
    source, pads = _padded(part, part.source, float("-inf"), is_pool=True)
    return (functional.max_pool2d(source, kernel, stride, pads),)


def flat(part: Part) -> tuple[Tensor, ...]:
    """An image as a vector; a part may begin and end within a channel."""
    if not part.inputs:
        return (part.source,)
    low, high = part.span[1]
    area = part.source.shape[2] * part.source.shape[3]
    return (part.source.flatten(1).narrow(1, low % area, high - low),)


def _batch_norm(part: Part, tensor: Tensor, scale: Tensor, shift: Tensor) -> Steps[Tensor]:
    """Statistics of the whole batch and image, whatever part of them is here."""
    if part.is_whole_group:
        return functional.batch_norm(tensor, None, None, scale, shift, training=True, eps=NORM_EPSILON)
    statistics = yield from all_moments(moments(tensor, (0, 2, 3)))
    return normalise(tensor, statistics[..., None, None], scale[:, None, None], shift[:, None, None])


def _padded(part: Part, source: Tensor, value: float, *, is_pool: bool = False) -> tuple[Tensor, tuple[int, int]]:
    """The source with what symmetric padding cannot express, and the symmetric padding that is left to the kernel.

    Padding lies outside the image only: a part in its middle has none, one at a border has it at that end.
    """
    pads = [_border(part, axis) for axis in (0, 1)]
    kernels = [part.operator.attribute(f"kernel_{name}") for name in ("height", "width")]
    symmetric = []
    for axis, (before, after) in enumerate(pads):
        # A kernel that slides over more padding behind the image than it needs must not find another place.
        reach = source.shape[2 + axis] + 2 * before - kernels[axis]
        places = reach // part.operator.attribute("stride") + 1
        symmetric.append(after <= before and places == part.sizes[2 + axis])
        if is_pool:
            symmetric[axis] &= 2 * before <= kernels[axis]
    if all(symmetric):
        return source, (pads[0][0], pads[1][0])
    return functional.pad(source, (*pads[1], *pads[0]), value=value), (0, 0)


def _border(part: Part, axis: int) -> tuple[int, int]:
    """Padding before and behind the part's box along one axis of the image."""
    name = ("height", "width")[axis]
    pad, stride = part.operator.attribute(f"pad_{name}"), part.operator.attribute("stride")
    low, high = part.span[2 + axis]
    end = (high - 1) * stride - pad + part.operator.attribute(f"kernel_{name}")
    return max(0, pad - low * stride), max(0, end - part.operator.attribute(f"in_{name}"))
