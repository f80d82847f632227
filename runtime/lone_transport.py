"""LoneTransport: of a rank without others; Echo: of one that hears its own words from all others."""

from typing import NoReturn

import torch
from torch import Tensor


class LoneTransport:
    """The transport of a rank without others; see ``runtime.transport.Transport``."""

    rank, is_ordered = 0, False

    def send(self, tensor: Tensor, rank: int, tag: int) -> NoReturn:
        """There is nobody to send to."""
        raise AssertionError("a lone rank sends nothing")

    def receive(self, tensor: Tensor, rank: int, tag: int) -> NoReturn:
        """There is nobody to receive from."""
        raise AssertionError("a lone rank receives nothing")

    def all_to_all(self, tensor: Tensor, ranks: tuple[int, ...]) -> Tensor:
        """Its own row."""
        return tensor

    def start_all_reduce(self, tensor: Tensor, ranks: tuple[int, ...]) -> NoReturn:
        """There is nobody to reduce with."""
        raise AssertionError("a lone rank reduces nothing")

    def barrier(self) -> None:
        """Everybody is here."""


class Echo(LoneTransport):
    """All other ranks of an exchange say what this one says to them."""

    def all_to_all(self, tensor: Tensor, ranks: tuple[int, ...]) -> Tensor:
        """The same rows, as the messages of others would be: in memory of their own."""
        return torch.empty_like(tensor).copy_(tensor)
