"""The table that run.py and simulate.py print."""

import pytest
from rich.console import Console

from experiments.record import Record
from experiments.result_table import result_table
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.topology import load_topology


@pytest.fixture
def record(search: object) -> Record:
    return Record(**search("agent=data_parallel").json("record.json"))  # type: ignore[operator]


def test_narrow_terminal_cuts_no_name_off(record: Record) -> None:
    problem = Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))
    simulations = {"data_parallel": problem.simulation(), "large_neighbourhood": problem.simulation()}
    console = Console(width=60)
    with console.capture() as captured:
        console.print(result_table(record, simulations, folder="runs"), soft_wrap=True)
    text = captured.get()

    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 60
