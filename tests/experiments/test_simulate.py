"""simulate.py: the price of one strategy."""

from typing import Any

import pytest


def test_run_folder_has_all_files(price: Any) -> None:
    folder = price("strategy=expert").folder

    names = {path.name for path in folder.iterdir() if path.is_file()}
    assert names == {"record.json", "timeline.json", "task_graph.json"}


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
