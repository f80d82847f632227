"""result_table: what a run found beside the strategies that everyone knows."""

from collections.abc import Mapping

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from experiments.record import Record
from sim.problem import Problem
from sim.simulation import Simulation
from sim.strategies import expert

BYTES_PER_GIB = 1 << 30


def result_table(record: Record, simulations: Mapping[str, Simulation], *, folder: str) -> Group:
    """A table for the terminal.

    Args:
        record: of the run.
        simulations: the named strategies to show, data parallelism first.
        folder: where the run's files are.
    """
    title = f"{record.model} on {record.num_devices} devices of {record.topology}"
    table = Table(title=title, title_justify="left", title_style="bold")
    table.add_column("strategy", overflow="fold")
    for column in ("iteration", "speed-up", "communication", "memory"):
        table.add_column(column, justify="right", overflow="fold")
    reference_ns = next(iter(simulations.values())).cost_ns
    for name, simulation in simulations.items():
        overflow_gib = simulation.overflow_bytes / BYTES_PER_GIB
        table.add_row(
            name,
            f"{simulation.cost_ns / 1e6:.3f} ms",
            f"{reference_ns / simulation.cost_ns:.2f}x",
            f"{simulation.communication_bytes / BYTES_PER_GIB:.2f} GiB",
            f"{overflow_gib:.2f} GiB too much" if overflow_gib else "fits",
        )
    lines = [bound_line(record), f"files in {folder}"]
    if record.num_unmeasured:
        asked = f"{record.num_unmeasured} of {record.num_part_shapes} part shapes"
        lines.insert(0, f"warning: {asked} were not measured and have analytic times")
    if record.agent is not None:
        counted = f"{record.simulations:,} simulation{'s' if record.simulations != 1 else ''}"
        lines.insert(
            0,
            f"{counted} ({record.cutoffs:,} cut off early) in {record.search_seconds:.1f} s"
            + (", interrupted" if record.is_interrupted else ""),
        )
        lines[1:1] = [
            f"{name}: {note:.3f}" if isinstance(note, float) else f"{name}: {note}"
            for name, note in record.notes.items()
        ]
    if record.is_one_opt:
        lines.insert(-1, "1-opt: another config of any single operator is no better (all were priced)")
    return Group(table, *(Text(line) for line in lines))


def bound_line(record: Record) -> str:
    """How far the strategy is from what no strategy of the space can beat."""
    line = f"no strategy of this space is faster than {record.lower_bound_ms:.3f} ms"
    if record.best_ms < record.lower_bound_ms:  # named strategies and files need not keep to the space
        return f"{line}; this one is not of the space"
    return f"{line}: gap {1 - record.lower_bound_ms / record.best_ms:.1%}"


def named_simulations(problem: Problem) -> dict[str, Simulation]:
    """What every run is compared with: data parallelism and the expert strategy."""
    return {"data_parallel": problem.simulation(), "expert": problem.simulation(expert(problem))}


def print_result(record: Record, simulations: Mapping[str, Simulation], *, folder: str) -> None:
    """Print the table to stdout."""
    Console().print(result_table(record, simulations, folder=folder), soft_wrap=True)
