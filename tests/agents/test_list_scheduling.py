"""HEFT and ETF: the textbook example, and that schedules are schedules."""

from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pytest
from config_networks import silent
from hypothesis import given
from hypothesis import strategies as st

from agents.budget import Budget
from agents.errors import AgentError
from agents.list_scheduling import RULES, ListScheduling, Schedule, etf, heft, upward_ranks
from agents.placement import Work
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology


def work_of(times: list[list[int]], messages: dict[tuple[int, int], int]) -> Work:
    """Messages that take as long between any two devices."""
    between = 1 - np.eye(len(times[0]), dtype=np.int64)
    delays = np.array([delay * between for delay in messages.values()]).reshape(-1, *between.shape)
    return Work(np.array(times), tuple(messages), delays)


# Topcuoglu, Hariri, Wu 2002, figure 2: ten tasks on three processors.
TEXTBOOK = work_of(
    [
        [14, 16, 9],
        [13, 19, 18],
        [11, 13, 19],
        [13, 8, 17],
        [12, 13, 10],
        [13, 16, 9],
        [7, 15, 11],
        [5, 11, 14],
        [18, 12, 20],
        [21, 7, 16],
    ],
    {
        (0, 1): 18,
        (0, 2): 12,
        (0, 3): 9,
        (0, 4): 11,
        (0, 5): 14,
        (1, 7): 19,
        (1, 8): 16,
        (2, 6): 23,
        (3, 7): 27,
        (3, 8): 23,
        (4, 8): 13,
        (5, 7): 15,
        (6, 9): 17,
        (7, 9): 11,
        (8, 9): 13,
    },
)


def random_work(random: Random) -> Work:
    rng = np.random.default_rng(random.randrange(2**32))
    num_tasks, num_devices = random.randint(1, 12), random.randint(1, 4)
    edges = tuple((u, v) for v in range(num_tasks) for u in range(v) if random.random() < 0.4)
    delays = rng.integers(0, 20, size=(len(edges), num_devices, num_devices)) * (1 - np.eye(num_devices, dtype=int))
    return Work(rng.integers(0, 20, size=(num_tasks, num_devices)), edges, delays)


def test_upward_ranks_of_the_textbook_example() -> None:
    expected = [108.0, 77.0, 80.0, 80.0, 69.0, 63.333, 42.667, 35.667, 44.333, 14.667]

    assert upward_ranks(TEXTBOOK) == pytest.approx(expected, abs=1e-3)


def test_heft_schedules_the_textbook_example_in_80() -> None:
    schedule = heft(TEXTBOOK, silent)

    assert schedule.makespan == 80
    assert schedule.devices == (2, 0, 2, 1, 2, 1, 2, 0, 1, 1)
    assert schedule.starts == (0, 27, 9, 18, 28, 26, 38, 57, 56, 73)


def test_heft_fills_gaps() -> None:
    # The second source fits between the first and what waits for it from the other device.
    work = work_of([[10, 10], [90, 10], [30, 90], [5, 90]], {(0, 1): 5, (1, 2): 5})
    schedule = heft(work, silent)

    assert (schedule.devices, schedule.starts) == ((0, 1, 0, 0), (0, 15, 30, 10))


def test_etf_takes_what_starts_first_though_it_ends_later() -> None:
    work = work_of([[30, 30], [1, 50]], {})

    assert (etf(work, silent).devices, heft(work, silent).devices) == ((0, 1), (0, 0))


def is_valid(work: Work, schedule: Schedule) -> bool:
    """Whether tasks last as long as they should, wait for what they read, and never share a device."""
    devices, starts, ends = schedule.devices, schedule.starts, schedule.ends
    rows = list(zip(devices, starts, ends, strict=True))
    lasts = all(end - start == work.times[task, device] for task, (device, start, end) in enumerate(rows))
    waits = all(
        starts[v] >= ends[u] + work.delays[number, devices[u], devices[v]] for number, (u, v) in enumerate(work.edges)
    )
    follows = all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(sorted(rows)))
    return lasts and waits and follows


@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_schedule_breaks_its_rules(rule: str, seed: int) -> None:
    work = random_work(Random(seed))

    assert is_valid(work, RULES[rule](work, silent))


@pytest.mark.parametrize("rule", RULES)
def test_branches_of_inception_run_on_several_devices(rule: Any) -> None:
    topology = load_topology("p100_cluster", num_devices=4)
    problem = Problem(inception_v3(num_devices=4), topology)
    result = ListScheduling(rule=rule, seed=0).search(problem, Budget(simulations=1))

    assert {config.num_tasks for config in result.strategy.configs} == {1}
    assert len({config.devices for config in result.strategy.configs}) > 1


def test_a_chain_without_branches_stays_on_one_device() -> None:
    problem = Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))
    result = ListScheduling(rule="heft", seed=0).search(problem, Budget(simulations=1))

    assert {config.devices for config in result.strategy.configs} == {(0,)}
    assert result.notes["schedule_ms"] <= result.cost_ns / 1e6  # type: ignore[operator]


def test_a_space_without_placement_is_refused() -> None:
    graph, topology = lenet(num_devices=4), load_topology("p100_cluster", num_devices=4)
    problem = Problem(graph, topology, space=SoapSpace(graph, topology, dims="SAP"))

    with pytest.raises(AgentError) as error:
        ListScheduling(rule="etf", seed=0).search(problem, Budget(simulations=1))

    assert str(error.value) == "whole operators cannot be placed in space.dims=SAP, which lacks O"


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(AgentError) as error:
        ListScheduling(rule="fifo", seed=0)  # type: ignore[arg-type]

    assert str(error.value) == "agent.rule must be one of heft, etf, not fifo"
