"""profile_operators.py and profile_links.py: measured costs and links, and runs that use them."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from experiments import profile_links, profile_operators
from runtime.hop_profiler import HopTimes
from runtime.link_profiler import LinkTimes
from sim.costs.timing_file import load_timings
from sim.measured_topology import Link
from sim.topology import load_topology

ROOT = Path(__file__).resolve().parents[2]
TINY = (
    "num_devices=2",
    "model.batch_per_device=2",
    "topology=cpu_host",
    "profiler.max_seconds=0.01",
    "profiler.min_repeats=3",
    "profiler.flush_mb=1",
    "update_kb=[1,100]",
    "neighbours=0",
)
NUM_SHAPES = 26
"""Of LeNet on two devices."""

NUM_UPDATES = 8
"""Different sizes of the weights of its parts."""

NUM_NEEDED = NUM_SHAPES + NUM_UPDATES + 1
"""The executor's own time for a task as well."""


@pytest.fixture
def profile(call: Any, tmp_path: Path) -> Any:
    """Call profile_operators.py on a tiny LeNet with a database of its own."""
    threads = torch.get_num_threads()
    yield lambda *overrides: call(
        profile_operators.main, *TINY, f"database={tmp_path / 'new' / 'timings.sqlite'}", *overrides
    )
    torch.set_num_threads(threads)


def test_every_shape_is_timed_and_the_model_priced_with_it(profile: Any, price: Any, tmp_path: Path) -> None:
    outcome = profile()
    priced = price(*TINY[:3], "cost=measured", f"cost.database={tmp_path / 'new' / 'timings.sqlite'}")

    assert (outcome.code, priced.code) == (0, 0)
    assert f"{NUM_NEEDED} needed, 0 known before" in outcome.stdout
    assert priced.json("record.json")["num_unmeasured"] == 0


def test_second_run_measures_nothing_again(profile: Any, tmp_path: Path) -> None:
    profile()
    before = load_timings(str(tmp_path / "new" / "timings.sqlite"))

    outcome = profile()

    assert f"{NUM_NEEDED} needed, {NUM_NEEDED} known before" in outcome.stdout
    assert load_timings(str(tmp_path / "new" / "timings.sqlite")) == before


def test_every_shape_is_timed_by_itself_too(profile: Any) -> None:
    outcome = profile("in_company=false")

    assert outcome.code == 0
    assert f"{NUM_SHAPES + 2 + 1} needed, 0 known before" in outcome.stdout


def test_neighbours_end_with_the_command(profile: Any) -> None:
    cores = os.sched_getaffinity(0)

    outcome = profile("neighbours=1", "space.dims=S")

    for process in multiprocessing.active_children():
        process.join(10)
    assert outcome.code == 0
    assert not multiprocessing.active_children()
    assert os.sched_getaffinity(0) == cores


def test_csv_in_the_run_folder_takes_the_databases_place(profile: Any, price: Any, tmp_path: Path) -> None:
    table = profile().folder / "timings_fp32.csv"

    found = [
        price(*TINY[:3], "cost=measured", f"cost.database={path}").json("record.json")["best_ms"]
        for path in (table, tmp_path / "new" / "timings.sqlite")
    ]

    assert found[0] == found[1]


def test_fallback_is_recorded_and_printed(profile: Any, price: Any, tmp_path: Path) -> None:
    profile("space.dims=S")
    measured = ("cost=measured", f"cost.database={tmp_path / 'new' / 'timings.sqlite'}", "cost.fallback=analytic")

    outcome = price(*TINY[:3], *measured, "strategy=model_parallel")
    record = outcome.json("record.json")

    assert 0 < record["num_unmeasured"] < record["num_part_shapes"]
    line = f"{record['num_unmeasured']} of {record['num_part_shapes']} part shapes were not measured"
    assert f"warning: {line} and have analytic times" in outcome.stdout


def test_missing_shapes_are_one_sentence(profile: Any, price: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "timings.sqlite"
    profile()

    outcome = price(*TINY[1:3], "cost=measured", f"cost.database={path}", "num_devices=4")

    assert outcome.code == 2
    assert outcome.stderr.startswith(f"error: measured costs {path}: ")
    assert outcome.stderr.count("\n") == 1


def test_other_cost_sources_record_no_part_shapes(price: Any) -> None:
    record = price().json("record.json")

    assert (record["num_part_shapes"], record["num_unmeasured"]) == (None, None)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("dtypes=[fp8]", "dtype=fp8: give fp32 or bf16, or on cuda tf32"),
        ("dtypes=fp32", "dtypes: 'fp32' is not a list of texts"),
        ("device=abacus", "device=abacus: PyTorch finds no such device here; give cpu or cuda"),
        ("update_kb=[0.5]", "update_kb: [0.5] is not a list of whole numbers"),
        ("neighbours=-1", "neighbours: -1 is not a whole number from 0 on"),
        ("in_company=maybe", "in_company: 'maybe' is not true, false or null"),
        ("num_threads=0", "num_threads: 0 is not a whole number from 1 on"),
        ("profiler.min_repeat=3", "unknown key 'profiler.min_repeat'; did you mean 'profiler.min_repeats'?"),
    ],
)
def test_mistake_is_one_sentence(override: str, message: str, profile: Any) -> None:
    outcome = profile(override)

    assert (outcome.code, outcome.stderr) == (2, f"error: {message}\n")


def test_killed_run_keeps_its_results_and_the_next_one_ends_it(profile: Any, tmp_path: Path) -> None:
    path = tmp_path / "new" / "timings.sqlite"
    slow = ("profiler.max_seconds=0.3", "profiler.max_error=0", f"database={path}", f"hydra.run.dir={tmp_path / 'run'}")
    command = [sys.executable, str(ROOT / "experiments" / "profile_operators.py"), "model=lenet", *TINY, *slow]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while num_timings(path) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = num_timings(path)

    outcome = profile()

    assert 3 <= kept < NUM_SHAPES
    assert f"{NUM_NEEDED} needed, {kept} known before" in outcome.stdout
    assert num_timings(path) == NUM_NEEDED


def num_timings(path: Path) -> int:
    """Rows on disk; none if the table is not there yet."""
    if not path.is_file():
        return 0
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute("SELECT COUNT(*) FROM timing").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def links(*overrides: str, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    """The exit code of profile_links.py."""
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    monkeypatch.setattr(sys, "argv", ["profile_links", *overrides])
    try:
        profile_links.main()
    except SystemExit as error:
        return error.code
    return 0


def test_measured_links_are_a_topology(tmp_path: Path, price: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "new" / "links.yaml"
    quick = ("num_ranks=2", "num_repeats=3", "sizes_kb=[1,64,512]", "hops_kb=[1,64]", "oversubscribe=true")

    code = links(*quick, f"output={output}", f"hydra.run.dir={tmp_path / 'links'}", monkeypatch=monkeypatch)

    connections = load_topology(str(output), num_devices=2).connections
    assert code == 0
    assert max(connection.latency_ns for connection in connections) > 0
    assert yaml.safe_load(output.read_text())["devices"][1]["name"] == "rank1"
    assert price(f"topology={output}", "num_devices=2").code == 0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("num_ranks=1", "num_ranks: 1 is not a whole number from 2 on"),
        ("num_ranks=1000", f"num_ranks: 1000 ranks would share {len(os.sched_getaffinity(0))} cores; "),
        ("sizes_kb=[1]", "sizes_kb: [1] is not a list of two or more whole numbers from 1 on"),
        ("hops_kb=[1,0]", "hops_kb: [1, 0] is not a list of two or more whole numbers from 1 on"),
        ("backend=mpi", "backend: 'mpi' is not one of gloo, nccl"),
        ("device_kind=3", "device_kind: 3 is not a text"),
        ("memory_gb=lots", "memory_gb: 'lots' is not a number"),
    ],
)
def test_mistake_in_links_is_one_sentence(
    override: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code = links(override, f"hydra.run.dir={tmp_path / 'links'}", monkeypatch=monkeypatch)

    assert code == 2
    assert capfd.readouterr().err.startswith(f"error: {message}")


def test_a_link_whose_times_do_not_grow_is_as_slow_as_its_largest_message() -> None:
    times = [
        LinkTimes((0, 1), size, one_way, 2 * one_way, 0.0, 0.0) for size, one_way in ((1024, 900.0), (4096, 400.0))
    ]

    link = profile_links.link(times, [HopTimes(1000, 500.0, 900.0), HopTimes(2000, 400.0, 700.0)], takes_turns=False)

    assert (link.ns_per_byte, link.is_shared) == (400.0 / 4096, True)


def test_a_link_is_the_line_through_the_executors_hops() -> None:
    times = [LinkTimes((0, 1), size, 1.0, 2.0, 0.0, 0.0) for size in (1024, 4096)]

    link = profile_links.link(times, [HopTimes(1000, 150.0, 300.0), HopTimes(2000, 250.0, 500.0)], takes_turns=True)

    assert (round(link.latency_ns, 6), round(link.ns_per_byte, 6)) == (50.0, 0.1)


@pytest.mark.parametrize("is_shared", [False, True])
def test_sums_are_what_all_reduces_take_beyond_their_messages(is_shared: bool) -> None:
    link = Link((0, 1), 100.0, 0.25, is_shared)
    messages = 0.5 if is_shared else 0.25  # ns for each byte of the tensor
    times = [LinkTimes((0, 1), size, 0.0, 0.0, 0.0, 200.0 + size * messages + size / 2 * 0.6) for size in (1000, 64000)]

    assert profile_links.reduce_ns_per_byte(times, [link]) == pytest.approx(0.6)


def test_all_reduces_faster_than_their_messages_have_sums_for_nothing() -> None:
    times = [LinkTimes((0, 1), size, 0.0, 0.0, 0.0, 0.1 * size) for size in (1000, 64000)]

    assert profile_links.reduce_ns_per_byte(times, [Link((0, 1), 100.0, 0.25, False)]) == 0.0
