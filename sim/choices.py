"""Choices: a space in the kernels' arrays, so that compiled searchers can draw configs."""

import math
from itertools import accumulate

import numpy as np

from sim.kernels.layout import ALIGNED, BLOCK, FREE, INJECTIVE, Choices
from sim.space import SoapSpace, nested_ranks
from sim.tables import Rows


def make_choices(space: SoapSpace, rows: Rows) -> Choices:
    """The legal configs of every operator; the numbers of all their degrees are asked of the cost source.

    Args:
        space: which configs are legal.
        rows: numbers for operators and degrees.
    """
    variant = {"block": BLOCK, "aligned": ALIGNED, "free": FREE, "injective": INJECTIVE}[space.variant]
    if space.is_enumerable and variant != ALIGNED:
        variant = BLOCK
    num_rows, num_configs = [], []
    columns: list[tuple[int, int, int, int, int]] = []
    ranks: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    pool: list[np.ndarray] = []
    pool_size = 0
    for operator in range(len(space.graph)):
        if not space.is_enumerable:
            tuples = space.degree_tuples(operator)
            columns += [(rows.row(operator, degrees), math.prod(degrees), 0, 0, k) for k, degrees in enumerate(tuples)]
            num_rows.append(len(tuples))
            num_configs.append(len(tuples))
            continue
        table = space.table(operator)
        row_of: dict[tuple[int, ...], int] = {}
        for degrees_list, order, stride, offset in zip(
            table.degrees.tolist(), table.orders, table.strides.tolist(), table.offsets.tolist(), strict=False
        ):
            degrees = tuple(degrees_list)
            if (degrees, order) not in ranks:
                ranks[degrees, order] = pool_size
                pool.append(nested_ranks(degrees, order))
                pool_size += len(pool[-1])
            if degrees not in row_of:
                row_of[degrees] = rows.row(operator, degrees)
            columns.append((row_of[degrees], math.prod(degrees), stride, ranks[degrees, order], offset))
        num_rows.append(len(table.orders))
        num_configs.append(int(table.offsets[-1]))
    row, parts, stride, rank, offset = (np.array(column, dtype=np.int64) for column in zip(*columns, strict=True))
    return Choices(
        first=np.array([0, *accumulate(num_rows)], dtype=np.int64),
        num_configs=np.array(num_configs, dtype=np.int64),
        offset=offset,
        row=row,
        parts=parts,
        stride=stride,
        rank=rank,
        ranks=np.concatenate(pool).astype(np.int32) if pool else np.zeros(1, np.int32),
        variant=np.array([variant], dtype=np.int64),
    )
