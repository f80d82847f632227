"""The summary of profiled parts."""

import pytest

from experiments.profile_summary import Profile, analytic_ratios, print_summary
from sim.costs.analytic import AnalyticCost
from sim.costs.part_shape import part_shapes
from sim.costs.timing import TASK_KEY, Platform, Timing
from sim.models.lenet import lenet
from sim.space import SoapSpace
from sim.topology import load_topology

GRAPH = lenet(num_devices=2)
SPACE = SoapSpace(GRAPH, load_topology("cpu_host", num_devices=2))


def profile_of(device_kind: str) -> Profile:
    """Parts that take half of the H100's analytic time, forward a tenth of it."""
    analytic, timings = AnalyticCost(), {TASK_KEY: Timing(10.0, 1.0, 10.0, 1.0, 3)}
    for shape in part_shapes(GRAPH, SPACE):
        both = sum(analytic.part_ns(GRAPH.operators[shape.operator], shape.degrees, "h100"))
        timings[shape.key] = Timing(both / 10, 1.0, both * 4 / 10, 1.0, 3)
    platform = Platform(device_kind, "NVIDIA H100 80GB HBM3", 0, "fp32", "2.13.0")
    return Profile(platform, timings, len(timings) + 1, 4)


def test_analytic_times_are_held_to_the_measured_ones_part_by_part() -> None:
    ratios = analytic_ratios(profile_of("h100"), SPACE)

    assert ratios == dict.fromkeys((shape.key for shape in part_shapes(GRAPH, SPACE)), pytest.approx(2.0))


def test_a_device_without_an_analytic_cost_has_no_ratios() -> None:
    assert analytic_ratios(profile_of("abacus"), SPACE) == {}


def test_the_distance_and_what_is_missing_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_summary(profile_of("h100"), SPACE)

    printed = capsys.readouterr().out
    assert "analytic over measured, 26 parts on h100: 2.00x, eight in ten 2.00x to 2.00x\n" in printed
    assert "28 needed, 4 known before\n1 are being measured by other processes\n" in printed
