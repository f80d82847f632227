"""Arguments: what all environments take, and the process that they describe."""

from collections.abc import Callable
from typing import TypedDict

from envs.decisions import Decisions
from envs.errors import MissingArgumentError, UnknownArgumentError
from envs.mdp import Mdp
from envs.meter import Meter
from envs.padding import Padding, Sizes
from envs.reward import CostReduction, Reward
from sim.costs.cost_source import CostSource
from sim.operator_graph import OperatorGraph
from sim.problem import Problem
from sim.space import SoapSpace, Variant
from sim.sync import Sync
from sim.topology import DeviceTopology

DEFAULT_VARIANT: Variant = "aligned"
"""Blocks that start at a multiple of their size. On 16 devices a linear layer has 160 configs (``block``: 470) and a
convolution of four divisible dimensions up to 700 (1987): all degrees, nestings and strides are among them, only
shifted copies are left out."""


class Arguments(TypedDict, total=False):
    """Keywords of every environment; either ``problem``, or ``graph`` and ``topology``.

    Attributes:
        problem: what to solve, in place of the next four.
        graph: the operator graph.
        topology: the device topology.
        cost: execution times of tasks; the analytic source by default.
        sync: synchronisation of gradients; overlapped ring all-reduces by default.
        space: the legal configs, enumerable; the problem's, or else ``aligned`` with all SOAP dimensions.
        reward: judges each step; ``CostReduction()`` by default.
        padding: sizes of the arrays, larger than the problem's own so that one policy serves several problems.
        meter: pays for every pricing, so that a search can count them; its exceptions pass through. Nobody by default.
    """

    problem: Problem | None
    graph: OperatorGraph | None
    topology: DeviceTopology | None
    cost: CostSource | None
    sync: Sync | None
    space: SoapSpace | None
    reward: Reward | None
    padding: Padding | None
    meter: Meter | None


def make_mdp(decide: Callable[[int, Sizes], Decisions], arguments: Arguments) -> Mdp:
    """The process that an environment's arguments describe.

    Args:
        decide: makes the decisions from the number of operators and the sizes.
        arguments: of the environment.

    Raises:
        UnknownArgumentError: there is no such keyword.
        MissingArgumentError: neither a problem, nor graph and topology, or both.
        NotEnumerableError: the space has no indices.
        PaddingError: the padding is smaller than the problem.
    """
    known = Arguments.__optional_keys__
    if unknown := [name for name in arguments if name not in known]:
        raise UnknownArgumentError(unknown[0], sorted(known))
    problem, space = arguments.get("problem"), arguments.get("space")
    parts = {name: arguments.get(name) for name in ("graph", "topology", "cost", "sync")}
    given = [name for name, part in parts.items() if part is not None]
    if problem is None:
        graph, topology = arguments.get("graph"), arguments.get("topology")
        if graph is None or topology is None:
            raise MissingArgumentError(f"only {' and '.join(given)}" if given else "none of them")
        space = space or SoapSpace(graph, topology, variant=DEFAULT_VARIANT)
        problem = Problem(graph, topology, cost=arguments.get("cost"), space=space, sync=arguments.get("sync"))
    elif given:
        raise MissingArgumentError(f"problem and {' and '.join(given)}")
    reward = arguments.get("reward") or CostReduction()
    padding = arguments.get("padding") or Padding()
    return Mdp(problem, space or problem.space, reward, arguments.get("meter"), padding, decide)
