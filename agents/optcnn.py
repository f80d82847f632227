"""OptCNN: the exact optimum of an additive cost."""

from typing import Literal

from agents.agent import Agent
from agents.config_network import Placements, make_network
from agents.dominance import without_dominated
from agents.elimination import min_fill_order, minimise, node_and_edge_order
from agents.errors import AgentError
from agents.ledger import Ledger
from sim.problem import Problem


class OptCnn(Agent):
    """Minimises the additive cost (``sim.additive``) by dynamic programming, and prices the one strategy found.

    Paper: Jia, Lin, Qi, Aiken, "Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks", ICML 2018,
    https://arxiv.org/abs/1802.04924.

    Node elimination removes an operator with one edge in and one out, edge elimination one of two parallel edges; what
    is left is enumerated. Bucket elimination removes operators of any number of neighbours, in the order of least
    fill, so that it is exact on unrolled recurrent networks too, whose grid the two rules do not reduce; before that,
    it drops configs that others replace at no cost (``agents.dominance``).

    The result is optimal for the additive cost, which knows no overlap and no memory; its simulated time may be
    another, and other strategies may be faster. It notes ``additive_ms``, the optimum, and ``nodes_left``, what was
    enumerated.

    Args:
        placements: configs to choose from, by devices: ``same`` (OptCNN's: parts on devices 0, 1, 2, ...),
            ``aligned``, or ``all`` of the space.
        fuse_shared: operators that share weights take one config, as OptCNN has it for unrolled recurrent steps.
        elimination: ``nodes``, OptCNN's, or ``buckets``.
        memory_gb: what the tables may take, in 10**9 bytes.
        seed: of nothing: the result is always the same.
    """

    def __init__(
        self,
        *,
        placements: Placements,
        fuse_shared: bool,
        elimination: Literal["nodes", "buckets"],
        memory_gb: float,
        seed: int,
    ) -> None:
        super().__init__(seed=seed)
        if elimination not in ("nodes", "buckets"):
            raise AgentError(f"agent.elimination must be nodes or buckets, not {elimination}")
        if not memory_gb > 0:
            raise AgentError(f"agent.memory_gb must be positive, not {memory_gb}")
        self.placements, self.fuse_shared = placements, fuse_shared
        self.elimination, self.memory_gb = elimination, memory_gb

    def run(self, problem: Problem, ledger: Ledger) -> None:
        """Price operators and edges, eliminate, and simulate the optimum."""
        network = make_network(problem, placements=self.placements, fuse_shared=self.fuse_shared, look=ledger.look)
        if self.elimination == "nodes":
            order = node_and_edge_order(network)
        else:
            network = without_dominated(network, look=ledger.look)
            order = min_fill_order(network)
        cost_ns, choice = minimise(network, order, memory_gb=self.memory_gb, look=ledger.look)
        ledger.note("additive_ms", cost_ns / 1e6)
        ledger.note("nodes_left", len(order.rest))
        ledger.simulation(network.strategy(choice))
