"""Padding: the sizes of observations and actions, so that one policy can serve several problems."""

from dataclasses import asdict, dataclass

from envs.errors import PaddingError


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Rows of the padded arrays.

    Attributes:
        num_operators: of the graph.
        num_edges: of the graph.
        num_devices: of the topology.
        num_configs: of the operator that has most.
    """

    num_operators: int
    num_edges: int
    num_devices: int
    num_configs: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Padding:
    """The sizes that a user asks for; None takes the problem's own number. The fields are those of ``Sizes``."""

    num_operators: int | None = None
    num_edges: int | None = None
    num_devices: int | None = None
    num_configs: int | None = None

    def fitted(self, own: Sizes) -> Sizes:
        """All sizes, filled in with the problem's ``own``.

        Raises:
            PaddingError: one is smaller than that.
        """
        sizes = asdict(own)
        for name, given in asdict(self).items():
            if given is None:
                continue
            if given < sizes[name]:
                raise PaddingError(name.removeprefix("num_"), given, sizes[name])
            sizes[name] = given
        return Sizes(**sizes)
