"""Figure 9a on a small scale: what it says follows from the searches that it made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hydra
import pytest

from experiments.archive import Archive
from experiments.figures.fig9a import HEADER, LABELS, fig9a
from experiments.figures.reproduction import Reproduction

CONF = Path(__file__).resolve().parents[2] / "experiments" / "conf"


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reproduction]:
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        yield fig9a(
            models=["nmt"],
            topology="k80_cluster",
            num_devices=2,
            syncs={"today": ["sync=ring", "model.steps=8"]},
            placers=["colocrl", "heft"],
            searchers=["mcmc"],
            simulations=200,
            seeds=[0, 1],
            archive=Archive(tmp_path_factory.mktemp("archive")),
        )


def column(reproduction: Reproduction, name: str) -> list[Any]:
    return [row[HEADER.index(name)] for row in reproduction.rows]


def test_a_line_for_each_agent_in_its_space(reproduction: Reproduction) -> None:
    spaces, agents = column(reproduction, "space"), column(reproduction, "agent")

    expected = [("O", "colocrl"), ("O", "heft"), ("O", "single_device"), ("SOAP", "mcmc")]
    assert list(zip(spaces, agents, strict=True)) == expected


def test_the_papers_labels_stand_beside_colocrl_and_flexflow(reproduction: Reproduction) -> None:
    assert column(reproduction, "paper_samples_per_s") == [107, "", "", 377]


def test_throughput_is_the_global_batch_over_the_iteration(reproduction: Reproduction) -> None:
    times, rates = column(reproduction, "iteration_ms"), column(reproduction, "samples_per_s")

    assert rates == pytest.approx([2 * 64 / time * 1e3 for time in times], abs=0.06)


def test_what_has_no_randomness_is_searched_once(reproduction: Reproduction) -> None:
    assert column(reproduction, "num_seeds") == [2, 1, 1, 2]


def test_the_best_placement_is_no_slower_than_any(reproduction: Reproduction) -> None:
    bars = {container.get_label(): container for container in reproduction.picture.axes[0].containers}
    heights = {label: bars[label].patches[0].get_height() for label in LABELS}

    assert heights["best operator placement"] >= max(heights["ColocRL"], heights["one device"])
