"""The solver's process: what it answers, and that it ends when it should."""

import subprocess
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array

from agents.milp_process import Program, solve_beside


def knapsack(seed: int, num_columns: int) -> Program:
    """Choose half of the columns; one row that is hard to meet keeps the solver busy."""
    rng = np.random.default_rng(seed)
    rows = np.vstack([np.ones(num_columns), rng.integers(1, 10**6, num_columns)])
    right = rows @ (np.arange(num_columns) % 2)
    return Program(rng.random(num_columns), csc_array(rows), right, np.ones(num_columns, dtype=np.int64))


def test_the_answer_is_the_optimum() -> None:
    program = Program(np.array([3.0, 1.0, 2.0]), csc_array(np.ones((1, 3))), np.ones(1), np.ones(3, dtype=np.int64))
    solution = solve_beside(program, 60.0, lambda: None)

    assert solution.columns is not None
    assert (solution.status, solution.columns.tolist(), solution.bound) == (0, [0.0, 1.0, 0.0], 1.0)


def test_the_process_ends_when_the_search_does(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, **options))
        return started[-1]

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        solve_beside(knapsack(0, 60), 60.0, interrupt)

    assert [process.poll() is not None for process in started] == [True]


def test_a_fault_in_the_process_is_told() -> None:
    program = Program(np.ones(2), csc_array(np.ones((1, 3))), np.ones(1), np.ones(2, dtype=np.int64))

    with pytest.raises(RuntimeError, match=r"^the solver ended with 1: Traceback"):
        solve_beside(program, 60.0, lambda: None)
