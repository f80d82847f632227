"""Figure 11: best cost against time for the same search by full and by delta simulation."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import hydra
import numpy as np
from matplotlib.figure import Figure

from experiments.archive import Archive
from experiments.figures.bars import INK
from experiments.figures.reproduction import Reproduction
from experiments.problem import make_problem
from sim.simulation import Simulation
from sim.strategies import start_strategy
from sim.strategy import ParallelConfig, Strategy

PAPER_MINUTES = {"full": 16, "delta": 6}
"""When the searches of the figure end; below 8 minutes that by full simulation is behind."""

NUM_WARM_UPS = 20
NS_PER_MS = 1e6
HEADER = ("sync", "pricing", "proposals", "seconds", "best_ms", "paper_minutes_of_the_search")
COLOURS = {"full": "#9aa5b1", "delta": "#e0803c"}


def fig11(
    *,
    model: str,
    topology: str,
    num_devices: int,
    syncs: Mapping[str, Sequence[str]],
    temperature: float,
    proposals: int,
    seed: int,
    archive: Archive,
) -> Reproduction:
    """Let a Metropolis chain walk twice, each time pricing in another way (FlexFlow, figure 11).

    Args:
        model: name of the model.
        topology: name of the cluster.
        num_devices: how many of its devices.
        syncs: names of synchronisations, and the overrides of run.py that they stand for.
        temperature: of the chain, in units of the cost of data parallelism.
        proposals: of each walk.
        seed: of both walks.
        archive: keeps the walks.
    """
    problem = f"model={model} topology={topology} num_devices={num_devices}"
    settings = [
        {
            "pricing": pricing,
            "overrides": f"{problem} {' '.join(overrides)}",
            "temperature": temperature,
            "proposals": proposals,
            "seed": seed,
        }
        for overrides in syncs.values()
        for pricing in ("full", "delta")
    ]
    found = archive.measurements(walk, settings)
    curves = {
        sync: {"full": full["curve"], "delta": delta["curve"]}
        for sync, full, delta in zip(syncs, found[::2], found[1::2], strict=True)
    }
    return Reproduction(
        picture=_picture(curves),
        header=HEADER,
        rows=[
            [sync, pricing, *point, PAPER_MINUTES[pricing]]
            for sync, walks in curves.items()
            for pricing, curve in walks.items()
            for point in curve
        ],
        difference=" ".join(_sentence(sync, walks) for sync, walks in curves.items()),
    )


def walk(
    *, pricing: Literal["full", "delta"], overrides: str, temperature: float, proposals: int, seed: int
) -> dict[str, Any]:
    """Walk from data parallelism, proposing one operator's new config after the other.

    By full simulation every strategy's task graph is built from nothing; by delta simulation the last one's is changed.
    The loop around either is the same Python, so the walks differ in nothing but the time.

    Args:
        pricing: how strategies are priced.
        overrides: the problem, as behind run.py.
        temperature: in units of the cost of data parallelism.
        proposals: how many.
        seed: of proposals and acceptances.

    Returns:
        ``curve``: proposals, seconds and best cost in ms at the start, at every improvement and at the end.
    """
    problem = make_problem(hydra.compose("config", [*overrides.split(), "tracker=none"]))
    space, rng = problem.space, np.random.default_rng(seed)
    start = start_strategy("data_parallel", problem, rng)
    scale = temperature * problem.data_parallel_ns
    simulation = problem.simulation(start)
    price = _full_price if pricing == "full" else _delta_price
    for _ in range(NUM_WARM_UPS):  # compiles, and lets the arrays grow
        operator = int(rng.integers(len(problem.graph)))
        price(simulation, list(start.configs), operator, space.sample(operator, rng), -1)
    simulation.restart(start)
    configs, cost = list(start.configs), simulation.cost_ns
    best, curve = cost, [(0, 0.0, cost / NS_PER_MS)]
    began = time.perf_counter()
    for number in range(1, proposals + 1):
        operator = int(rng.integers(len(configs)))
        config = space.sample(operator, rng)
        highest = cost + math.floor(-math.log(1 - rng.random()) * scale)
        new = price(simulation, configs, operator, config, highest)
        if new is None:
            continue
        configs[operator], cost = config, new
        if cost < best:
            best = cost
            curve.append((number, time.perf_counter() - began, best / NS_PER_MS))
    curve.append((proposals, time.perf_counter() - began, best / NS_PER_MS))
    return {"curve": curve}


def _full_price(
    simulation: Simulation, configs: Sequence[ParallelConfig], operator: int, config: ParallelConfig, highest: int
) -> int | None:
    """Cost of the changed strategy if it fits and costs at most ``highest``; nothing is kept between two calls."""
    changed = [*configs[:operator], config, *configs[operator + 1 :]]
    cost = simulation.restart(Strategy(simulation.problem.graph, simulation.problem.topology, changed))
    return cost if cost <= highest and simulation.overflow_bytes == 0 else None


def _delta_price(
    simulation: Simulation, configs: Sequence[ParallelConfig], operator: int, config: ParallelConfig, highest: int
) -> int | None:
    """The same by changing the simulated strategy, and back if it costs more; without cutoff, as in the paper."""
    proposal = simulation.propose(operator, config)
    if proposal.cost_ns > highest or proposal.overflow_bytes > 0:
        simulation.reject()
        return None
    simulation.accept()
    return proposal.cost_ns


def best_at(curve: Sequence[Sequence[float]], seconds: float) -> float:
    """Best cost in ms after so many seconds."""
    return min(best_ms for _, passed, best_ms in curve if passed <= seconds)


def _sentence(sync: str, walks: Mapping[str, Sequence[Sequence[float]]]) -> str:
    (proposals, full_s, final_ms), (_, delta_s, delta_ms) = walks["full"][-1], walks["delta"][-1]
    assert final_ms == delta_ms, "full and delta simulation differ"
    behind = best_at(walks["full"], delta_s)
    return (
        f"With sync={sync} {proposals:,.0f} proposals take {full_s:.1f} s by full and {delta_s:.1f} s by delta "
        f"simulation ({full_s / delta_s:.1f}x; paper: {PAPER_MINUTES['full']} and {PAPER_MINUTES['delta']} minutes, "
        f"{PAPER_MINUTES['full'] / PAPER_MINUTES['delta']:.1f}x) and both find {final_ms:.1f} ms; when delta "
        f"simulation has ended, full simulation is at {behind:.1f} ms."
    )


def _picture(curves: Mapping[str, Mapping[str, Sequence[Sequence[float]]]]) -> Figure:
    """A panel for each synchronisation; steps, since the best stays until the next improvement."""
    picture = Figure(figsize=(11, 4), layout="constrained")
    for axes, (sync, walks) in zip(picture.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        for pricing, curve in walks.items():
            _, seconds, best = zip(*curve, strict=True)
            axes.step(seconds, best, where="post", color=COLOURS[pricing], linewidth=2, label=f"{pricing} simulation")
            axes.plot(seconds[-1], best[-1], "o", color=COLOURS[pricing])
        axes.set_title(f"sync={sync}", loc="left", color=INK)
        axes.set_xlabel("seconds")
        axes.set_ylabel("best strategy, ms")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    return picture
