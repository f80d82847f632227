"""simulate.py: the price of one strategy."""

from typing import Any

import pytest

from sim.models.nmt import nmt
from sim.problem import Problem
from sim.strategies import expert
from sim.topology import load_topology


def test_run_folder_has_all_files(price: Any) -> None:
    folder = price("strategy=expert").folder

    names = {path.name for path in folder.iterdir() if path.is_file()}
    assert names == {"record.json", "timeline.json", "task_graph.json", "breakdown.json", "strategy.svg"}


@pytest.mark.parametrize("strategy", ["data_parallel", "model_parallel", "expert", "single_device", "random"])
def test_strategy_may_be_a_name(strategy: str, price: Any) -> None:
    outcome = price(f"strategy={strategy}")

    assert outcome.code == 0
    assert strategy in outcome.stdout


def test_strategy_may_be_a_file_of_a_search(search: Any, price: Any) -> None:
    found = search("agent=random", "budget.simulations=20")

    record = price(f"strategy={found.folder / 'strategy.json'}").json("record.json")

    assert record["best_ms"] == found.json("record.json")["best_ms"]


def test_makespan_of_the_task_graph_is_the_cost_of_the_record(price: Any) -> None:
    outcome = price("strategy=model_parallel")

    assert outcome.json("task_graph.json")["makespan"] / 1e6 == outcome.json("record.json")["best_ms"]


def test_data_parallelism_has_a_speedup_of_one(price: Any) -> None:
    record = price().json("record.json")

    assert (record["speedup"], record["agent"], record["simulations"]) == (1.0, None, 0)


def test_same_seed_draws_the_same_random_strategy(price: Any) -> None:
    hashes = [price("strategy=random", "seed=4").json("record.json")["strategy_hash"] for _ in range(2)]

    assert hashes[0] == hashes[1]


def test_bound_is_below_what_was_found(price: Any) -> None:
    record = price("strategy=expert").json("record.json")

    assert 0 < record["lower_bound_ms"] <= record["best_ms"]


def test_gap_to_the_bound_is_printed(price: Any) -> None:
    outcome = price()
    record = outcome.json("record.json")

    gap = 1 - record["lower_bound_ms"] / record["best_ms"]
    assert (
        f"no strategy of this space is faster than {record['lower_bound_ms']:.3f} ms: gap {gap:.1%}" in outcome.stdout
    )


def test_a_strategy_beside_the_space_has_no_gap(price: Any) -> None:
    outcome = price("strategy=data_parallel", "space.dims=O", "model=alexnet")

    assert "this one is not of the space" in outcome.stdout


# The breakdown


def test_breakdown_of_every_device_adds_up_to_the_iteration(price: Any) -> None:
    outcome = price("strategy=random")
    breakdown = outcome.json("breakdown.json")

    for device in breakdown["devices"]:
        shares = [device[f"{name}_ms"] for name in ("compute", "transfer", "synchronisation", "idle")]
        assert sum(shares) == pytest.approx(outcome.json("record.json")["best_ms"])


def test_computing_of_the_kinds_is_that_of_the_record(price: Any) -> None:
    outcome = price("strategy=random")

    kinds = outcome.json("breakdown.json")["operator_kinds"]
    assert sum(kind["compute_ms"] for kind in kinds) == pytest.approx(outcome.json("record.json")["compute_ms"])


def test_kinds_and_categories_of_the_critical_path_add_up_to_the_iteration(price: Any) -> None:
    breakdown = price("strategy=random").json("breakdown.json")
    path = breakdown["critical_path"]

    sums = [
        sum(kind["critical_path_ms"] for kind in breakdown["operator_kinds"]),
        sum(group["total_ms"] for group in path["groups"]),
        path["compute_ms"] + path["transfer_ms"] + path["synchronisation_ms"],
    ]
    assert sums == pytest.approx([breakdown["iteration_ms"]] * 3)


def test_connections_are_busy_as_long_as_their_tasks_take(price: Any) -> None:
    outcome = price("strategy=random")
    busy_ms: dict[str, float] = {}
    for task in outcome.json("task_graph.json")["tasks"]:
        for device in task["devices"]:
            if "->" in device:
                busy_ms[device] = busy_ms.get(device, 0.0) + task["exe_time"] / 1e6

    found = {entry["connection"]: entry["busy_ms"] for entry in outcome.json("breakdown.json")["connections"]}
    assert found == pytest.approx(busy_ms)


def test_critical_path_is_told_in_words(price: Any) -> None:
    outcome = price("strategy=data_parallel", "model=nmt", "model.steps=8")
    breakdown = outcome.json("breakdown.json")
    path = breakdown["critical_path"]

    share = path["synchronisation_ms"] / breakdown["iteration_ms"]
    sentence = f"{share:.0%} waits for the synchronisation of "
    assert any(words.startswith(sentence) for words in path["words"])
    assert sentence in outcome.stdout


# Two strategies


@pytest.fixture
def diff(price: Any) -> Any:
    return lambda *overrides: price("strategy=data_parallel", "other=expert", "model=nmt", "model.steps=16", *overrides)


def test_worth_of_a_difference_is_what_pricing_each_strategy_says(diff: Any) -> None:
    found = diff().json("diff.json")
    problem = Problem(nmt(num_devices=4, steps=16), load_topology("p100_cluster", num_devices=4))
    first, other = problem.data_parallel, expert(problem)

    for entry in found["operators"]:
        i = problem.graph.position(entry["name"])
        costs = [problem.simulation(s).cost_ns / 1e6 for s in (first, first.replace(i, other[i]))]
        last = [problem.simulation(s).cost_ns / 1e6 for s in (other.replace(i, first[i]), other)]
        assert entry["alone_ms"] == pytest.approx(costs[1] - costs[0])
        assert entry["last_ms"] == pytest.approx(last[1] - last[0])


def test_reasons_add_up_to_the_worth(diff: Any) -> None:
    found = diff("num_explained=3").json("diff.json")
    explained = [entry for level in ("operators", "layers") for entry in found[level] if entry["reason"]]
    whole = found | {"worth_ms": found["other_ms"] - found["strategy_ms"]}

    assert len(explained) == 6
    for entry in [*explained, whole]:
        reason = entry["reason"]
        total = reason["compute_ms"] + reason["transfer_ms"] + reason["synchronisation_ms"]
        assert total == pytest.approx(entry["worth_ms"])


def test_differences_are_sorted_by_worth(diff: Any) -> None:
    worths = [abs(entry["worth_ms"]) for entry in diff("num_explained=0").json("diff.json")["operators"]]

    assert worths == sorted(worths, reverse=True)


def test_layers_are_operators_that_share_weights(diff: Any) -> None:
    layers = diff("num_explained=0").json("diff.json")["layers"]

    assert {entry["name"]: entry["operators"] for entry in layers}["encoder1"] == ["encoder1_0", "encoder1_1"]


def test_equal_strategies_differ_in_nothing(price: Any) -> None:
    outcome = price("strategy=data_parallel", "other=data_parallel")
    found = outcome.json("diff.json")

    assert (found["operators"], found["layers"], set(found["reason"].values())) == ([], [], {0.0})
    assert "+0.000 ms; 0 of 6 operators differ" in outcome.stdout


def test_diff_is_printed_and_drawn(diff: Any) -> None:
    outcome = diff()

    assert "differences by layer" in outcome.stdout
    assert "16 of 16 operators differ" in outcome.stdout
    assert "above: data_parallel" in (outcome.folder / "diff.svg").read_text()


@pytest.mark.parametrize("number", ["-1", "many", "true"])
def test_number_of_explained_differences_must_be_whole(number: str, price: Any) -> None:
    outcome = price(f"num_explained={number}")

    assert outcome.code == 2
    assert outcome.stderr.endswith("is not a whole number from 0 on\n")
