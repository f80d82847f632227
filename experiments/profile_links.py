"""Links between the ranks of this machine, as a topology file: ``python experiments/profile_links.py num_ranks=2``."""

import sys
from pathlib import Path

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import yaml
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from experiments.application import application
from experiments.construct import check_options, resolved
from experiments.cores import check_cores
from experiments.errors import OptionError
from experiments.run_folder import RunFolder, write_whole
from runtime.hop_profiler import HopTimes, profile_hops
from runtime.link_profiler import LinkTimes, profile_links
from runtime.options import RankOptions
from sim.collectives import ring_all_reduce_ns, ring_through
from sim.costs.line import fit_line
from sim.measured_topology import Link, measured_topology
from sim.topology import DeviceTopology, load_topology

BYTES_PER_KB = 1000

TOPOLOGY_KEYS = ("name", "device_kind", "memory_gb", "transfers_occupy_devices")

SHARED_RATIO = 1.5
"""Times of a message alone that messages in both directions at once take, from which on they take turns."""


@dataclass(frozen=True, slots=True)
class MeasuredLinks:
    """What was measured between the ranks of this machine.

    Attributes:
        times: of messages by themselves.
        hops: for each pair of ranks, messages between tasks of the executor.
        links: the lines through the hops.
        topology: keys of a topology file.
    """

    times: tuple[LinkTimes, ...]
    hops: Mapping[tuple[int, int], Sequence[HopTimes]]
    links: list[Link]
    topology: Mapping[str, Any]


@application("profile_links")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Measure all pairs of ranks and write the topology."""
    options = checked(cfg)
    with Console(stderr=True).status(f"timing messages between {cfg.num_ranks} ranks"):
        found = measure_links(options)
    output, folder, console = Path(cfg.output), RunFolder(), Console()
    output.parent.mkdir(parents=True, exist_ok=True)
    write_topology(output, found.topology)
    columns = ("first", "second", "num_bytes", "one_way_ns", "both_ways_ns", "exchange_ns", "all_reduce_ns")
    rows = ((*e.ranks, e.num_bytes, e.one_way_ns, e.both_ways_ns, e.exchange_ns, e.all_reduce_ns) for e in found.times)
    folder.write_csv("links.csv", columns, rows)
    hop_rows = ((*pair, e.num_bytes, e.whole_ns, e.split_ns) for pair, hops in found.hops.items() for e in hops)
    folder.write_csv("hops.csv", ("first", "second", "num_bytes", "whole_ns", "split_ns"), hop_rows)
    console.print(link_table(found.times, load_topology(str(output)), found.links))
    console.print(hop_table(found.hops, found.links))
    console.print(f"topology {output}, files in {folder.label}", soft_wrap=True)


def measure_links(options: Mapping[str, Any]) -> MeasuredLinks:
    """Measure all pairs of ranks.

    Args:
        options: the configuration, checked.
    """
    num_ranks, num_repeats, backend = options["num_ranks"], options["num_repeats"], options["backend"]
    ranks, pairs = RankOptions(backend=backend, is_pinned=backend == "gloo"), list(combinations(range(num_ranks), 2))
    sizes, hop_sizes = ([size * BYTES_PER_KB for size in options[key]] for key in ("sizes_kb", "hops_kb"))
    times = profile_links(num_ranks=num_ranks, sizes=sizes, num_repeats=num_repeats, options=ranks)
    hops = profile_hops(num_ranks=num_ranks, pairs=pairs, sizes=hop_sizes, num_repeats=num_repeats, options=ranks)
    takes_turns = options["transfers_occupy_devices"]
    links = [
        link([entry for entry in times if entry.ranks == pair], hops[pair], takes_turns=takes_turns) for pair in pairs
    ]
    keywords = {key: options[key] for key in TOPOLOGY_KEYS} | {"reduce_ns_per_byte": reduce_ns_per_byte(times, links)}
    return MeasuredLinks(times, hops, links, measured_topology(num_devices=num_ranks, links=links, **keywords))


def write_topology(path: Path, topology: Mapping[str, Any]) -> None:
    """Write what ``topology=`` reads, with the command that measured it."""
    write_whole(path, f"# Measured by {' '.join(sys.argv)}\n" + yaml.safe_dump(dict(topology), sort_keys=False))


def link(times: list[LinkTimes], hops: Sequence[HopTimes], *, takes_turns: bool) -> Link:
    """The line through the executor's hops between one pair of ranks.

    Args:
        times: of messages by themselves, which say whether the two directions share one connection.
        hops: in the executor.
        takes_turns: two messages at once are simulated one after the other even where they have a connection each.
    """
    largest = max(times, key=lambda entry: entry.num_bytes)
    is_shared = largest.both_ways_ns > SHARED_RATIO * largest.one_way_ns
    num_turns = 2 if is_shared or takes_turns else 1
    points = [(hop.num_bytes, ns) for hop in hops for ns in (hop.whole_ns, hop.split_ns / num_turns) if ns > 0]
    latency_ns, ns_per_byte = fit_line(points) if points else (0.0, 0.0)
    if ns_per_byte == 0.0:
        # So noisy that more bytes took no longer: what the largest message took is the most that a byte can take.
        ns_per_byte = largest.one_way_ns / largest.num_bytes
    return Link(times[0].ranks, latency_ns, ns_per_byte, is_shared)


def reduce_ns_per_byte(times: Sequence[LinkTimes], links: Sequence[Link]) -> float:
    """What all-reduces take beyond their messages for each byte that a rank sums; least squared relative errors.

    Args:
        times: of all-reduces between two ranks, each of which receives and sums half of the bytes.
        links: prices of their messages.
    """
    lines = {link.devices: link for link in links}
    summed = np.array([entry.num_bytes / 2 for entry in times])
    measured = np.array([entry.all_reduce_ns for entry in times])
    # Two steps of half of the bytes each, in which both directions may take turns.
    turns = np.array([2 if lines[entry.ranks].is_shared else 1 for entry in times])
    latency, per_byte = (
        np.array([getattr(lines[e.ranks], name) for e in times]) for name in ("latency_ns", "ns_per_byte")
    )
    rest = measured - 2 * (latency + summed * turns * per_byte)
    return max(0.0, float(np.sum(rest * summed / measured**2) / np.sum((summed / measured) ** 2)))


def link_table(times: tuple[LinkTimes, ...], topology: DeviceTopology, links: list[Link]) -> Table:
    """What was measured, beside what the simulator makes of it."""
    table = Table(title="times in us: measured, and by the topology", title_justify="left", title_style="bold")
    for column in ("ranks", "KB", "message", "model", "both ways", "exchange", "all-reduce", "ring"):
        table.add_column(column, justify="right")
    lines = {link.devices: link for link in links}
    for entry in times:
        line = lines[entry.ranks]
        ring = ring_all_reduce_ns(ring_through(topology, entry.ranks), entry.num_bytes)
        values = (
            entry.one_way_ns,
            line.latency_ns + line.ns_per_byte * entry.num_bytes,
            entry.both_ways_ns,
            entry.exchange_ns,
            entry.all_reduce_ns,
            ring,
        )
        name = "-".join(map(str, entry.ranks))
        table.add_row(name, f"{entry.num_bytes / BYTES_PER_KB:,.0f}", *(f"{value / 1000:,.0f}" for value in values))
    return table


def hop_table(hops: Mapping[tuple[int, int], Sequence[HopTimes]], links: list[Link]) -> Table:
    """What hops in the executor take, beside the simulator's message."""
    table = Table(title="hops in the executor, us", title_justify="left", title_style="bold")
    for column in ("ranks", "KB", "whole", "two of a split", "model, one"):
        table.add_column(column, justify="right")
    for line in links:
        for hop in hops[line.devices]:
            values = (hop.whole_ns, hop.split_ns, line.latency_ns + line.ns_per_byte * hop.num_bytes)
            name = "-".join(map(str, line.devices))
            table.add_row(name, f"{hop.num_bytes / BYTES_PER_KB:,.1f}", *(f"{value / 1000:,.0f}" for value in values))
    return table


def checked(cfg: DictConfig) -> dict[str, Any]:
    """The configuration, if it can be run.

    Raises:
        OptionError: a value of another type, or more ranks than cores.
    """
    options = resolved(cfg)
    check_options(RankOptions, {"backend": options["backend"]})
    check_options(measured_topology, {key: options[key] for key in TOPOLOGY_KEYS})
    for key in ("num_ranks", "num_repeats"):
        least = 2 if key == "num_ranks" else 1
        if type(options[key]) is not int or options[key] < least:
            raise OptionError(key, f"{options[key]!r} is not a whole number from {least} on")
    for key in ("sizes_kb", "hops_kb"):
        sizes = options[key]
        if not isinstance(sizes, list) or len(sizes) < 2 or not all(type(size) is int and size > 0 for size in sizes):
            raise OptionError(key, f"{sizes!r} is not a list of two or more whole numbers from 1 on")
    check_cores("num_ranks", options["num_ranks"], backend=options["backend"], oversubscribe=options["oversubscribe"])
    return options


if __name__ == "__main__":
    main()
