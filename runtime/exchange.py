"""Exchange: what the parts of one operator tell each other while they compute, with its gradients.

A part function yields a ``Request`` where its parts must meet; all parts of a rank that take part are answered by one
node of the autograd graph, so that one backward pass over all of them meets the other ranks in the mirrored order.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function


class Exchanger(Protocol):
    """The parts of one exchange group, seen from one rank.

    Attributes:
        positions: of this rank's parts within the group, ascending.
    """

    positions: tuple[int, ...]

    def gather(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors of equal sizes of all parts of the group, in order, given those of this rank's parts."""
        ...

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks of the group of what each rank gives."""
        ...

    def own_totals(self, tensor: Tensor, dim: int) -> list[Tensor]:
        """The same of slices: of as many along ``dim`` as the group has parts, those of this rank's positions."""
        ...


class Alone:
    """An exchange group of which only one part is there: what it hears is what it says, once for each part.

    One part that is the whole group computes right with it; one of several takes the right time.

    Args:
        num_parts: of the group.
    """

    def __init__(self, *, num_parts: int = 1) -> None:
        self.num_parts = num_parts
        self.positions: tuple[int, ...] = (0,)

    def gather(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The only part's tensor in place of all others'."""
        return [tensors[0]] * self.num_parts

    def total(self, tensor: Tensor) -> Tensor:
        """The only part's tensor."""
        return tensor

    def own_totals(self, tensor: Tensor, dim: int) -> list[Tensor]:
        """The only part's slice."""
        return [tensor.chunk(self.num_parts, dim)[0]]


class Together:
    """An exchange group all of whose parts are on this rank.

    Args:
        num_parts: of the group.
    """

    def __init__(self, *, num_parts: int) -> None:
        self.positions = tuple(range(num_parts))

    def gather(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """What was given."""
        return list(tensors)

    def total(self, tensor: Tensor) -> Tensor:
        """What was given."""
        return tensor

    def own_totals(self, tensor: Tensor, dim: int) -> list[Tensor]:
        """All slices."""
        return list(tensor.chunk(len(self.positions), dim))


@dataclass(frozen=True, slots=True)
class Request:
    """What a part asks of its group.

    Attributes:
        function: the autograd function that answers; it gets the exchanger, ``arguments`` and each part's tensor.
        tensor: the part's own share.
        arguments: further arguments, the same in all parts.
    """

    function: type[Function]
    tensor: Tensor
    arguments: tuple[Any, ...] = ()


Result = TypeVar("Result")

Steps: TypeAlias = Generator[Request, Tensor | None, Result]
"""A function that meets the other parts of its group: yields requests, is sent answers, returns a result."""


def all_gather(tensor: Tensor, dim: int) -> Steps[Tensor]:
    """The tensors of all parts side by side along ``dim``."""
    return _answer(Request(_AllGather, tensor, (dim,)))


def all_sum(tensor: Tensor) -> Steps[Tensor]:
    """The sum over all parts."""
    return _answer(Request(_AllSum, tensor))


def all_moments(moments: Tensor) -> Steps[Tensor]:
    """Mean and variance over all parts, given (2, ...): those of as many elements in each part."""
    return _answer(Request(_AllMoments, moments))


def all_log_sum_exp(tensor: Tensor) -> Steps[Tensor]:
    """log(sum(exp(x))) over all parts, given the same over each."""
    return _answer(Request(_AllLogSumExp, tensor))


def _answer(request: Request) -> Steps[Tensor]:
    answer = yield request
    assert answer is not None
    return answer


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, exchanger: Exchanger, dim: int, *tensors: Tensor) -> Tensor:
        ctx.exchanger, ctx.dim = exchanger, dim
        return torch.cat(exchanger.gather(tensors), dim)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.exchanger.own_totals(gradient, ctx.dim)


class _AllSum(Function):
    @staticmethod
    def forward(ctx: Any, exchanger: Exchanger, *tensors: Tensor) -> Tensor:
        ctx.exchanger = exchanger
        return torch.stack(exchanger.gather(tensors)).sum(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        total = ctx.exchanger.total(gradient)
        return None, *(total for _ in ctx.exchanger.positions)


class _AllMoments(Function):
    @staticmethod
    def forward(ctx: Any, exchanger: Exchanger, *moments: Tensor) -> Tensor:
        means, variances = torch.stack(exchanger.gather(moments), 1)
        deviations = means - means.mean(0)
        ctx.exchanger = exchanger
        ctx.save_for_backward(deviations)
        return torch.stack((means.mean(0), variances.mean(0) + deviations.square().mean(0)))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (deviations,) = ctx.saved_tensors
        of_mean, of_variance = ctx.exchanger.total(gradient) / len(deviations)
        shares = (
            torch.stack((of_mean + 2 * of_variance * deviations[p], of_variance)) for p in ctx.exchanger.positions
        )
        return None, *shares


class _AllLogSumExp(Function):
    @staticmethod
    def forward(ctx: Any, exchanger: Exchanger, *tensors: Tensor) -> Tensor:
        everyone = torch.stack(exchanger.gather(tensors))
        total = everyone.logsumexp(0)
        ctx.exchanger = exchanger
        ctx.save_for_backward(everyone, total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        everyone, total = ctx.saved_tensors
        gradient = ctx.exchanger.total(gradient)
        return None, *(gradient * (everyone[p] - total).exp() for p in ctx.exchanger.positions)
