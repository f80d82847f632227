"""SimulatorSpeed: what pricing a stream of strategies costs, by full and by delta simulation."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sim.chain import Chain
from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategies import named_strategy

T = TypeVar("T")

# FlexFlow r22.07, proposals per CPU-second on one core by its C++ simulator, separate forward and backward tasks
# (measured for this project; it has no working delta simulation). NMT with 40 operators.
R22_RATES = {
    ("alexnet", 4): 34_200,
    ("alexnet", 16): 3_350,
    ("alexnet", 64): 513,
    ("inception_v3", 4): 1_695,
    ("inception_v3", 16): 198,
    ("inception_v3", 64): 24,
    ("resnet101", 4): 2_193,
    ("resnet101", 16): 229,
    ("resnet101", 64): 30,
    ("nmt", 4): 5_855,
    ("nmt", 16): 531,
    ("nmt", 64): 77,
}

# Full over delta simulation in the FlexFlow paper, table 5, from random starts.
PAPER_SPEEDUPS = {
    "alexnet": {4: 2.9, 8: 3.0, 16: 2.9, 32: 3.0, 64: 3.0},
    "resnet101": {4: 3.2, 8: 3.2, 16: 3.1, 32: 3.2, 64: 3.3},
    "inception_v3": {4: 3.4, 8: 3.9, 16: 5.0, 32: 5.9, 64: 6.9},
    "rnntc": {4: 2.2, 8: 2.3, 16: 2.4, 32: 2.6, 64: 3.0},
    "rnnlm": {4: 2.3, 8: 2.5, 16: 2.7, 32: 3.2, 64: 3.6},
    "nmt": {4: 2.5, 8: 2.7, 16: 3.0, 32: 3.8, 64: 4.1},
}


@dataclass(frozen=True, slots=True)
class SimulatorSpeed:
    """What one stream cost; times are CPU time of the process, us for each proposal.

    Attributes:
        model: name of the model; those with keywords of their own have them behind it, and no published figures.
        num_devices: devices.
        start: name of the strategy that the stream starts from.
        num_tasks: of the strategies along the stream, mean.
        full_us: building and simulating a strategy of the stream from nothing, compiled; median.
        delta_us: a proposal, priced to its end, with its acceptance or rejection; mean.
        cutoff_us: the same where pricing stops once rejection is certain; mean.
        simulated_tasks: tasks that a proposal dequeued, with cutoff; mean.
        state_bytes: all arrays of the simulation.
        choices_s: wall-clock time to lay out the space, once for a problem.
    """

    model: str
    num_devices: int
    start: str
    num_tasks: float
    full_us: float
    delta_us: float
    cutoff_us: float
    simulated_tasks: float
    state_bytes: int
    choices_s: float

    @property
    def speedup(self) -> float:
        """Full over delta simulation with cutoff."""
        return self.full_us / self.cutoff_us

    @property
    def paper_speedup(self) -> float | None:
        """The paper's figure for the same model and number of devices (table 5)."""
        return PAPER_SPEEDUPS.get(self.model, {}).get(self.num_devices)

    @property
    def r22_speedup(self) -> float | None:
        """Proposals per CPU-second over those of FlexFlow r22.07."""
        rate = R22_RATES.get((self.model, self.num_devices))
        return None if rate is None else 1e6 / self.cutoff_us / rate


def measure_speed(
    problem: Problem, model: str, start: str, *, temperature: float, proposals: int, rebuilds: int, seed: int
) -> SimulatorSpeed:
    """Walk the same Metropolis chain with and without cutoff, and rebuild strategies along it.

    Args:
        problem: what is simulated.
        model: its name.
        start: name of the first strategy.
        temperature: of the chain, in units of the cost of data parallelism.
        proposals: length of the stream.
        rebuilds: full simulations, spread over it.
        seed: of the chain.
    """
    began = time.perf_counter()
    problem.choices  # noqa: B018 (laid out here, not within the stream)
    choices_s = time.perf_counter() - began

    def chain(*, has_cutoff: bool) -> Chain:
        rng = np.random.default_rng(seed)
        simulation = problem.simulation(named_strategy(start, problem, rng))
        scale = temperature * problem.data_parallel_ns
        warm = Chain(simulation.fork(), np.random.default_rng(seed), temperature_ns=scale, has_cutoff=has_cutoff)
        warm.walk(min(proposals, 20))  # compiles, and lets the arrays grow
        return Chain(simulation, rng, temperature_ns=scale, has_cutoff=has_cutoff)

    quick, complete = chain(has_cutoff=True), chain(has_cutoff=False)
    cutoff_s, steps = timed(lambda: quick.walk(proposals))
    delta_s, full_s, num_tasks = 0.0, [], []
    for number in range(rebuilds):
        count = proposals * (number + 1) // rebuilds - proposals * number // rebuilds
        delta_s += timed(lambda: complete.walk(count))[0]  # noqa: B023 (called at once)
        full_s.append(timed(fork_of(complete.simulation).rebuild)[0])
        num_tasks.append(complete.simulation.num_tasks)
    assert quick.simulation.strategy == complete.simulation.strategy, "the cutoff changed the chain"
    return SimulatorSpeed(
        model=model,
        num_devices=problem.topology.num_devices,
        start=start,
        num_tasks=float(np.mean(num_tasks)),
        full_us=float(np.median(full_s)) * 1e6,
        delta_us=delta_s / proposals * 1e6,
        cutoff_us=cutoff_s / proposals * 1e6,
        simulated_tasks=steps.simulated_tasks / proposals,
        state_bytes=complete.simulation.state_bytes,
        choices_s=choices_s,
    )


def fork_of(simulation: Simulation) -> Simulation:
    """A copy whose arrays were touched by a rebuild, so that the next one meets warm memory as a proposal does."""
    fork = simulation.fork()
    fork.rebuild()
    return fork


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """CPU seconds of a call, and what it returned."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result
