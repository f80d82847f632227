"""Searches with the options that the tests of several agents give them."""

from functools import partial

from agents.large_neighbourhood import LargeNeighbourhood

large_neighbourhood = partial(
    LargeNeighbourhood,
    start="data_parallel",
    size=3,
    critical=0.5,
    grouped=0.5,
    slack=0.02,
    threshold=0.002,
    num_samples=40,
)
