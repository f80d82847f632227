"""solve_beside: HiGHS in a process of its own, because it cannot be interrupted and a process can be ended.

The process runs this file, which therefore imports nothing of ours.
"""

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csc_array

POLL_S = 0.02
"""Pause between two looks at the clock while the solver runs."""


class Program(NamedTuple):
    """Minimise ``costs @ x`` for 0 <= x <= 1 and ``matrix @ x == right``, some of x whole.

    Attributes:
        costs: (columns,) of each column.
        matrix: (rows, columns).
        right: (rows,) right-hand sides.
        is_integer: (columns,) 1 where x must be whole, else 0.
    """

    costs: NDArray[np.float64]
    matrix: csc_array
    right: NDArray[np.float64]
    is_integer: NDArray[np.int64]


class Solution(NamedTuple):
    """What the solver says.

    Attributes:
        status: 0 optimal, 1 stopped at the time limit, others see ``scipy.optimize.milp``.
        message: the status in words.
        columns: (columns,) the best found; None if there is none.
        bound: no solution costs less; None if nothing is proven.
    """

    status: int
    message: str
    columns: NDArray[np.float64] | None
    bound: float | None


def solve_beside(program: Program, time_limit_s: float, look: Callable[[], None]) -> Solution:
    """Solve a program to optimality, or until its time is over.

    Args:
        program: what to solve.
        time_limit_s: of the solver.
        look: is called often while the solver runs; if it raises, the solver is ended.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program").write_bytes(pickle.dumps((tuple(program), time_limit_s)))
        # A session of its own: Ctrl-C is for us alone. -P: this folder's modules are not for the process to find.
        with (folder / "errors").open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-P", __file__, name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        try:
            while process.poll() is None:
                look()
                try:
                    process.wait(POLL_S)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            process.kill()
            process.wait()
        if process.returncode != 0:
            raise RuntimeError(f"the solver ended with {process.returncode}: {(folder / 'errors').read_text()}")
        return Solution(*pickle.loads((folder / "solution").read_bytes()))


def _solve(folder: Path) -> None:
    """What the process does: read a program, write its solution."""
    (costs, matrix, right, is_integer), time_limit_s = pickle.loads((folder / "program").read_bytes())
    answer = milp(
        costs,
        constraints=LinearConstraint(matrix, right, right),
        integrality=is_integer,
        bounds=Bounds(0, 1),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
    )
    solution = (int(answer.status), str(answer.message), answer.x, answer.mip_dual_bound)
    (folder / "solution").write_bytes(pickle.dumps(solution))


if __name__ == "__main__":
    _solve(Path(sys.argv[1]))
