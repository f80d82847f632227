"""Instances: a distribution of problems to train on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.errors import OptionError
from experiments.model_named import model_named
from sim.models.generated import generated
from sim.problem import Problem
from sim.space import SoapSpace
from sim.sync import SCHEMES, Sync
from sim.topology import load_topology


@dataclass(frozen=True, slots=True)
class Instance:
    """What a problem is made of.

    Attributes:
        model: name of a model, or None for a generated network.
        topology: name.
        num_devices: the first devices of the topology.
        sync: scheme.
        overlap: of synchronisation and backward pass.
        network_seed: of the generated network.
    """

    model: str | None
    topology: str
    num_devices: int
    sync: str
    overlap: bool = True
    network_seed: int = 0

    def problem(self) -> Problem:
        """The problem, in the aligned space.

        Raises:
            OptionError: there is no such model.
            SimError: there is no such topology.
        """
        if self.model is None:
            graph = generated(num_devices=self.num_devices, seed=self.network_seed)
        else:
            graph = model_named(self.model, option="model")(num_devices=self.num_devices)
        topology = load_topology(self.topology, num_devices=self.num_devices)
        space = SoapSpace(graph, topology, variant="aligned")
        sync = Sync(scheme=self.sync, overlap=self.overlap)  # type: ignore[arg-type]
        return Problem(graph, topology, space=space, sync=sync)


class Instances:
    """Draws instances: a model (named or generated), a topology, a number of devices, a synchronisation scheme.

    Args:
        families: models by family.
        held_out: the family that no instance is drawn from, or None.
        generated_share: of the instances whose network is generated.
        topologies: names, with the most devices to take from each.
        num_devices: how many; only those that the topology has are drawn.
        syncs: schemes.
        serial_share: of the instances whose synchronisation follows the whole backward pass.

    Raises:
        OptionError: a family or a scheme that there is not, or numbers of devices that no topology has.
    """

    def __init__(
        self,
        *,
        families: Mapping[str, Sequence[str]],
        held_out: str | None,
        generated_share: float,
        topologies: Mapping[str, int],
        num_devices: Sequence[int],
        syncs: Sequence[str],
        serial_share: float,
    ) -> None:
        if held_out is not None and held_out not in families:
            raise OptionError("instances.held_out", f"{held_out!r} is none of {', '.join(families)}")
        for sync in syncs:
            if sync not in SCHEMES:
                raise OptionError("instances.syncs", f"{sync!r} is none of {', '.join(SCHEMES)}")
        for name, most in topologies.items():
            if not any(count <= most for count in num_devices):
                raise OptionError("instances.num_devices", f"none of {list(num_devices)} fits {name} with {most}")
        for key, share in (("generated_share", generated_share), ("serial_share", serial_share)):
            if not 0 <= share <= 1:
                raise OptionError(f"instances.{key}", f"{share} is not between 0 and 1")
        self.models = [model for family, models in families.items() if family != held_out for model in models]
        self.generated_share = generated_share if self.models else 1.0
        self.serial_share, self.topologies = serial_share, dict(topologies)
        self.num_devices, self.syncs = list(num_devices), list(syncs)

    def is_generated(self, rng: np.random.Generator) -> bool:
        """Whether the next instance's network is to be generated."""
        return bool(rng.random() < self.generated_share)

    def draw(self, rng: np.random.Generator) -> Instance:
        """One instance."""
        is_generated = self.is_generated(rng)
        model, network_seed = str(rng.choice(self.models or [""])), int(rng.integers(2**31))
        topology = str(rng.choice(list(self.topologies)))
        counts = [count for count in self.num_devices if count <= self.topologies[topology]]
        return Instance(
            model=None if is_generated else model,
            topology=topology,
            num_devices=int(rng.choice(counts)),
            sync=str(rng.choice(self.syncs)),
            overlap=bool(rng.random() >= self.serial_share),
            network_seed=network_seed,
        )
