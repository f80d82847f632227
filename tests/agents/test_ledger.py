import itertools

import numpy as np
import pytest

from agents.agent import Agent
from agents.budget import Budget, Progress
from agents.curve_point import CurvePoint
from agents.errors import IllegalBudgetError
from agents.ledger import BudgetExhausted, Earlier, Ledger
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.topology import load_topology


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem(lenet(num_devices=4), load_topology("p100_cluster", num_devices=4))


class Walk(Agent):
    """Proposes random changes and accepts all of them."""

    def run(self, problem: Problem, ledger: Ledger) -> None:
        rng = np.random.default_rng(self.seed)
        simulation = ledger.simulation()
        while True:
            operator = int(rng.integers(len(problem.graph)))
            simulation.propose(operator, problem.space.sample(operator, rng))
            simulation.accept()


class Stop(Agent):
    """Is interrupted at once."""

    def run(self, problem: Problem, ledger: Ledger) -> None:
        ledger.simulation()
        raise KeyboardInterrupt


def test_every_pricing_is_charged(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=10), lambda progress: None)
    simulation = ledger.simulation()
    simulation.propose(0, problem.space.config(0, 3))
    simulation.reject()
    simulation.restart(problem.data_parallel)

    assert ledger.simulations == 3


@pytest.mark.parametrize("operators", [[2], [0, 3, 5]])
def test_changes_of_several_operators_are_one_pricing(problem: Problem, operators: list[int]) -> None:
    ledger = Ledger(problem, Budget(simulations=10), lambda progress: None)
    simulation = ledger.simulation()
    simulation.propose_together({operator: problem.space.config(operator, 3) for operator in operators})

    assert ledger.simulations == 2


def test_changes_of_several_operators_can_be_the_best_strategy(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=10), lambda progress: None)
    simulation = ledger.simulation(problem.space.sample_strategy(np.random.default_rng(1)))
    proposal = simulation.propose_together(dict(enumerate(problem.data_parallel.configs)))

    assert ledger.best_ns == proposal.cost_ns == problem.data_parallel_ns
    assert ledger.best_strategy == problem.data_parallel


def test_the_budget_ends_the_search_after_exactly_its_simulations(problem: Problem) -> None:
    assert Walk(seed=0).search(problem, Budget(simulations=37)).simulations == 37


def test_the_ledger_refuses_to_price_beyond_the_budget(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=1), lambda progress: None)
    simulation = ledger.simulation()

    with pytest.raises(BudgetExhausted):
        simulation.propose(0, problem.space.config(0, 3))


def test_a_batch_is_paid_for_as_far_as_the_budget_goes(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=5), lambda progress: None)

    assert (ledger.charge_batch(4), ledger.charge_batch(4), ledger.simulations) == (4, 1, 5)
    with pytest.raises(BudgetExhausted):
        ledger.charge_batch(4)


def test_the_best_of_a_batch_is_recorded_where_it_was_priced(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=9), lambda progress: None)
    ledger.charge_batch(6)
    overflow, cost = np.array([0, 5, 0, 0, 0, 0]), np.array([80, 10, 90, 70, 70, 75]) * 1_000_000

    ledger.record_batch(overflow, cost, lambda number: [problem.space.config(i, number) for i in range(6)])
    assert [(point.simulations, point.best_ms) for point in ledger.curve] == [(1, 80.0), (4, 70.0)]
    assert (ledger.simulations, ledger.best_strategy[2]) == (6, problem.space.config(2, 3))


def test_a_budget_of_seconds_ends_the_search(problem: Problem) -> None:
    result = Walk(seed=0).search(problem, Budget(seconds=0.2))

    assert 0.2 <= result.seconds < 2.0


def test_of_a_time_that_is_over_nothing_is_shared(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(seconds=1e-9), lambda progress: None)

    with pytest.raises(BudgetExhausted):
        ledger.share(2)


def test_forks_share_the_account(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=10), lambda progress: None)
    ledger.simulation().fork().propose(0, problem.space.config(0, 3))

    assert ledger.simulations == 2


def test_cut_off_proposals_are_counted(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=10), lambda progress: None)
    ledger.simulation().propose(0, problem.space.config(0, 3), cutoff_ns=1)

    assert (ledger.simulations, ledger.cutoffs) == (2, 1)


def test_a_rejected_proposal_can_be_the_best_strategy(problem: Problem) -> None:
    ledger = Ledger(problem, Budget(simulations=5000), lambda progress: None)
    simulation = ledger.simulation()
    rng, costs = np.random.default_rng(0), [simulation.cost_ns]
    for operator in itertools.chain.from_iterable(itertools.repeat(range(6), 50)):
        costs.append(simulation.propose(operator, problem.space.sample(operator, rng)).cost_ns)
        simulation.reject()

    assert ledger.best_ns == min(costs) == problem.simulation(ledger.best_strategy).cost_ns


def test_the_curve_falls_and_ends_with_the_reported_cost(problem: Problem) -> None:
    result = Walk(seed=1).search(problem, Budget(simulations=200))
    best = [point.best_ms for point in result.curve]

    assert best == sorted(best, reverse=True)
    assert best[-1] == result.cost_ns / 1e6


def test_the_reported_cost_is_that_of_a_full_simulation(problem: Problem) -> None:
    result = Walk(seed=2).search(problem, Budget(simulations=200))

    assert result.cost_ns == problem.simulation(result.strategy).cost_ns


def test_progress_is_reported_at_the_end(problem: Problem) -> None:
    reports: list[Progress] = []
    Walk(seed=0).search(problem, Budget(simulations=50), reports.append)

    assert (reports[-1].simulations, reports[-1].fraction) == (50, 1.0)


def test_ctrl_c_ends_the_search_with_the_best_so_far(problem: Problem) -> None:
    result = Stop(seed=0).search(problem, Budget(simulations=50))

    assert result.is_interrupted
    assert result.cost_ns == problem.data_parallel_ns


@pytest.mark.parametrize(
    ("simulations", "seconds", "message"),
    [
        (0, None, "budget.simulations=0: it must be a whole number, at least 1"),
        (-3, None, "budget.simulations=-3: it must be a whole number, at least 1"),
        (None, 0.0, "budget.seconds=0.0: it must be positive"),
        (None, None, "budget.simulations=None: give simulations, seconds or both"),
    ],
)
def test_a_budget_without_use_is_refused(simulations: int | None, seconds: float | None, message: str) -> None:
    with pytest.raises(IllegalBudgetError) as error:
        Budget(simulations, seconds)

    assert str(error.value) == message


@pytest.fixture
def earlier(problem: Problem) -> Earlier:
    """A search that found a better strategy within seven simulations."""
    result = Walk(seed=1).search(problem, Budget(simulations=2000))
    return Earlier(
        strategy=result.strategy,
        simulations=7,
        cutoffs=2,
        seconds=5.0,
        curve=(CurvePoint(7, 5.0, result.cost_ns / 1e6),),
    )


def test_what_an_earlier_search_spent_is_charged(problem: Problem, earlier: Earlier) -> None:
    result = Walk(seed=2).search(problem, Budget(simulations=10), earlier=earlier)

    assert (result.simulations, result.cutoffs, result.curve[0]) == (10, 2, earlier.curve[0])
    assert 5 <= result.seconds < 10


def test_what_an_earlier_search_found_is_kept(problem: Problem, earlier: Earlier) -> None:
    result = Walk(seed=2).search(problem, Budget(simulations=10), earlier=earlier)

    assert result.cost_ns <= problem.simulation(earlier.strategy).cost_ns


def test_search_starts_at_the_best_of_the_earlier_one(problem: Problem, earlier: Earlier) -> None:
    ledger = Ledger(problem, Budget(simulations=10), lambda progress: None, earlier)

    (part, *_) = ledger.split(2, rounds=1)
    for one in (ledger, part):
        assert one.start_strategy("data_parallel", np.random.default_rng(0)) == earlier.strategy
