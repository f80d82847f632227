"""Padding: the sizes of observations and actions, so that one policy can serve several problems."""

from dataclasses import dataclass, fields, replace

from envs.errors import PaddingError


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """Rows of the padded arrays; None takes the problem's own number.

    Attributes:
        num_operators: of the graph.
        num_edges: of the graph.
        num_devices: of the topology.
        num_configs: of the operator that has most.
    """

    num_operators: int | None = None
    num_edges: int | None = None
    num_devices: int | None = None
    num_configs: int | None = None

    def fitted(self, own: "Padding") -> "Padding":
        """All sizes filled in with the problem's ``own``.

        Raises:
            PaddingError: one is smaller than that.
        """
        for field in fields(self):
            given, needed = getattr(self, field.name), getattr(own, field.name)
            if given is not None and given < needed:
                raise PaddingError(field.name.removeprefix("num_"), given, needed)
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(own, **{name: size for name, size in given.items() if size is not None})
