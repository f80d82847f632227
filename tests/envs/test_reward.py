"""Rewards judge cost and memory."""

import math

import numpy as np
import pytest

from envs.errors import RewardError
from envs.reward import CostReduction, LogCostReduction, Price, Reward
from sim.costs.table import TableCost
from sim.graph_builder import GraphBuilder
from sim.problem import Problem
from sim.topology import load_topology

REWARDS = [CostReduction, LogCostReduction]


def test_cost_reduction_is_relative_to_data_parallelism(problem: Problem) -> None:
    cost = problem.data_parallel_ns

    assert CostReduction()(problem, Price(3 * cost, 0), Price(cost, 0)) == 2.0


def test_log_cost_reduction_is_a_ratio(problem: Problem) -> None:
    assert LogCostReduction()(problem, Price(600, 0), Price(200, 0)) == pytest.approx(math.log(3))


@pytest.mark.parametrize("kind", REWARDS)
def test_reward_is_finite_where_data_parallelism_takes_no_time(kind: type[CostReduction]) -> None:
    builder = GraphBuilder("timeless")
    builder.relu("relu", (2, 4))
    times = {"relu": {(2, 1): (0, 0), (1, 1): (3, 4)}}
    problem = Problem(builder.build(), load_topology("p100_cluster", num_devices=2), cost=TableCost(times=times))

    prices = [Price(np.array([ns]), np.array([0])) for ns in (problem.data_parallel_ns, 7)]
    assert np.isfinite(kind()(problem, *prices)).all()


@pytest.mark.parametrize("reward", [kind(memory_penalty=5.0) for kind in REWARDS])
def test_overflow_is_penalised(reward: Reward, problem: Problem) -> None:
    total = sum(device.memory_bytes for device in problem.topology.devices)

    assert reward(problem, Price(1000, 0), Price(1000, total // 10)) == pytest.approx(-0.5)


@pytest.mark.parametrize("kind", REWARDS)
def test_negative_penalty_is_refused(kind: type[CostReduction], problem: Problem) -> None:
    with pytest.raises(RewardError) as error:
        kind(memory_penalty=-1.0)
    assert str(error.value) == "reward.memory_penalty=-1.0 must not be negative"
