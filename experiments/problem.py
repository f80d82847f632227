"""make_problem: the problem that a configuration describes."""

from omegaconf import DictConfig

from experiments.construct import check_options, construct
from experiments.errors import OptionError
from sim.costs.measured import MeasuredCost
from sim.problem import Problem
from sim.space import SoapSpace


def make_problem(cfg: DictConfig) -> Problem:
    """Build graph, topology, cost source, space and synchronisation, and check the seed.

    Raises:
        OptionError: a key that a constructor does not have, or a value of another type.
        SimError: values that contradict each other, or measured costs that lack a part of the problem.
    """
    if type(cfg.seed) is not int or cfg.seed < 0:
        raise OptionError("seed", f"{cfg.seed!r} is not a whole number from 0 on")
    check_options(Problem, {"training": cfg.training})
    space, cost = make_space(cfg), construct(cfg, "cost")
    if isinstance(cost, MeasuredCost):
        cost.check(space.graph, space)
    return Problem(
        space.graph, space.topology, cost=cost, space=space, sync=construct(cfg, "sync"), training=cfg.training
    )


def make_space(cfg: DictConfig) -> SoapSpace:
    """Build the graph, the topology and the space of legal configs."""
    # A number of the topology itself (topology.num_devices=8) comes before that of the command.
    num_devices = cfg.num_devices if cfg.topology.get("num_devices") is None else cfg.topology.num_devices
    topology = construct(cfg, "topology", num_devices=num_devices)
    cfg.num_devices = topology.num_devices  # models refer to it
    graph = construct(cfg, "model")
    return construct(cfg, "space")(graph, topology)
