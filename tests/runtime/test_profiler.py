"""The profiler: what it times, and that parts with equal keys are equal."""

from collections.abc import Iterator
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_problems import random_graph

from runtime.errors import RuntimeRoomError
from runtime.profiler import Profiler, ProfilerOptions
from runtime.synthetic_part import make_part
from runtime.task_overhead import time_tasks
from sim.costs.part_shape import part_key
from sim.graph_builder import GraphBuilder
from sim.models.inception_v3 import inception_v3
from sim.models.lenet import lenet
from sim.models.nmt import nmt
from sim.operator_graph import OperatorGraph
from sim.space import SoapSpace
from sim.topology import load_topology

QUICK = ProfilerOptions(warm_ups=1, min_repeats=3, max_error=1.0, max_seconds=5.0, flush_mb=1)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def threads_are_as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def profiler() -> Profiler:
    return Profiler(device="cpu", device_kind="cpu", num_threads=1, dtype="fp32", options=QUICK)


def small_nmt() -> OperatorGraph:
    return nmt(num_devices=1, batch_per_device=4, steps=4, steps_per_op=2, hidden=8, vocabulary=20)


@pytest.mark.parametrize(
    "graph",
    [lenet(num_devices=1, batch_per_device=4), small_nmt(), inception_v3(num_devices=1, batch_per_device=2)],
    ids=lambda graph: graph.name,
)
def test_every_kind_has_positive_times(graph: OperatorGraph, profiler: Profiler) -> None:
    first_of_kind = {operator.kind: number for number, operator in reversed(list(enumerate(graph.operators)))}

    for position in first_of_kind.values():
        timing = profiler.time_parts(graph, {position: (1,) * len(graph.operators[position].dims)})[0][position]
        assert timing.forward_ns > 0
        assert timing.backward_ns > 0
        assert timing.num_repeats >= QUICK.min_repeats


def test_pooling_of_data_has_no_backward_time(profiler: Profiler) -> None:
    builder = GraphBuilder("graph")
    builder.pool2d("pool", (2, 3, 8, 8), 2)

    assert profiler.time_parts(builder.build(), {0: (1, 1, 1, 1)})[0][0].backward_ns == 0


def test_part_that_meets_others_is_timed_alone(profiler: Profiler) -> None:
    graph = small_nmt()
    lstm = next(i for i, operator in enumerate(graph.operators) if operator.kind == "lstm")

    assert profiler.time_parts(graph, {lstm: (1, 1, 2)})[0][lstm].backward_ns > 0


def test_parts_of_all_operators_are_timed_in_one_another_s_company(profiler: Profiler) -> None:
    graph = small_nmt()
    whole = {position: (1,) * len(operator.dims) for position, operator in enumerate(graph.operators)}

    timings, updates = profiler.time_parts(graph, whole)

    assert list(timings) == list(whole)
    assert len(updates) == len(graph.weight_groups)
    assert all(timing.forward_ns > 0 and timing.backward_ns > 0 for timing in timings.values())


def test_repeats_end_at_the_time_limit() -> None:
    options = ProfilerOptions(warm_ups=0, min_repeats=2, max_error=0.0, max_seconds=0.05, flush_mb=0)
    profiler = Profiler(device="cpu", device_kind="cpu", num_threads=1, dtype="fp32", options=options)

    assert 2 < profiler.time_update(4000).num_repeats < 50_000


def test_two_times_are_taken_however_long_they_take() -> None:
    options = ProfilerOptions(warm_ups=1, min_repeats=100, max_error=0.0, max_seconds=0.0, flush_mb=0)
    profiler = Profiler(device="cpu", device_kind="cpu", num_threads=1, dtype="fp32", options=options)

    assert profiler.time_update(4000).num_repeats == 2


def test_executors_own_time_for_a_task_is_less_than_a_millisecond(profiler: Profiler) -> None:
    timing = time_tasks(profiler, num_repeats=5)

    assert 0 <= timing.forward_ns == timing.backward_ns < 1e6


def test_platform_says_what_the_times_hold_for(profiler: Profiler) -> None:
    platform = profiler.platform

    assert (platform.device_kind, platform.num_threads, platform.dtype) == ("cpu", 1, "fp32")
    assert platform.torch_version == torch.__version__


@pytest.mark.parametrize(
    ("device", "dtype", "message"),
    [
        ("cpu", "tf32", "dtype=tf32: give fp32 or bf16, or on cuda tf32"),
        ("cpu", "fp64", "dtype=fp64: give fp32 or bf16, or on cuda tf32"),
        ("tpu", "fp32", "device=tpu: PyTorch finds no such device here; give cpu or cuda"),
    ],
)
def test_unknown_platform_is_refused(device: str, dtype: str, message: str) -> None:
    with pytest.raises(RuntimeRoomError) as refusal:
        Profiler(device=device, device_kind="cpu", num_threads=1, dtype=dtype, options=QUICK)

    assert str(refusal.value) == message


def shapes_by_key(graph: OperatorGraph, num_devices: int) -> Iterator[tuple[str, tuple[object, ...]]]:
    """The key of every part, and the sizes of all tensors that it computes on."""
    space = SoapSpace(graph, load_topology("cpu_host", num_devices=num_devices))
    for position, operator in enumerate(graph.operators):
        for degrees in space.degree_tuples(position):
            part = make_part(graph, position, degrees, device=CPU, dtype=torch.float32)
            # Only the number of elements matters of axes that the operator flattens.
            lead = {"flat": 2, "linear": len(part.span) - 1, "softmax": len(part.span) - 1}.get(operator.kind)
            inputs = [(*x.shape[:lead], x[:1, :1].numel() if lead else 0) for x in part.inputs]
            tensors = (*inputs, *(x.shape for x in (*part.data, *part.weights)))
            yield part_key(operator, degrees), (part.sizes, part.is_whole_group, *map(tuple, tensors))


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_parts_with_equal_keys_compute_on_equal_tensors(seed: int) -> None:
    rng = Random(seed)
    found: dict[str, tuple[object, ...]] = {}
    for graph in (
        random_graph(rng, has_custom=False),
        random_graph(rng, has_custom=False),
        lenet(num_devices=2, batch_per_device=2),
        small_nmt(),
    ):
        for key, tensors in shapes_by_key(graph, 4):
            assert found.setdefault(key, tensors) == tensors
