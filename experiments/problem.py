"""make_problem: the problem that a configuration describes."""

from omegaconf import DictConfig

from experiments.construct import check_options, construct
from experiments.errors import OptionError
from sim.problem import Problem


def make_problem(cfg: DictConfig) -> Problem:
    """Build graph, topology, cost source, space and synchronisation, and check the seed.

    Raises:
        OptionError: a key that a constructor does not have, or a value of another type.
        SimError: values that contradict each other.
    """
    if type(cfg.seed) is not int or cfg.seed < 0:
        raise OptionError("seed", f"{cfg.seed!r} is not a whole number from 0 on")
    check_options(Problem, {"training": cfg.training})
    # A number of the topology itself (topology.num_devices=8) comes before that of the command.
    num_devices = cfg.num_devices if cfg.topology.get("num_devices") is None else cfg.topology.num_devices
    topology = construct(cfg, "topology", num_devices=num_devices)
    cfg.num_devices = topology.num_devices  # models refer to it
    graph = construct(cfg, "model")
    return Problem(
        graph,
        topology,
        cost=construct(cfg, "cost"),
        space=construct(cfg, "space")(graph, topology),
        sync=construct(cfg, "sync"),
        training=cfg.training,
    )
