import inspect
import math
from pathlib import Path

import pytest
import yaml

from sim.costs.analytic import AnalyticCost
from sim.costs.cost_source import CostSource
from sim.costs.table import TableCost
from sim.device_kind import DEVICE_KINDS
from sim.errors import SimError, UnknownNameError
from sim.models.alexnet import alexnet
from sim.models.inception_v3 import inception_v3
from sim.models.nmt import nmt
from sim.models.resnet101 import resnet101
from sim.models.rnnlm import rnnlm
from sim.operator_graph import Operator, OperatorGraph
from sim.work import work

YAML = Path(__file__).parents[2] / "experiments" / "conf" / "cost" / "analytic.yaml"


def single_device_ns(graph: OperatorGraph, device_kind: str) -> int:
    cost = AnalyticCost()
    return sum(sum(cost.part_ns(o, (1,) * len(o.dims), device_kind)) for o in graph.operators)


def share_of_peak(operator: Operator, device_kind: str) -> float:
    todo = work(operator, operator.sizes)
    flop = sum(kernel.flop * kernel.repeats for kernel in todo.forward + todo.backward)
    ns = sum(AnalyticCost().part_ns(operator, (1,) * len(operator.dims), device_kind))
    return flop / (ns * 1e-9) / DEVICE_KINDS[device_kind].peak_flops


# Samples/s of one device (REFERENCE 4.4): TensorFlow's benchmarks for CNNs, ResNet-101 interpolated in FLOP/s between
# ResNet-50 and -152; FlexFlow's Inception-v3 on 4 K80 and its task times of NMT (figure 7c), RNNLM on 16 P100.
@pytest.mark.parametrize(
    ("graph", "device_kind", "measured", "ratio"),
    [
        (alexnet(num_devices=1, batch_per_device=512), "p100", 2987, 0.72),
        (alexnet(num_devices=1, batch_per_device=512), "k80", 656, 0.88),
        (inception_v3(num_devices=1), "p100", 142, 1.04),
        (inception_v3(num_devices=1), "k80", 30.5, 1.33),
        (inception_v3(num_devices=1), "k80", 38, 1.07),
        (resnet101(num_devices=1), "p100", 127, 0.94),
        (resnet101(num_devices=1), "k80", 28.5, 1.16),
        (nmt(num_devices=1), "p100", 245, 1.17),
        (nmt(num_devices=1), "k80", 115, 0.67),
        (rnnlm(num_devices=1), "p100", 234, 1.05),
    ],
    ids=repr,
)
def test_throughput_of_one_device_is_near_the_published_one(
    graph: OperatorGraph, device_kind: str, measured: float, ratio: float
) -> None:
    throughput = graph.operators[0].sizes[0] / (single_device_ns(graph, device_kind) * 1e-9)

    assert throughput / measured == pytest.approx(ratio, abs=0.01)


def test_an_lstm_of_batch_64_runs_at_the_share_of_the_peak_that_measurements_imply() -> None:
    assert 0.35 < share_of_peak(nmt(num_devices=1).operators[11], "p100") < 0.45


@pytest.mark.parametrize("num_devices", [4, 16])
def test_a_softmax_split_by_vocabulary_is_faster_than_one_split_by_samples(num_devices: int) -> None:
    softmax, cost = nmt(num_devices=num_devices).operators[-1], AnalyticCost()
    by_samples = sum(cost.part_ns(softmax, (num_devices, 1, 1), "p100"))
    by_vocabulary = sum(cost.part_ns(softmax, (1, 1, num_devices), "p100"))

    assert by_samples / by_vocabulary == pytest.approx(1.17, abs=0.02)


def test_equal_operators_are_priced_once() -> None:
    cost = AnalyticCost()
    graph = nmt(num_devices=1)
    encoder = [graph.operators[graph.position(f"encoder1_{i}")] for i in (1, 2)]

    assert cost.part_ns(encoder[0], (1, 1, 1), "p100") is cost.part_ns(encoder[1], (1, 1, 1), "p100")


def test_a_part_takes_less_time_than_the_whole() -> None:
    cost = AnalyticCost()
    conv = alexnet(num_devices=1).operators[0]

    assert cost.part_ns(conv, (2, 1, 1, 1), "k80") < cost.part_ns(conv, (1, 1, 1, 1), "k80")


def test_an_update_streams_three_times_the_weights() -> None:
    launch_ns, ns_per_byte = AnalyticCost(bandwidth_efficiency=0.5).update_ns("p100")

    assert (launch_ns, ns_per_byte) == (5000.0, pytest.approx(3 / 366))


def test_an_unknown_device_kind_is_refused() -> None:
    with pytest.raises(UnknownNameError) as error:
        AnalyticCost().update_ns("tpu")

    assert str(error.value) == "unknown device kind 'tpu'; choose one of k80, p100, v100, a100, h100, h200, cpu"


def test_the_yaml_of_the_analytic_cost_repeats_its_constructors_defaults() -> None:
    content = yaml.safe_load(YAML.read_text())
    parameters = inspect.signature(AnalyticCost).parameters.values()

    assert content.pop("_target_") == "sim.costs.analytic.AnalyticCost"
    assert content == {p.name: p.default for p in parameters}


def test_a_table_returns_what_it_was_given() -> None:
    cost: CostSource = TableCost(times={"conv1": {(2, 1, 1, 1): (3, 5)}})

    assert cost.part_ns(alexnet(num_devices=1).operators[0], (2, 1, 1, 1), "any") == (3, 5)


def test_a_table_says_which_operator_it_lacks() -> None:
    with pytest.raises(UnknownNameError, match="unknown operator of the cost table 'conv1'; choose one of o1, o2"):
        TableCost(times={"o1": {}, "o2": {}}).part_ns(alexnet(num_devices=1).operators[0], (1, 1, 1, 1), "any")


def test_a_table_says_which_degrees_it_lacks() -> None:
    cost = TableCost(times={"conv1": {(2, 1, 1, 1): (3, 5)}})

    with pytest.raises(UnknownNameError) as error:
        cost.part_ns(alexnet(num_devices=1).operators[0], (1, 1, 1, 1), "any")

    assert (error.value.name, error.value.allowed) == ("(1, 1, 1, 1)", ["(2, 1, 1, 1)"])


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("efficiency", 0.0, "a positive number"),
        ("bandwidth_efficiency", math.nan, "a positive number"),
        ("half_rows", -128.0, "0 or a positive number"),
        ("half_inner", math.inf, "0 or a positive number"),
    ],
)
def test_constants_that_make_no_time_are_refused(name: str, value: float, allowed: str) -> None:
    with pytest.raises(SimError) as error:
        AnalyticCost(**{name: value})
    assert str(error.value) == f"cost.{name} must be {allowed}, not {value}"
