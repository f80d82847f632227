"""Ledger: counts what a search spends, stops it when the budget is spent, and keeps the best strategy it priced."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from agents.budget import Budget, Progress
from agents.curve_point import CurvePoint
from sim.chain import NO_PATIENCE, Chain, Steps
from sim.draws import Draws
from sim.neighbourhood import Scan
from sim.problem import Problem
from sim.simulation import Proposal, Simulation
from sim.strategies import start_strategy
from sim.strategy import ParallelConfig, Strategy
from sim.tree import Walk

REPORT_INTERVAL_S = 0.1
WALK_INTERVAL_S = 0.05
MAX_STEPS_AT_ONCE = 65_536

Report = Callable[[Progress], None]
Note: TypeAlias = int | float | str


class BudgetExhausted(Exception):  # noqa: N818 (a signal, not an error)
    """The budget is spent; ends a search from within."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What a search that another one continues had spent and found.

    Attributes:
        strategy: its best.
        simulations: strategies that it priced, those cut off included.
        cutoffs: how many of them were cut off.
        seconds: wall-clock time that it took.
        curve: its improvements, in order.
    """

    strategy: Strategy
    simulations: int
    cutoffs: int
    seconds: float
    curve: tuple[CurvePoint, ...]


class Ledger:
    """The account of one search, alike for all agents.

    A strategy that needs less memory than another beyond what the devices have is better; between two that fit, the
    faster one is.

    Args:
        problem: what is searched.
        budget: what may be spent.
        report: is told the progress several times a second.
        earlier: the search that this one continues; what it spent is charged to the same budget.
    """

    def __init__(self, problem: Problem, budget: Budget, report: Report, earlier: Earlier | None = None) -> None:
        self.problem, self.budget = problem, budget
        self.simulations = 0
        self.cutoffs = 0
        self.curve: list[CurvePoint] = []
        self.notes: dict[str, Note] = {}
        self._report = report
        self._data_parallel_ns = problem.data_parallel_ns
        self._best: tuple[int, int] | None = None
        self._best_configs: list[ParallelConfig] = list(problem.data_parallel.configs)
        self._prices: list[tuple[int, int]] = []  # of the improvements, as in the curve
        self._is_one_opt = False
        self._is_stopped = False
        self._began = time.perf_counter()
        self._next_report = self._began
        self._steps_at_once = 16
        self._stage = ""
        self._start: Strategy | None = None
        if earlier is not None:
            self._go_on(earlier)

    def _go_on(self, earlier: Earlier) -> None:
        """Take over what an earlier search spent and found."""
        priced = self.problem.simulation(earlier.strategy)
        self._start, self._best_configs = earlier.strategy, list(earlier.strategy.configs)
        self._best = (priced.overflow_bytes, priced.cost_ns)
        self.simulations, self.cutoffs = earlier.simulations, earlier.cutoffs
        self._began -= earlier.seconds
        self.curve, self._prices = list(earlier.curve), [self._best for _ in earlier.curve]

    @property
    def seconds(self) -> float:
        """Time since the search began."""
        return time.perf_counter() - self._began

    @property
    def is_late(self) -> bool:
        """Whether the budget's time is over."""
        return self.budget.seconds is not None and self.seconds >= self.budget.seconds

    @property
    def best_ns(self) -> int:
        """Cost of the best strategy; that of data parallelism as long as nothing was priced."""
        return self._best[1] if self._best is not None else self._data_parallel_ns

    @property
    def fits(self) -> bool:
        """Whether the best strategy fits the devices' memory."""
        return self._best is not None and self._best[0] == 0

    @property
    def best_strategy(self) -> Strategy:
        """The best strategy priced; data parallelism as long as there was none."""
        return Strategy(self.problem.graph, self.problem.topology, self._best_configs)

    @property
    def is_one_opt(self) -> bool:
        """Whether all strategies that differ from the best in one operator's config were priced, and none is better."""
        return self._is_one_opt

    def certify_one_opt(self, configs: Sequence[ParallelConfig]) -> None:
        """An agent has priced all strategies that differ in one config from these, and none was better."""
        self._is_one_opt = self._is_one_opt or self._best_configs == list(configs)

    def progress(self, parts: Sequence["Ledger"] = ()) -> Progress:
        """How far the search is, with what it has in the ``parts`` of a ``split`` that are not merged yet."""
        accounts = [self, *parts]
        best = min(accounts, key=lambda ledger: ledger._best or (sys.maxsize, sys.maxsize))
        return Progress(
            sum(account.simulations for account in accounts),
            sum(account.cutoffs for account in accounts),
            self.seconds,
            best.best_ns,
            self._data_parallel_ns,
            best._best is None or best.fits,
            self.budget,
            self._stage,
            best._best_configs,
        )

    def start_strategy(self, name: str, rng: np.random.Generator) -> Strategy:
        """Where a search starts: the named strategy inside the space, or the best of the search that it continues."""
        return self._start if self._start is not None else start_strategy(name, self.problem, rng)

    def simulation(self, strategy: Strategy | None = None) -> "MeteredSimulation":
        """A simulation from ``strategy`` (data parallelism by default) whose pricings are charged here."""
        return MeteredSimulation(self, strategy if strategy is not None else self.problem.data_parallel)

    def look(self, stage: str = "") -> None:
        """Report now and then, and end the search if the budget is spent; between pricings, call it often.

        Args:
            stage: what the search does instead of pricing, for the progress bar.

        Raises:
            BudgetExhausted: nothing is left.
        """
        now = time.perf_counter()
        self._stage = stage
        if self._is_stopped:
            raise BudgetExhausted
        if self.budget.simulations is not None and self.simulations >= self.budget.simulations:
            raise BudgetExhausted
        if self.is_late:
            raise BudgetExhausted
        if now >= self._next_report:
            self._next_report = now + REPORT_INTERVAL_S
            self._report(self.progress())

    def note(self, name: str, value: Note) -> None:
        """Keep something that the search found out beside the strategy, for its result; the unit is in the name."""
        self.notes[name] = value

    def charge(self) -> None:
        """Pay for one pricing.

        Raises:
            BudgetExhausted: nothing is left.
        """
        self.look()
        self.simulations += 1

    def charge_batch(self, count: int) -> int:
        """Pay for up to ``count`` pricings that are made together; returns how many the budget allows.

        Raises:
            BudgetExhausted: nothing is left.
        """
        self.look()
        if self.budget.simulations is not None:
            count = min(count, self.budget.simulations - self.simulations)
        self.simulations += count
        return count

    def record_batch(
        self,
        overflow_bytes: NDArray[np.int64],
        cost_ns: NDArray[np.int64],
        configs: Callable[[int], list[ParallelConfig]],
    ) -> None:
        """Note the prices, (count,) each, of the pricings that ``charge_batch`` was last paid for, in order.

        Args:
            overflow_bytes: memory needed beyond what the devices have.
            cost_ns: iteration times.
            configs: called for each that is the best so far.
        """
        total = self.simulations
        for number, price in enumerate(zip(overflow_bytes.tolist(), cost_ns.tolist(), strict=True)):
            if self._best is None or price < self._best:
                self.simulations = total - len(cost_ns) + number + 1
                self.record(*price, partial(configs, number))
        self.simulations = total

    def share(self, num_parts: int) -> tuple[int | None, float | None]:
        """Simulations and seconds that each of ``num_parts`` equal parts of the rest of the budget has.

        None where the budget sets no limit.

        Raises:
            BudgetExhausted: no time is left.
        """
        simulations = seconds = None
        if self.budget.simulations is not None:
            simulations = (self.budget.simulations - self.simulations) // num_parts
        if self.budget.seconds is not None:
            seconds = (self.budget.seconds - self.seconds) / num_parts
            if seconds <= 0:
                raise BudgetExhausted
        return simulations, seconds

    def split(self, num_parts: int, *, rounds: int) -> list["Ledger"]:
        """Ledgers of equal parts of what is left, for searches that run at the same time; ``merge`` comes next.

        Simulations that cannot be divided go to the first; each has at least one, so there may be fewer ledgers.

        Args:
            num_parts: how many.
            rounds: they follow each other in so many rounds, which share the seconds.

        Raises:
            BudgetExhausted: nothing is left.
        """
        self.look()
        left, seconds = self.share(1)
        num_parts = num_parts if left is None else min(num_parts, left)
        seconds = None if seconds is None else seconds / rounds
        counts = [None if left is None else (left + num_parts - 1 - k) // num_parts for k in range(num_parts)]
        parts = [Ledger(self.problem, Budget(count, seconds), lambda progress: None) for count in counts]
        for part in parts:
            part._start = self._start
        return parts

    def start(self) -> None:
        """Let the time begin now."""
        self._began = time.perf_counter()

    def stop(self) -> None:
        """End the search at its next pricing."""
        self._is_stopped = True

    def report_with(self, parts: Sequence["Ledger"]) -> None:
        """Report the progress of a search that goes on in ``parts``."""
        self._report(self.progress(parts))

    def merge(self, parts: Sequence["Ledger"]) -> None:
        """Take over what the ledgers of a ``split`` spent and found.

        In the curve they took turns, one pricing each; so it, and the best strategy, do not depend on their speed.
        """
        found = [
            (point.simulations, number, point, price)
            for number, part in enumerate(parts)
            for point, price in zip(part.curve, part._prices, strict=True)
        ]
        for count, number, point, price in sorted(found, key=lambda entry: entry[:2]):
            if self._best is None or price < self._best:
                part = parts[number]
                simulations = self.simulations + sum(
                    min(other.simulations, count if k <= number else count - 1) for k, other in enumerate(parts)
                )
                seconds = point.seconds + part._began - self._began
                if self.curve:
                    seconds = max(seconds, self.curve[-1].seconds)
                self._best, self._best_configs, self._is_one_opt = price, part._best_configs, part._is_one_opt
                self._prices.append(price)
                self.curve.append(CurvePoint(simulations, seconds, point.best_ms))
        for part in parts:
            self.notes |= part.notes
        self.simulations += sum(part.simulations for part in parts)
        self.cutoffs += sum(part.cutoffs for part in parts)

    def walk(self, chain: Chain, count: int, patience: int = NO_PATIENCE) -> Steps:
        """Let a chain walk for a moment and pay for its steps.

        The number of steps between two looks at the clock follows the chain's speed and does not change what it does.

        Args:
            chain: over a simulation of this ledger.
            count: proposals at most.
            patience: proposals without a new best at which it stops.

        Raises:
            BudgetExhausted: nothing is left.
        """
        return self._pay(lambda allowed: chain.walk(allowed, patience), count, lambda: chain.best_configs)

    def draw(self, draws: Draws) -> None:
        """Draw strategies for a moment, and pay for them.

        Raises:
            BudgetExhausted: nothing is left.
        """
        self._pay(draws.walk, MAX_STEPS_AT_ONCE, lambda: draws.best_configs)

    def scan(self, scan: Scan) -> bool:
        """Let a scan price all its candidates, and pay for them; returns whether it found a better strategy.

        Raises:
            BudgetExhausted: nothing is left.
        """
        is_better = False
        while scan.left > 0:
            steps = self._pay(scan.walk, scan.left, lambda: list(scan.simulation.configs))
            is_better = is_better or bool(steps.improvements)
        return is_better

    def finish(self, walk: Walk) -> None:
        """Let an exact search go on to its end, and pay for it.

        Raises:
            BudgetExhausted: nothing is left.
        """
        while not walk.is_done:
            self._pay(walk.walk, MAX_STEPS_AT_ONCE, lambda: walk.best_configs)

    def _pay(self, walk: Callable[[int], Steps], count: int, best_configs: Callable[[], list[ParallelConfig]]) -> Steps:
        """Let something compiled make up to ``count`` pricings, as many as take a moment, and pay for them."""
        self.look()
        count = min(count, self._steps_at_once)
        if self.budget.simulations is not None:
            count = min(count, self.budget.simulations - self.simulations)
        before, began = self.simulations, time.perf_counter()
        steps = walk(count)
        self.cutoffs += steps.cutoffs
        for improvement in steps.improvements:
            self.simulations = before + improvement.simulations
            self.record(improvement.overflow_bytes, improvement.cost_ns, best_configs)
        self.simulations = before + steps.simulations
        seconds = max(time.perf_counter() - began, 1e-9)
        self._steps_at_once = min(max(1, int(count * WALK_INTERVAL_S / seconds)), MAX_STEPS_AT_ONCE)
        return steps

    def record(self, overflow_bytes: int, cost_ns: int, configs: Callable[[], list[ParallelConfig]]) -> None:
        """Note a price; ``configs`` is called if it is the best so far."""
        if self._best is None or (overflow_bytes, cost_ns) < self._best:
            self._best = (overflow_bytes, cost_ns)
            self._best_configs, self._is_one_opt = configs(), False
            self._prices.append(self._best)
            self.curve.append(CurvePoint(self.simulations, self.seconds, cost_ns / 1e6))


class MeteredSimulation(Simulation):
    """A simulation that charges every pricing to a ledger.

    Args:
        ledger: pays, and learns every price.
        strategy: where the simulation starts; pricing it is charged too.
    """

    def __init__(self, ledger: Ledger, strategy: Strategy) -> None:
        self._ledger = ledger
        super().__init__(ledger.problem, strategy)

    def restart(self, strategy: Strategy) -> int:
        """Price another strategy by full simulation; see ``Simulation.restart``."""
        self._ledger.charge()
        cost_ns = super().restart(strategy)
        self._ledger.record(self.overflow_bytes, cost_ns, lambda: list(strategy.configs))
        return cost_ns

    def propose(self, operator: int, config: ParallelConfig, cutoff_ns: int | None = None) -> Proposal:
        """Price a change; see ``Simulation.propose``."""
        self._ledger.charge()
        return self._noted({operator: config}, super().propose(operator, config, cutoff_ns))

    def propose_together(self, changes: Mapping[int, ParallelConfig], cutoff_ns: int | None = None) -> Proposal:
        """Price several changes in one go; see ``Simulation.propose_together``."""
        self._ledger.charge()
        return self._noted(changes, super().propose_together(changes, cutoff_ns))

    def _noted(self, changes: Mapping[int, ParallelConfig], proposal: Proposal) -> Proposal:
        if proposal.is_cutoff:
            self._ledger.cutoffs += 1
        else:
            self._ledger.record(proposal.overflow_bytes, proposal.cost_ns, lambda: self._changed(changes))
        return proposal

    def _changed(self, changes: Mapping[int, ParallelConfig]) -> list[ParallelConfig]:
        configs = list(self.configs)
        for operator, config in changes.items():
            configs[operator] = config
        return configs
