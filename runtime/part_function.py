"""run_parts: computes parts of one operator forward; backward is PyTorch's autograd of what it returns."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from torch import Tensor

from runtime.errors import UnsupportedOperatorError
from runtime.exchange import Alone, Exchanger, Request, Steps
from runtime.parts import attention, dense, elementwise, images, recurrent
from runtime.parts.part import Part
from sim.operator_graph import OperatorGraph

Outputs: TypeAlias = tuple[Tensor, ...]


def run_parts(parts: Sequence[Part], exchanger: Exchanger | None = None) -> list[Outputs]:
    """The outputs of parts of one operator: all parts of one exchange group on one rank, or one part.

    Nothing of what it is given is modified. To go backward, call ``torch.autograd.backward`` once on the outputs of
    all parts: the ranks of an exchange group then meet in the mirrored order.

    Args:
        parts: of one operator, in the order of their positions in the exchange group.
        exchanger: the group; by default the one part is the whole group.

    Returns:
        For each part, its box of each of the operator's outputs; of a terminal operator, its share of the loss (a
        scalar) instead: shares of all parts add up to the mean cross-entropy of a softmax, over the global batch
        (and steps), or to the mean of sin(x) over each output of any other kind.
    """
    kind = parts[0].operator.kind
    if kind in _PLAIN:
        outputs = [_PLAIN[kind](part) for part in parts]
    else:
        outputs = _in_lock_step([_MEETING[kind](part) for part in parts], exchanger or Alone())
    if parts[0].is_terminal and kind != "softmax":
        return [(_smooth_share(part, tensors),) for part, tensors in zip(parts, outputs, strict=True)]
    return outputs


def check_kinds(graph: OperatorGraph) -> None:
    """Refuse a graph with operators that the runtime cannot compute.

    Raises:
        UnsupportedOperatorError: the first one of an unknown kind.
    """
    for operator in graph.operators:
        if operator.kind not in _PLAIN and operator.kind not in _MEETING:
            known = ", ".join(sorted({*_PLAIN, *_MEETING}))
            raise UnsupportedOperatorError(operator.name, f"kind '{operator.kind}' is none of {known}")


def _in_lock_step(parts: Sequence[Steps[Outputs]], exchanger: Exchanger) -> list[Outputs]:
    """Runs parts from one meeting to the next until they end; all of them do the same number of times."""
    answer: Tensor | None = None
    while True:
        reached = [_advance(part, answer) for part in parts]
        requests = [request for request in reached if isinstance(request, Request)]
        if not requests:
            return [outputs for outputs in reached if not isinstance(outputs, Request)]
        assert len(requests) == len(parts), "parts of one operator met a different number of times"
        first = requests[0]
        tensors = (request.tensor for request in requests)
        answer = first.function.apply(exchanger, *first.arguments, *tensors)  # type: ignore[no-untyped-call]


def _advance(part: Steps[Outputs], answer: Tensor | None) -> Request | Outputs:
    """What a part asks for next, or its outputs at its end."""
    try:
        return part.send(answer)
    except StopIteration as end:
        return end.value


def _smooth_share(part: Part, outputs: Outputs) -> Tensor:
    """The part's share of a fixed smooth scalar: of each output, the mean of sin(x)."""
    whole = (output.num_elements for output in part.operator.outputs)
    shares = [tensor.sin().sum() / count for tensor, count in zip(outputs, whole, strict=True)]
    return sum(shares[1:], shares[0])


_PLAIN: dict[str, Callable[[Part], Outputs]] = {
    "add": elementwise.add,
    "attention": attention.attention,
    "concat": elementwise.concat,
    "dropout": elementwise.dropout,
    "embedding": dense.embedding,
    "flat": images.flat,
    "linear": dense.linear,
    "luong_attention": attention.luong_attention,
    "pool2d": images.pool2d,
    "relu": elementwise.relu,
}

_MEETING: dict[str, Callable[[Part], Steps[Outputs]]] = {
    "batch_norm": images.batch_norm,
    "conv2d": images.conv2d,
    "layer_norm": elementwise.layer_norm,
    "lstm": recurrent.lstm,
    "softmax": dense.softmax,
}
