"""IntegerProgram: Alpa's choice of a config for every operator, with a proven bound."""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array

from agents.agent import Agent
from agents.config_network import ConfigNetwork, Ints, Placements, make_network
from agents.dominance import without_dominated
from agents.errors import AgentError
from agents.ledger import Ledger
from agents.milp_process import Program, solve_beside
from sim.problem import Problem

SOLVER_SHARE = 0.95
"""Of the seconds left in the budget, so that what it found can still be priced."""

STATUS = {0: "optimal", 1: "stopped at the time limit"}
"""Of ``scipy.optimize.milp``."""


class TightForm(NamedTuple):
    """A network as an integer program.

    Attributes:
        program: costs in ms.
        offsets: (V + 1,) first column of each variable's choice.
        fixed_ms: what no choice changes.
    """

    program: Program
    offsets: Ints
    fixed_ms: float


class IntegerProgram(Agent):
    """Minimises the additive cost (``sim.additive``) as an integer program, and prices the one strategy found.

    Paper: Zheng et al., "Alpa: Automating Inter- and Intra-Operator Parallelism for Distributed Deep Learning", OSDI
    2022, section 4.2, https://arxiv.org/abs/2201.12023.

    One 0/1 column for each config of an operator, and one column for each pair of configs on an edge, whose sums over
    either end equal the other's columns. With equations, where Alpa's code has inequalities, the relaxation is tighter
    and the columns of pairs need not be integers. HiGHS (``scipy.optimize.milp``) solves it; dominated configs are
    dropped before. The solver is a process of its own, which ends with the search.

    It notes ``additive_ms``, the cost of the strategy found, ``additive_bound_ms``, below which no strategy has an
    additive cost (the dual bound), and ``solver``: ``optimal``, or ``stopped at the time limit`` with the best
    strategy so far, or with data parallelism if there was none yet.

    Deviations: the costs are those of OptCNN (``sim.additive``), not of XLA's sharded operators; there are no memory
    constraints.

    Args:
        placements: configs to choose from, by devices: ``same`` (parts on devices 0, 1, 2, ...), ``aligned``, or
            ``all`` of the space.
        fuse_shared: operators that share weights take one config.
        time_limit_s: of the solver; the seconds left in the budget limit it too.
        seed: of nothing: the result is always the same, but for the time limit.
    """

    is_anytime = False  # the solver's time is what is left

    def __init__(self, *, placements: Placements, fuse_shared: bool, time_limit_s: float, seed: int) -> None:
        super().__init__(seed=seed)
        if not time_limit_s > 0:
            raise AgentError(f"agent.time_limit_s must be positive, not {time_limit_s}")
        self.placements, self.fuse_shared, self.time_limit_s = placements, fuse_shared, time_limit_s

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Price operators and edges, solve, and simulate what was found."""
        network = make_network(problem, placements=self.placements, fuse_shared=self.fuse_shared, look=ledger.look)
        network = without_dominated(network, look=ledger.look)
        form = make_program(network)
        seconds = ledger.share(1)[1]
        limit = self.time_limit_s if seconds is None else min(self.time_limit_s, SOLVER_SHARE * seconds)
        stage = f"HiGHS: {int(form.offsets[-1]):,} configs, {len(form.program.costs):,} columns"
        solution = solve_beside(form.program, limit, lambda: ledger.look(stage))
        if solution.bound is not None:
            ledger.note("additive_bound_ms", float(solution.bound) + form.fixed_ms)
        ledger.note("solver", STATUS.get(solution.status, solution.message))
        if solution.columns is None:
            ledger.simulation(ledger.start_strategy("data_parallel", np.random.default_rng(self.seed)))
            return
        spans = zip(form.offsets, form.offsets[1:], strict=False)
        choice = [int(solution.columns[first:last].argmax()) for first, last in spans]
        ledger.note("additive_ms", network.cost_ns(choice) / 1e6)
        ledger.simulation(network.strategy(choice))


def make_program(network: ConfigNetwork) -> TightForm:
    """The tight form of REFERENCE 2.7; a pair with an end that has one config adds to the other end's costs."""
    sizes = np.array([len(costs) for costs in network.unary])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    unary = [costs.copy() for costs in network.unary]
    tables: list[tuple[int, int, Ints]] = []
    for (u, v), costs in network.pairs.items():
        if sizes[u] == 1:
            unary[v] += costs[0]
        elif sizes[v] == 1:
            unary[u] += costs[:, 0]
        else:
            tables.append((u, v, costs))
    # Only differences matter, and small numbers are kinder to the solver's tolerances.
    least = [costs.min() for costs in unary] + [costs.min() for _, _, costs in tables]
    rows, columns = [np.repeat(np.arange(len(sizes)), sizes)], [np.arange(offsets[-1])]
    values = [np.ones(offsets[-1])]
    num_rows, num_columns = len(sizes), int(offsets[-1])
    for u, v, costs in tables:
        pair: Ints = num_columns + np.arange(costs.size).reshape(costs.shape)
        for end, axis in ((u, pair), (v, pair.T)):
            equations = num_rows + np.arange(len(axis))
            rows += [np.repeat(equations, axis.shape[1]), equations]
            columns += [axis.ravel(), offsets[end] + np.arange(len(axis))]
            values += [np.ones(axis.size), -np.ones(len(axis))]
            num_rows += len(axis)
        num_columns += costs.size
    costs_ns = np.concatenate([costs.ravel() for costs in [*unary, *(costs for _, _, costs in tables)]])
    costs_ns -= np.repeat(least, [*sizes, *(costs.size for _, _, costs in tables)])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    program = Program(
        costs=costs_ns / 1e6,
        matrix=csc_array(entries, shape=(num_rows, num_columns)),
        right=(np.arange(num_rows) < len(sizes)).astype(float),
        is_integer=(np.arange(num_columns) < offsets[-1]).astype(int),
    )
    return TightForm(program, offsets, float(sum(least)) / 1e6)
