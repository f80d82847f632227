"""data_needs: the data that operators read beside each other's tensors: images, words, labels.

``sim`` has no input operators: data is present on every device. Which boxes of it a part reads follows from the kind.
"""

from collections.abc import Callable
from dataclasses import dataclass

from runtime.errors import UnsupportedOperatorError
from sim.operator_graph import WHOLE, Box, Operator, Window

WHOLE_AXIS = Window(WHOLE)


@dataclass(frozen=True, slots=True)
class DataNeed:
    """A tensor of data that an operator reads.

    Attributes:
        name: within the operator: ``source``, ``memory``, ``labels``.
        sizes: of the whole tensor.
        windows: what an interval of the operator's dimensions needs of each axis.
        num_classes: its elements are integers below it (words, labels); 0 if they are real numbers.
    """

    name: str
    sizes: tuple[int, ...]
    windows: tuple[Window, ...]
    num_classes: int = 0

    def box(self, span: Box) -> Box:
        """The box that a part reads which computes ``span``."""
        return tuple(window.interval(span, size) for window, size in zip(self.windows, self.sizes, strict=True))


def data_needs(operator: Operator, *, is_terminal: bool) -> tuple[DataNeed, ...]:
    """The data that an operator reads, in the order of ``Part.data``.

    Args:
        operator: any of a kind that the runtime knows.
        is_terminal: nobody reads the operator; a softmax then needs labels.

    Raises:
        UnsupportedOperatorError: what is data among its sources cannot be told.
    """
    needs = _NEEDS[operator.kind](operator) if operator.kind in _NEEDS else _same(operator)
    if is_terminal and operator.kind == "softmax":
        lead = operator.sizes[:-1]
        labels = DataNeed("labels", lead, tuple(Window(axis) for axis in range(len(lead))), operator.sizes[-1])
        return (*needs, labels)
    return needs


def _same(operator: Operator) -> tuple[DataNeed, ...]:
    """A tensor of the operator's own sizes, if it reads no other's."""
    if operator.inputs:
        return ()
    return (DataNeed("source", operator.sizes, tuple(Window(axis) for axis in range(len(operator.sizes)))),)


def _add(operator: Operator) -> tuple[DataNeed, ...]:
    windows = tuple(Window(axis) for axis in range(len(operator.sizes)))
    names = ("left", "right")[len(operator.inputs) :]
    return tuple(DataNeed(name, operator.sizes, windows) for name in names)


def _concat(operator: Operator) -> tuple[DataNeed, ...]:
    if not operator.inputs:
        return _same(operator)
    if min(read.windows[operator.attribute("axis")].pad for read in operator.inputs) > 0:
        raise UnsupportedOperatorError(operator.name, "it concatenates data and another operator's tensor")
    return ()


def _image(operator: Operator) -> tuple[DataNeed, ...]:
    if operator.inputs:
        return ()
    sizes = tuple(operator.attribute(name) for name in ("in_channels", "in_height", "in_width"))
    slide = tuple(
        Window(
            2 + axis,
            stride=operator.attribute("stride"),
            pad=operator.attribute(f"pad_{name}"),
            kernel=operator.attribute(f"kernel_{name}"),
        )
        for axis, name in enumerate(("height", "width"))
    )
    channels = WHOLE_AXIS if operator.kind == "conv2d" else Window(1)
    return (DataNeed("source", (operator.sizes[0], *sizes), (Window(0), channels, *slide)),)


def _dense(operator: Operator) -> tuple[DataNeed, ...]:
    if operator.inputs:
        return ()
    lead = tuple(Window(axis) for axis in range(len(operator.sizes) - 1))
    return (DataNeed("source", (*operator.sizes[:-1], operator.attribute("features")), (*lead, WHOLE_AXIS)),)


def _embedding(operator: Operator) -> tuple[DataNeed, ...]:
    return (DataNeed("source", operator.sizes[:2], (Window(0), Window(1)), operator.attribute("vocabulary")),)


def _lstm(operator: Operator) -> tuple[DataNeed, ...]:
    if len(operator.inputs) % 2:  # the state comes in two tensors, so an odd one is x
        return ()
    sizes = (*operator.sizes[:2], operator.attribute("features"))
    return (DataNeed("source", sizes, (Window(0), Window(1), WHOLE_AXIS)),)


def _attention(operator: Operator) -> tuple[DataNeed, ...]:
    """A lone input that is read whole along its steps is both query and memory; else it is the query."""
    samples, steps = operator.sizes[:2]
    query = DataNeed("source", (samples, steps, operator.attribute("features")), (Window(0), Window(1), WHOLE_AXIS))
    memory_sizes = (samples, operator.attribute("memory_steps"), operator.attribute("memory_features"))
    memory = DataNeed("memory", memory_sizes, (Window(0), WHOLE_AXIS, WHOLE_AXIS))
    if len(operator.inputs) == 2:
        return ()
    if operator.inputs:
        return () if operator.inputs[0].windows[1].dim == WHOLE else (memory,)
    return query, memory


def _luong_attention(operator: Operator) -> tuple[DataNeed, ...]:
    """The query, if no input is read along the steps; the memory, if there is none."""
    samples, steps = operator.sizes[:2]
    features, memory_steps = operator.attribute("features"), operator.attribute("memory_steps")
    reads_along_steps = [read.windows[1].dim != WHOLE for read in operator.inputs]
    needs: list[DataNeed] = []
    if not any(reads_along_steps):
        needs.append(DataNeed("source", (samples, steps, features), (Window(0), Window(1), WHOLE_AXIS)))
    if all(reads_along_steps):
        needs.append(DataNeed("memory", (samples, memory_steps, features), (Window(0), WHOLE_AXIS, WHOLE_AXIS)))
    return tuple(needs)


_NEEDS: dict[str, Callable[[Operator], tuple[DataNeed, ...]]] = {
    "add": _add,
    "attention": _attention,
    "concat": _concat,
    "conv2d": _image,
    "embedding": _embedding,
    "linear": _dense,
    "lstm": _lstm,
    "luong_attention": _luong_attention,
    "pool2d": _image,
    "softmax": _dense,
}
