"""symmetries: renumberings of the devices that change neither a strategy's cost nor the space."""

from collections.abc import Iterator, Sequence

import numpy as np

from sim.kernels.layout import Lists
from sim.problem import Problem
from sim.strategy import ParallelConfig

MAX_SYMMETRIES = 128
"""Any of them may be left out, which only breaks less symmetry; all of four devices that are alike are 24."""

MAX_RENUMBERINGS = 2048
"""Tried at most."""

MAX_EXTENSIONS = 2**16
"""Numbers tried for a device at most, since most of them may lead nowhere."""


def symmetries(problem: Problem, configs: Sequence[Sequence[ParallelConfig]]) -> list[list[list[int]]]:
    """Renumberings, but for the identity; for each and each operator, the number of the config that it makes of each.

    A renumbering counts if it maps the topology to itself (``automorphisms``) and each operator's configs to
    themselves. It keeps all durations, and which tasks share a device or a connection; the order of tasks holds no
    device numbers (docs/simulation.md, "Order and keys"). So it keeps the cost of every strategy.

    Args:
        problem: what the strategies are for.
        configs: for each operator, those that it may take.
    """
    numbers = [{config: c for c, config in enumerate(members)} for members in configs]
    found: list[list[list[int]]] = []
    for tried, renumbering in enumerate(automorphisms(problem)):
        if tried >= MAX_RENUMBERINGS or len(found) >= MAX_SYMMETRIES:
            break
        image = _image(renumbering, configs, numbers)
        if image is not None and renumbering != sorted(renumbering):
            found.append(image)
    return found


def automorphisms(problem: Problem) -> Iterator[list[int]]:
    """Renumberings that map devices to alike ones, nodes to nodes, and routes to routes.

    Each connection of a route goes to the one at the same place of the other route, of equal bandwidth, and no two
    connections go to the same one; routes keep their latencies.
    """
    topology, tables, left = problem.topology, problem.tables, iter(range(MAX_EXTENSIONS))
    devices, num_devices = topology.devices, topology.num_devices
    bandwidth = [*np.zeros(num_devices).tolist(), *tables.bandwidth.tolist()]
    pointers, resources = tables.route_ptr.tolist(), tables.route.tolist()

    def route(src: int, dst: int) -> list[int]:
        pair = src * num_devices + dst
        return resources[pointers[pair] : pointers[pair + 1]]

    def is_alike(a: int, b: int) -> bool:
        one, other = devices[a], devices[b]
        return (one.kind, one.memory_bytes) == (other.kind, other.memory_bytes)

    def extended(
        numbers: list[int], target: int, to: dict[int, int], back: dict[int, int]
    ) -> tuple[dict[int, int], dict[int, int]] | None:
        """What is known about connections once the next device has a number; None if it cannot have it."""
        new = len(numbers)
        if target in numbers or not is_alike(new, target):
            return None
        to, back = {**to, new: target}, {**back, target: new}
        for old, number in enumerate(numbers):
            if (devices[old].node == devices[new].node) != (devices[number].node == devices[target].node):
                return None
            for ends, images in (((old, new), (number, target)), ((new, old), (target, number))):
                pair, other = (a * num_devices + b for a, b in (ends, images))
                if tables.route_ns[pair] != tables.route_ns[other] or len(route(*ends)) != len(route(*images)):
                    return None
                for one, another in zip(route(*ends), route(*images), strict=True):
                    is_same = to.setdefault(one, another) == another and back.setdefault(another, one) == one
                    if not is_same or bandwidth[one] != bandwidth[another]:
                        return None
        return to, back

    def extend(numbers: list[int], to: dict[int, int], back: dict[int, int]) -> Iterator[list[int]]:
        if len(numbers) == num_devices:
            yield numbers
            return
        # Zip takes a number first, so that none of ``left`` is lost.
        for target, _ in zip(range(num_devices), left, strict=False):
            known = extended(numbers, target, to, back)
            if known is not None:
                yield from extend([*numbers, target], *known)

    yield from extend([], {}, {})


def _image(
    renumbering: Sequence[int],
    configs: Sequence[Sequence[ParallelConfig]],
    numbers: Sequence[dict[ParallelConfig, int]],
) -> list[list[int]] | None:
    """What a renumbering makes of each config; None if one leaves the space."""
    image = []
    for members, known in zip(configs, numbers, strict=True):
        made = [
            known.get(ParallelConfig(config.degrees, tuple(renumbering[device] for device in config.devices)), -1)
            for config in members
        ]
        if min(made) < 0:
            return None
        image.append(made)
    return image


def image_array(images: Sequence[Sequence[Sequence[int]]], order: Sequence[int], num_configs: int) -> Lists:
    """(S, C) for the kernels: configs operator by operator, in an order."""
    array = np.zeros((len(images), num_configs), np.int32)
    for s, image in enumerate(images):
        array[s] = np.concatenate([image[operator] for operator in order])
    return array
