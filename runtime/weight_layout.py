"""weight_layout: the tensors that make up the weights of an operator; this is the only place that knows.

``sim`` counts the elements of a weight group for each unit of the dimension that cuts it. Here the same elements are
tensors as PyTorch's kernels want them, each with one axis of units, so that a part's weights are slices of them.
"""

import math
from dataclasses import dataclass

from runtime.errors import UnsupportedOperatorError
from sim.operator_graph import Operator, OperatorGraph


@dataclass(frozen=True, slots=True)
class WeightTensor:
    """One of the tensors that make up an operator's weights.

    Attributes:
        name: within the weight group.
        sizes: for all units.
        unit_axis: the axis of the units.
        mean: of the initial elements.
        std: standard deviation of the initial elements.
    """

    name: str
    sizes: tuple[int, ...]
    unit_axis: int
    mean: float
    std: float


def weight_layout(operator: Operator) -> tuple[WeightTensor, ...]:
    """The tensors of the operator's weights; none if it trains nothing.

    Raises:
        UnsupportedOperatorError: the runtime knows no layout for the kind.
    """
    if operator.weight is None:
        return ()
    if operator.kind not in _LAYOUTS:
        raise UnsupportedOperatorError(operator.name, f"kind '{operator.kind}' has no weights that the runtime knows")
    layout = _LAYOUTS[operator.kind](operator, operator.num_weight_units)
    assert sum(math.prod(tensor.sizes) for tensor in layout) == operator.num_weight_elements
    return layout


def check_weight_groups(graph: OperatorGraph) -> None:
    """Refuse a graph whose operators share weights that they lay out differently.

    Raises:
        UnsupportedOperatorError: two operators of a group differ, or a kind is unknown.
    """
    for members in graph.weight_groups.values():
        layouts = [weight_layout(graph.operators[member]) for member in members]
        for member, layout in zip(members, layouts, strict=True):
            if layout != layouts[0]:
                operator = graph.operators[member]
                first = graph.operators[members[0]].name
                raise UnsupportedOperatorError(operator.name, f"it shares weights with '{first}' of another layout")


def _gain(operator: Operator) -> int:
    """Variance lost to a ReLU (He 2015, arXiv 1502.01852)."""
    return 2 if operator.attribute("relu") else 1


def _bias(operator: Operator, units: int, *names: str) -> tuple[WeightTensor, ...]:
    return tuple(_spread(name, (units,), 0.1) for name in names) if operator.attribute("bias") else ()


def _spread(name: str, sizes: tuple[int, ...], std: float, *, unit_axis: int = 0) -> WeightTensor:
    return WeightTensor(name, sizes, unit_axis, 0.0, std)


def _norm(units: int) -> tuple[WeightTensor, ...]:
    return WeightTensor("norm_scale", (units,), 0, 1.0, 0.1), _spread("norm_shift", (units,), 0.1)


def _conv2d(operator: Operator, units: int) -> tuple[WeightTensor, ...]:
    inner = tuple(operator.attribute(name) for name in ("in_channels", "kernel_height", "kernel_width"))
    kernel = _spread("kernel", (units, *inner), math.sqrt(_gain(operator) / math.prod(inner)))
    norm = _norm(units) if operator.attribute("batch_norm") else ()
    return (kernel, *_bias(operator, units, "bias"), *norm)


def _only_norm(operator: Operator, units: int) -> tuple[WeightTensor, ...]:
    return _norm(units)


def _linear(operator: Operator, units: int) -> tuple[WeightTensor, ...]:
    features = operator.attribute("features")
    kernel = _spread("kernel", (units, features), math.sqrt(_gain(operator) / features))
    return (kernel, *_bias(operator, units, "bias"))


def _embedding(operator: Operator, units: int) -> tuple[WeightTensor, ...]:
    return (_spread("table", (operator.attribute("vocabulary"), units), 1.0, unit_axis=1),)


def _lstm(operator: Operator, units: int) -> tuple[WeightTensor, ...]:
    """Gates as in PyTorch: input, forget, cell, output; ``(4, units, ...)`` is what its kernels take flattened."""
    std = 1 / math.sqrt(3 * units)
    features = operator.attribute("features")
    kernels = [
        _spread(name, (4, units, inner), std, unit_axis=1)
        for name, inner in (("input_kernel", features), ("state_kernel", units))
    ]
    biases = [_spread(name, (4, units), std, unit_axis=1) for name in ("input_bias", "state_bias")]
    return (*kernels, *biases) if operator.attribute("bias") else tuple(kernels)


def _attention(operator: Operator, units: int) -> tuple[WeightTensor, ...]:
    size = operator.dims[3].size
    inner = {"query": operator.attribute("features")}
    inner["key"] = inner["value"] = operator.attribute("memory_features")
    kernels = [_spread(f"{name}_kernel", (units, size, n), 1 / math.sqrt(n)) for name, n in inner.items()]
    biases = [_spread(f"{name}_bias", (units, size), 0.1) for name in inner]
    return (*kernels, *biases) if operator.attribute("bias") else tuple(kernels)


def _luong_attention(operator: Operator, units: int) -> tuple[WeightTensor, ...]:
    inner = 2 * operator.attribute("features")
    return (_spread("kernel", (units, inner), 1 / math.sqrt(inner)), *_bias(operator, units, "bias"))


_LAYOUTS = {
    "attention": _attention,
    "batch_norm": _only_norm,
    "conv2d": _conv2d,
    "embedding": _embedding,
    "layer_norm": _only_norm,
    "linear": _linear,
    "lstm": _lstm,
    "luong_attention": _luong_attention,
    "softmax": _linear,
}
