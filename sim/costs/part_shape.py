"""part_key: the text under which a part's time is stored; part_shapes: all the parts that a space may ask for."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from sim.operator_graph import WHOLE, Operator, OperatorGraph, Window
from sim.space import SoapSpace


@dataclass(frozen=True, slots=True)
class PartShape:
    """A part of an operator, standing for all that take as long.

    Attributes:
        key: of ``part_key``.
        operator: position of an operator that has such a part.
        degrees: under which it has it.
    """

    key: str
    operator: int
    degrees: tuple[int, ...]


def part_key(operator: Operator, degrees: Sequence[int]) -> str:
    """All that the time of one part depends on, as JSON: parts with equal keys take equal times (A1).

    - ``kind``, ``attributes``, and ``part``, its extents;
    - ``split``: the degrees. Those along samples count only if parts meet across them, as in batch norm: half of 64
      samples is 32 samples. Elsewhere a part is no smaller operator: it has a halo, gathers, reads all channels;
    - ``reads``: the windows on its inputs. No window, no gradient of the input: it reads data;
    - ``whole``: extents of its outputs that no dimension cuts;
    - ``weight``: elements for each unit, and whether other operators share it, whose gradients are added up.

    Args:
        operator: whose part it is.
        degrees: parts along each of its dimensions.
    """
    across = operator.exchange.across if operator.exchange else ()
    weight = operator.weight
    fields = {
        "kind": operator.kind,
        "part": [size // degree for size, degree in zip(operator.sizes, degrees, strict=True)],
        "split": [
            degree if dim.label != "S" or number in across else 1
            for number, (dim, degree) in enumerate(zip(operator.dims, degrees, strict=True))
        ],
        "attributes": dict(operator.attributes),
        "reads": [[_window(window) for window in read.windows] for read in operator.inputs],
        "whole": [
            [size for size, dim in zip(output.sizes, output.dims, strict=True) if dim == WHOLE]
            for output in operator.outputs
        ],
        "weight": [weight.elements_per_unit, weight.group != operator.name] if weight else [],
    }
    return json.dumps(fields, separators=(",", ":"))


def part_shapes(graph: OperatorGraph, space: SoapSpace) -> list[PartShape]:
    """One part for each distinct key among all degrees of all operators, in order of first appearance."""
    shapes: dict[str, PartShape] = {}
    done: set[tuple[object, ...]] = set()
    for position, operator in enumerate(graph.operators):
        # Unrolled steps of a layer differ in their names only.
        same = (operator.kind, operator.dims, operator.outputs, operator.attributes, operator.exchange, operator.weight)
        alike = (*same, tuple(read.windows for read in operator.inputs))
        if alike in done:
            continue
        done.add(alike)
        for degrees in space.degree_tuples(position):
            key = part_key(operator, degrees)
            shapes.setdefault(key, PartShape(key, position, degrees))
    return list(shapes.values())


def kind_of(key: str) -> str:
    """The kind of operator that a key is about, or ``update`` or ``task``."""
    return str(json.loads(key)["kind"])


def describe(key: str) -> str:
    """A key in a few words: ``conv2d 64x20x24x24, split 1x1x2x1``."""
    fields = json.loads(key)
    if "part" not in fields:
        return " ".join(str(value) for value in fields.values())
    text = f"{fields['kind']} {'x'.join(map(str, fields['part']))}"
    return text if math.prod(fields["split"]) == 1 else f"{text}, split {'x'.join(map(str, fields['split']))}"


def _window(window: Window) -> int | list[int]:
    if window == Window(window.dim):
        return window.dim
    return [window.dim, window.stride, window.divisor, window.pad, window.kernel]
