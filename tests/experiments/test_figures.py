"""Figures of the paper's evaluation, on small problems: what they print is what other ways compute."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from scipy import stats

from agents.budget import Budget
from agents.mcmc import Mcmc
from experiments.archive import Archive
from experiments.calibrated_validation import calibrated_validation
from experiments.errors import OptionError
from experiments.figures import equal_seconds, fig6, fig7, fig9b, fig10, fig11, table5
from experiments.figures.reproduction import Reproduction
from experiments.problem import make_problem
from experiments.simulator_speed import PAPER_SPEEDUPS
from sim.problem import Problem
from sim.strategies import expert

CONF = Path(__file__).resolve().parents[2] / "experiments" / "conf"
SYNCS = {"2018": ["sync=parameter_server", "sync.overlap=false"], "today": ["sync=ring"]}
SEARCHES = {"syncs": SYNCS, "agents": ["mcmc"], "simulations": 60, "seeds": [0, 1, 2, 3]}
"""Of figures 6, 7 and 9b."""


@pytest.fixture(scope="module", autouse=True)
def application() -> Iterator[None]:
    """What a Hydra application does before the archive is used."""
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        yield


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def lines(reproduction: Reproduction) -> list[dict[str, Any]]:
    return [dict(zip(reproduction.header, row, strict=True)) for row in reproduction.rows]


def lenet(sync: str, num_devices: int = 4, topology: str = "p100_cluster") -> Problem:
    overrides = ["model=lenet", f"topology={topology}", f"num_devices={num_devices}", *SYNCS[sync]]
    return make_problem(hydra.compose("config", [*overrides, "tracker=none"]))


def mcmc_ms(problem: Problem) -> float:
    """Interquartile mean over the four seeds, by the searcher alone."""
    options: dict[str, Any] = {"starts": ["data_parallel", "random"], "temperature": 0.001, "patience": 0.5}
    options |= {"reset_every": None, "propagation": 0.0}
    times = [Mcmc(**options, seed=seed).search(problem, Budget(simulations=60)).cost_ns / 1e6 for seed in range(4)]
    return float(stats.trim_mean(times, 0.25))


# Figure 6


@pytest.fixture(scope="module")
def small_fig6(tmp_path_factory: pytest.TempPathFactory) -> Reproduction:
    archive = Archive(tmp_path_factory.mktemp("fig6"))
    return fig6.fig6(models=["lenet"], clusters=[("p100_cluster", 4)], archive=archive, **SEARCHES)


def test_figure_6_has_the_times_that_simulator_and_searcher_give(small_fig6: Reproduction) -> None:
    expected = {}
    for sync in SYNCS:
        problem = lenet(sync)
        expected[sync, "data_parallel"] = problem.data_parallel_ns / 1e6
        expected[sync, "expert"] = problem.simulation(expert(problem)).cost_ns / 1e6
        expected[sync, "mcmc"] = mcmc_ms(problem)

    found = {(line["sync"], line["strategy"]): line["iteration_ms"] for line in lines(small_fig6)}
    assert found == pytest.approx(expected, abs=1e-3)


def test_figure_6_divides_by_the_better_baseline(small_fig6: Reproduction) -> None:
    for sync in SYNCS:
        times = {line["strategy"]: line["iteration_ms"] for line in lines(small_fig6) if line["sync"] == sync}
        ratios = {
            line["strategy"]: line["speedup_over_better_baseline"] for line in lines(small_fig6) if line["sync"] == sync
        }

        better = min(times["data_parallel"], times["expert"])
        assert ratios == pytest.approx({name: better / time for name, time in times.items()}, rel=1e-2)


def test_throughput_is_of_one_device(small_fig6: Reproduction) -> None:
    for line in lines(small_fig6):
        batch_per_device = lenet("today").graph.operators[0].sizes[0] / 4
        expected = batch_per_device / line["iteration_ms"] * 1e3
        assert line["samples_per_s_per_device"] == pytest.approx(expected, rel=1e-2)


def test_interval_holds_the_interquartile_mean(small_fig6: Reproduction) -> None:
    for line in lines(small_fig6):
        assert line["iteration_ms_low"] <= line["iteration_ms"] <= line["iteration_ms_high"]


def test_deterministic_strategies_need_one_seed(small_fig6: Reproduction) -> None:
    assert {line["strategy"]: line["num_seeds"] for line in lines(small_fig6)} == {
        "data_parallel": 1,
        "expert": 1,
        "mcmc": 4,
    }


def test_papers_points_of_figure_6_agree_with_figure_9b() -> None:
    for model, labels in fig9b.PAPER.items():
        assert fig6.PAPER_PER_DEVICE[model, "p100_cluster", 16, "mcmc"] * 16 == labels["mcmc"]


# Figure 7


@pytest.fixture(scope="module")
def small_fig7(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reproduction]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(fig7, "MODEL", "lenet")
        monkeypatch.setattr(fig7, "NUM_DEVICES", 4)
        yield fig7.fig7(archive=Archive(tmp_path_factory.mktemp("fig7")), **SEARCHES)


def test_figure_7_has_what_the_simulator_says_of_the_expert_strategy(small_fig7: Reproduction) -> None:
    found = [line for line in lines(small_fig7) if line["strategy"] == "expert"]

    for line in found:
        problem = lenet(line["sync"], topology="k80_cluster")
        simulation = problem.simulation(expert(problem))
        expected = (simulation.cost_ns / 1e9, simulation.communication_bytes / 2**30, simulation.compute_ns / 1e9)
        assert (line["iteration_s"], line["moved_gib"], line["task_s"]) == pytest.approx(expected, abs=1e-4)


def test_waiting_share_is_what_the_devices_do_not_compute(small_fig7: Reproduction) -> None:
    line = next(line for line in lines(small_fig7) if line["sync"] == "2018")

    problem = lenet("2018", topology="k80_cluster")
    expected = 1 - problem.simulation().busy_ns.sum() / 4 / problem.data_parallel_ns
    assert line["waiting_share"] == pytest.approx(expected, abs=1e-4)


def test_figure_7_has_the_papers_three_panels(small_fig7: Reproduction) -> None:
    line = next(line for line in lines(small_fig7) if line["strategy"] == "mcmc")

    assert (line["paper_iteration_s"], line["paper_moved_gib"], line["paper_task_s"]) == (1.1, 12.1, 28.7)


# Figure 9b


def test_figure_9b_divides_by_optcnn(archive: Archive) -> None:
    made = fig9b.fig9b(models=["lenet"], archive=archive, **SEARCHES)

    for sync in SYNCS:
        rates = {line["strategy"]: line["samples_per_s"] for line in lines(made) if line["sync"] == sync}
        ratios = {line["strategy"]: line["over_optcnn"] for line in lines(made) if line["sync"] == sync}
        assert ratios == pytest.approx({name: rate / rates["optcnn"] for name, rate in rates.items()}, rel=1e-3)


# Figure 11


@pytest.mark.parametrize("sync", SYNCS)
def test_full_and_delta_simulation_walk_the_same_chain(sync: str) -> None:
    overrides = " ".join(["model=lenet topology=p100_cluster num_devices=4", *SYNCS[sync]])
    keywords: dict[str, Any] = {"overrides": overrides, "temperature": 0.01, "proposals": 300, "seed": 0}

    full, delta = (fig11.walk(pricing=pricing, **keywords)["curve"] for pricing in ("full", "delta"))

    assert [(number, best) for number, _, best in full] == [(number, best) for number, _, best in delta]
    assert len(full) >= 3


def test_curves_of_figure_11_begin_with_data_parallelism_and_fall(archive: Archive) -> None:
    made = fig11.fig11(
        model="lenet",
        topology="p100_cluster",
        num_devices=4,
        syncs=SYNCS,
        temperature=0.001,
        proposals=100,
        seed=0,
        archive=archive,
    )

    for sync in SYNCS:
        costs = [line["best_ms"] for line in lines(made) if (line["sync"], line["pricing"]) == (sync, "delta")]
        assert costs[0] == lenet(sync).data_parallel_ns / 1e6
        assert costs == sorted(costs, reverse=True)


def test_best_of_a_curve_at_a_moment() -> None:
    curve = [(0, 0.0, 9.0), (3, 1.0, 5.0), (8, 2.0, 4.0), (10, 3.0, 4.0)]

    assert [fig11.best_at(curve, seconds) for seconds in (0.5, 1.0, 9.0)] == [9.0, 5.0, 4.0]


# Table 5


@pytest.mark.parametrize("model", table5.PAPER_SECONDS)
def test_papers_speedups_are_the_quotients_of_its_seconds(model: str) -> None:
    quotients = [full / delta for full, delta in table5.PAPER_SECONDS[model]]

    # The paper's seconds have two digits or three.
    assert quotients == pytest.approx(list(PAPER_SPEEDUPS[model].values()), rel=0.1)


def test_table_5_is_made_of_the_streams_times(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    speed = {"full_us": 800.0, "delta_us": 200.0, "cutoff_us": 100.0, "num_tasks": 9.6, "simulated_tasks": 4.0}
    monkeypatch.setattr(archive, "measurements", lambda function, settings: [speed for _ in settings])
    options: dict[str, Any] = {"topology": "p100_cluster", "sync": "ring", "temperature": 1.0, "proposals": 1}
    options |= {"rebuilds": 1, "seed": 0, "search_proposals": 1000}

    (line,) = lines(table5.table5(models=["nmt"], num_devices=[16], archive=archive, **options))

    assert (line["full_s"], line["delta_s"], line["delta_cutoff_s"]) == (0.8, 0.2, 0.1)
    assert (line["full_over_delta"], line["full_over_delta_cutoff"]) == (4.0, 8.0)
    assert (line["paper_full_s"], line["paper_delta_s"], line["paper_full_over_delta"]) == (998, 328, 3.0)


def test_a_stream_has_what_the_table_needs() -> None:
    options: dict[str, Any] = {"topology": "p100_cluster", "sync": "ring", "temperature": 0.001}

    speed = table5.stream_speed(model="lenet", num_devices=4, proposals=20, rebuilds=2, seed=0, **options)

    assert all(speed[name] > 0 for name in ("full_us", "delta_us", "cutoff_us", "num_tasks", "simulated_tasks"))


# Figure 10

CALIBRATION: dict[str, Any] = {
    "models": ["model=lenet", "model=nmt"],
    "num_ranks": 2,
    "link_repeats": 1,
    "max_seconds": 0.01,
    "sample": 2,
    "num_rounds": 1,
    "num_iterations": 1,
    "seed": 0,
    "oversubscribe": True,
}


def validated(simulated_ms: float, measured_ms: float) -> dict[str, Any]:
    shares = {f"{share}_ms": 1.0 for share in ("compute", "transfer", "synchronisation", "waiting")}
    return {
        "name": "sample",
        "strategy_hash": "0",
        "simulated_ms": simulated_ms,
        "measured_ms": measured_ms,
        "measured_interval_ms": [measured_ms - 1, measured_ms + 1],
        "error": simulated_ms / measured_ms - 1,
        "simulated": shares,
        "measured": shares,
    }


@pytest.fixture
def small_fig10(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> Reproduction:
    correlations = [
        {"kendall_beyond_noise": {"value": tau, "interval": None}, "num_pairs_beyond_noise": num_pairs}
        for tau, num_pairs in ((0.5, 4), (None, 0))
    ]
    common = {"median_error": 0.1, "worst_error": 0.4, "measured_spread": 2.5}
    found = [
        {"model": name, "comparisons": [validated(9, 10), validated(12, 20)], "correlation": correlation, **common}
        for name, correlation in zip(("lenet", "nmt"), correlations, strict=True)
    ]
    monkeypatch.setattr(archive, "measurements", lambda function, settings: found)
    return fig10.fig10(archive=archive, **CALIBRATION)


def test_figure_10_counts_what_is_within_the_papers_error_and_in_order(small_fig10: Reproduction) -> None:
    assert small_fig10.difference == (
        "2 of 4 strategies are simulated within 30% of what they take (paper: all), and 3 of 4 pairs of one model that "
        "differ by more than the noise in the measured order (paper: all). lenet: error 10.0% (median) and 40.0% "
        "(worst), 3 of 4 pairs in order, slowest 2.50 times the fastest. nmt: error 10.0% (median) and 40.0% (worst), "
        "0 of 0 pairs in order, slowest 2.50 times the fastest."
    )


def test_figure_10_has_every_strategy_beside_the_papers_bound(small_fig10: Reproduction) -> None:
    found = [(line["model"], line["error"], line["paper_error_below"]) for line in lines(small_fig10)]

    assert found == [(model, error, 0.3) for model in ("lenet", "nmt") for error in (-0.1, -0.4)]


def test_figure_10_on_fewer_cores_than_ranks_is_refused(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})

    with pytest.raises(OptionError) as error:
        fig10.fig10(archive=archive, **CALIBRATION | {"oversubscribe": False})

    message = "figure.num_ranks: 2 ranks would share 1 core; figure.oversubscribe=true lets them"
    assert str(error.value) == message


def test_validation_is_calibrated_by_measurements_of_its_own(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    keywords = {key: value for key, value in CALIBRATION.items() if key not in ("models", "oversubscribe")}

    found = calibrated_validation(overrides="model=lenet model.batch_per_device=2", **keywords)
    torch.set_num_threads(threads)

    assert found["model"] == "lenet"
    assert [entry["simulated_ms"] > 0 and entry["measured_ms"] > 0 for entry in found["comparisons"]] == [True, True]


# Equal seconds


def races(speedups: dict[str, list[float]]) -> tuple[equal_seconds.Race, equal_seconds.Records]:
    race = equal_seconds.Race("today", 1.0, "nmt")
    return race, {
        (race, agent): [{"speedup": value, "fits_memory": value < 9, "simulations": 1} for value in values]
        for agent, values in speedups.items()
    }


def test_chance_to_beat_mcmc_counts_pairs_of_seeds() -> None:
    race, records = races({"mcmc": [1.0, 1.2], "best_response": [1.1, 1.2]})

    chance, low, high = equal_seconds.chance_to_beat(race, "best_response", records)

    assert chance == (1 + 0 + 1 + 0.5) / 4
    assert (low, high) == (0.0, 1.0)


def test_what_does_not_fit_the_memory_loses() -> None:
    race, records = races({"mcmc": [1.0, 1.2], "best_response": [9.5, 9.5]})

    assert equal_seconds.chance_to_beat(race, "best_response", records) == (0.0, 0.0, 0.0)


def test_searchers_get_the_same_seconds(archive: Archive) -> None:
    made = equal_seconds.equal_seconds(
        models=["lenet"],
        topology="p100_cluster",
        num_devices=4,
        syncs={"today": ["sync=ring"]},
        agents=["mcmc", "best_response"],
        seconds=[0.05],
        seeds=[0, 1],
        archive=archive,
    )

    assert [(line["agent"], line["num_seeds"]) for line in lines(made)] == [("mcmc", 2), ("best_response", 2)]
    records = [path.read_text() for path in sorted(archive.folder.rglob("record.json"))]
    assert len(records) == 4
    assert all('"seconds": 0.05' in record for record in records)
    assert isinstance(made.picture, Figure)
    assert np.isfinite([line["speedup"] for line in lines(made)]).all()
