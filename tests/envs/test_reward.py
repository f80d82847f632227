"""Rewards judge cost and memory."""

import math

import pytest

from envs.errors import RewardError
from envs.reward import CostReduction, LogCostReduction, Price, Reward
from sim.problem import Problem

REWARDS = [CostReduction, LogCostReduction]


def test_cost_reduction_is_relative_to_data_parallelism(problem: Problem) -> None:
    cost = problem.data_parallel_ns

    assert CostReduction()(problem, Price(3 * cost, 0), Price(cost, 0)) == 2.0


def test_log_cost_reduction_is_a_ratio(problem: Problem) -> None:
    assert LogCostReduction()(problem, Price(600, 0), Price(200, 0)) == pytest.approx(math.log(3))


@pytest.mark.parametrize("reward", [kind(memory_penalty=5.0) for kind in REWARDS])
def test_overflow_is_penalised(reward: Reward, problem: Problem) -> None:
    total = sum(device.memory_bytes for device in problem.topology.devices)

    assert reward(problem, Price(1000, 0), Price(1000, total // 10)) == pytest.approx(-0.5)


@pytest.mark.parametrize("kind", REWARDS)
def test_negative_penalty_is_refused(kind: type[CostReduction], problem: Problem) -> None:
    with pytest.raises(RewardError) as error:
        kind(memory_penalty=-1.0)
    assert str(error.value) == "reward.memory_penalty=-1.0 must not be negative"
