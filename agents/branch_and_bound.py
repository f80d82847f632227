"""BranchAndBound: the optimum on simulated time, or how far from it the best strategy is at most."""

from collections.abc import Callable

from agents.agent import Agent
from agents.budget import Budget
from agents.errors import AgentError
from agents.exact import described, listed_choice
from agents.ledger import BudgetExhausted, Ledger
from agents.threads import run_on_threads
from sim.problem import Problem
from sim.strategy import Strategy
from sim.tree import Branching, Choice, SearchTree


class BranchAndBound(Agent):
    """Depth-first branch and bound on simulated time.

    Paper: FlexFlow, section 8.3, searches depth first too and prunes with A*; it does not say by which bound.

    Another search finds the first strategy. Then operators choose their configs in topological order, the one of the
    least bound first; what is proven to be no better than the best strategy is left out, and where all have chosen, the
    strategy is simulated. The bounds are weighted means of the times of devices and paths (``sim.additive_bounds``),
    minimised over what is still open (``sim.cost_to_go``); no simulated time of a part of a strategy is among them,
    since first come, first served is not monotone. Of strategies that differ by a renumbering of equal devices that
    maps the space to itself, one is looked at (``sim.symmetries``).

    It notes the space, the number of strategies, the choices made (``nodes``), ``lower_bound_ms``, below which no
    strategy that fits is, the ``gap`` to it (1 - bound / found), and ``proof``: ``optimal``, or ``stopped``, when the
    bound is that of what is left to look at.

    Args:
        search: makes the search of the first strategy, of a seed.
        search_simulations: its simulations; at most half of the budget.
        rounds: of the method that finds the bounds.
        has_symmetries: whether symmetries are broken.
        max_configs: an operator with more is refused.
        num_threads: parts of the tree that are searched at the same time.
        seed: of the first search.
    """

    is_anytime = False  # half of the budget is the search before the proof

    def __init__(
        self,
        *,
        search: Callable[..., Agent],
        search_simulations: int,
        rounds: int,
        has_symmetries: bool,
        max_configs: int,
        num_threads: int,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        counts = {"search_simulations": search_simulations, "rounds": rounds, "max_configs": max_configs}
        for name, count in (counts | {"num_threads": num_threads}).items():
            if count < 1:
                raise AgentError(f"agent.{name} must be at least 1, not {count}")
        self.search_of_seed, self.search_simulations, self.rounds = search, search_simulations, rounds
        self.has_symmetries, self.max_configs, self.num_threads = has_symmetries, max_configs, num_threads

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Find a strategy, then prove that it is the best, or find a better one.

        Raises:
            AgentError: the space is too large to list.
        """
        choice = listed_choice(problem, max_configs=self.max_configs)
        ledger.note("space", f"{problem.space} on {problem.topology.num_devices} devices")
        ledger.note("strategies", described(choice))
        first = self._find_first(problem, ledger, choice)
        tree = SearchTree(
            choice,
            rounds=self.rounds,
            has_symmetries=self.has_symmetries,
            look=lambda: ledger.look("bounding"),
        )
        ledger.note("root_bound_ms", tree.root_ns / 1e6)
        walks: list[Branching | None] = [None]
        try:
            parts = ledger.split(self.num_threads, rounds=1)
            walks = [None] * len(parts)
            searches = [_Search(tree, first, walks, number) for number in range(len(parts))]
            run_on_threads(searches, parts, ledger, num_threads=self.num_threads)
        finally:
            _note(ledger, tree, walks)

    def _find_first(self, problem: Problem, ledger: Ledger, choice: Choice) -> Strategy:
        """The best strategy of another search, if it is of the space; else any."""
        left, seconds = ledger.share(2)
        count = self.search_simulations if left is None else max(1, min(self.search_simulations, left))
        part = Ledger(problem, Budget(count, seconds), lambda progress: ledger.look("searching a first strategy"))
        try:
            self.search_of_seed(seed=self.seed).run(problem, part)
        except BudgetExhausted:
            pass
        finally:
            part.notes.clear()
            first = part.best_strategy
            is_inside = all(config in own for config, own in zip(first.configs, choice.configs, strict=True))
            if is_inside:
                ledger.merge([part])
            else:
                ledger.simulations += part.simulations
        return first if is_inside else choice.strategy([0] * len(choice.configs))


class _Search:
    """The search of one part of the tree."""

    def __init__(self, tree: SearchTree, first: Strategy, walks: list[Branching | None], number: int) -> None:
        self._tree, self._walks, self._number = tree, walks, number
        self._first = first

    def __call__(self, ledger: Ledger) -> None:
        simulation = ledger.simulation(self._first)
        best = simulation.overflow_bytes, simulation.cost_ns
        walk = Branching(self._tree, simulation, best, simulation.configs, (self._number, len(self._walks)))
        self._walks[self._number] = walk
        ledger.finish(walk)


def _note(ledger: Ledger, tree: SearchTree, walks: list[Branching | None]) -> None:
    """What is proven: nothing left is faster than the least bound of what is left."""
    is_done = all(walk is not None and walk.is_done for walk in walks)
    open_ns = [tree.root_ns if walk is None else walk.open_ns for walk in walks]
    bounds = [bound for bound in open_ns if bound is not None]
    lower_ns = tree.root_ns
    if ledger.fits:
        lower_ns = max(lower_ns, min([*bounds, ledger.best_ns]))
    ledger.note("nodes", sum(walk.nodes for walk in walks if walk is not None))
    ledger.note("lower_bound_ms", lower_ns / 1e6)
    ledger.note("gap", (ledger.best_ns - lower_ns) / max(1, ledger.best_ns))
    ledger.note("proof", "optimal" if is_done else "stopped: the bound is that of what is left")
