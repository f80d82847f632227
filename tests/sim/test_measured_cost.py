"""cost=measured: times from a database or a CSV, and what happens where they are missing."""

import csv
from pathlib import Path

import pytest

from sim.costs.analytic import AnalyticCost
from sim.costs.line import fit_line
from sim.costs.measured import MeasuredCost
from sim.costs.part_shape import part_key, part_shapes
from sim.costs.timing import TASK_KEY, Platform, Timing, update_key
from sim.costs.timing_database import TimingDatabase
from sim.costs.timing_file import COLUMNS, load_timings, timing_rows
from sim.errors import AmbiguousTimingsError, MissingTimingsError, SimError, TimingFileError, UnknownNameError
from sim.models.lenet import lenet
from sim.problem import Problem
from sim.space import SoapSpace
from sim.topology import load_topology

HERE = Platform("cpu", "a core", 1, "fp32", "2.13.0")
GRAPH = lenet(num_devices=2, batch_per_device=8)
TOPOLOGY = load_topology("cpu_host", num_devices=2)
SPACE = SoapSpace(GRAPH, TOPOLOGY)
SHAPES = part_shapes(GRAPH, SPACE)
CONV1 = GRAPH.operators[0]
QUOTED_KEY = '"{""kind"":""task""}"'


def timing(forward_ns: float, backward_ns: float = 0.0) -> Timing:
    return Timing(forward_ns, 1.5, backward_ns, 0.25, 7)


def all_timings() -> dict[str, Timing]:
    timings = {shape.key: timing(1000.0 * (number + 1), 10.5 * number) for number, shape in enumerate(SHAPES)}
    return timings | {update_key(1000): timing(300.0), update_key(2000): timing(500.0)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database that has all that LeNet needs."""
    path = tmp_path / "timings.sqlite"
    with TimingDatabase(path) as database:
        database.add(HERE, all_timings())
    return path


def remove(path: Path, key: str) -> Path:
    shorter = path.with_name("shorter.sqlite")
    with TimingDatabase(shorter) as database:
        database.add(HERE, {k: v for k, v in all_timings().items() if k != key})
    return shorter


def test_part_takes_its_measured_time(path: Path) -> None:
    cost = MeasuredCost(database=str(path))

    number = [shape.key for shape in SHAPES].index(part_key(CONV1, (2, 1, 1, 1)))
    assert cost.part_ns(CONV1, (2, 1, 1, 1), "cpu") == (1000 * (number + 1), round(10.5 * number))


def test_every_task_takes_the_executors_time_as_well(path: Path) -> None:
    before = MeasuredCost(database=str(path))
    with TimingDatabase(path) as database:
        database.add(HERE, {TASK_KEY: timing(50.0, 70.0)})
    after = MeasuredCost(database=str(path))

    forward, backward = before.part_ns(CONV1, (1, 1, 1, 1), "cpu")
    assert after.part_ns(CONV1, (1, 1, 1, 1), "cpu") == (forward + 50, backward + 70)
    assert after.update_ns("cpu")[0] == before.update_ns("cpu")[0] + 50


def test_update_is_a_line_through_the_measured_ones(path: Path) -> None:
    assert MeasuredCost(database=str(path)).update_ns("cpu") == pytest.approx((100.0, 0.2))


def test_a_problem_is_priced_with_it(path: Path) -> None:
    problem = Problem(GRAPH, TOPOLOGY, cost=MeasuredCost(database=str(path)), space=SPACE)

    assert problem.data_parallel_ns > 0


def test_a_complete_database_passes_the_check(path: Path) -> None:
    MeasuredCost(database=str(path)).check(GRAPH, SPACE)


def test_missing_shape_is_named_with_their_number(path: Path) -> None:
    path = remove(path, SHAPES[1].key)

    with pytest.raises(MissingTimingsError) as refusal:
        MeasuredCost(database=str(path)).check(GRAPH, SPACE)

    assert str(refusal.value) == (
        f"measured costs {path}: 1 of {len(SHAPES)} part shapes were not measured on 'cpu', first conv2d "
        "16x20x24x12, split 1x1x1x2; measure them by experiments/profile_operators.py with the same model, "
        "num_devices, topology and space, or give cost.fallback=analytic"
    )


def test_missing_part_is_refused_when_it_is_asked_for(path: Path) -> None:
    path = remove(path, part_key(CONV1, (1, 1, 1, 1)))

    with pytest.raises(MissingTimingsError):
        MeasuredCost(database=str(path)).part_ns(CONV1, (1, 1, 1, 1), "cpu")


def test_fallback_prices_what_is_missing_and_counts_it(path: Path) -> None:
    path = remove(path, part_key(CONV1, (1, 1, 1, 1)))
    cost = MeasuredCost(database=str(path), fallback="analytic")
    cost.check(GRAPH, SPACE)

    times = [cost.part_ns(CONV1, degrees, "cpu") for degrees in ((1, 1, 1, 1), (1, 1, 1, 1), (2, 1, 1, 1))]

    assert times[0] == AnalyticCost().part_ns(CONV1, (1, 1, 1, 1), "cpu")
    assert (cost.num_fallbacks, cost.num_asked) == (1, 2)


def test_device_kind_without_times_falls_back_as_well(path: Path) -> None:
    cost = MeasuredCost(database=str(path), fallback="analytic")

    assert cost.update_ns("p100") == AnalyticCost().update_ns("p100")


def test_unknown_fallback_is_refused(path: Path) -> None:
    with pytest.raises(SimError, match=r"cost.fallback must be none or analytic, not 'guess'"):
        MeasuredCost(database=str(path), fallback="guess")  # type: ignore[arg-type]


def test_several_platforms_must_be_chosen_from(path: Path) -> None:
    with TimingDatabase(path) as database:
        database.add(Platform("cpu", "a core", 2, "fp32", "2.13.0"), all_timings())

    with pytest.raises(AmbiguousTimingsError) as refusal:
        MeasuredCost(database=str(path)).check(GRAPH, SPACE)

    assert str(refusal.value) == (
        f"measured costs {path}: of the platforms of 'cpu', 2 fit, not one; choose by cost.device, cost.num_threads, "
        "cost.dtype and cost.torch_version among: a core, 1 threads, fp32, torch 2.13.0; a core, 2 threads, fp32, "
        "torch 2.13.0"
    )


def test_choice_that_no_platform_fits_is_refused(path: Path) -> None:
    with pytest.raises(AmbiguousTimingsError, match=r"of the platforms of 'cpu', 0 fit cost.dtype=bf16, not one"):
        MeasuredCost(database=str(path), dtype="bf16").update_ns("cpu")


def test_one_of_several_platforms_is_chosen(path: Path) -> None:
    with TimingDatabase(path) as database:
        database.add(Platform("cpu", "a core", 2, "fp32", "2.13.0"), {update_key(1): timing(3.0)})

    assert MeasuredCost(database=str(path), num_threads=2).update_ns("cpu") == (0.0, 3.0)


def test_csv_gives_the_times_of_the_database(path: Path) -> None:
    table = path.with_suffix(".csv")
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *timing_rows(load_timings(str(path)))])

    assert load_timings(str(table)) == load_timings(str(path)) == {HERE: all_timings()}


def csv_of(key: str, forward_ns: str) -> str:
    """A table of one time."""
    return f"{','.join(COLUMNS)}\np100,a device,0,fp32,2.13.0,{key},{forward_ns},0,0,0,1\n"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("times.csv", "a,b\n", f"its columns must be {', '.join(COLUMNS)}"),
        ("times.csv", f"{','.join(COLUMNS)}\n1,2\n", "line 2: it has 2 columns, not 11"),
        (
            "times.csv",
            csv_of(QUOTED_KEY, "nan"),
            "line 2: nan is no time; it must be 0 or a positive number",
        ),
        (
            "times.csv",
            csv_of(QUOTED_KEY, "-1.0"),
            "line 2: -1.0 is no time; it must be 0 or a positive number",
        ),
        ("times.csv", csv_of("update", "1.0"), "line 2: 'update' is no key of a part"),
        ("times.sqlite", "this is no database, however long it is\n" * 9, "file is not a database"),
        ("missing.sqlite", None, "there is no such file; experiments/profile_operators.py makes one"),
    ],
)
def test_other_files_are_refused(name: str, content: str | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)

    with pytest.raises(TimingFileError) as refusal:
        MeasuredCost(database=str(path))

    assert str(refusal.value) == f"measured costs {path}: {reason}"


def test_unknown_shipped_table_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown table of measured costs 'abacus'"):
        MeasuredCost(database="abacus")


@pytest.mark.parametrize(
    ("points", "line"),
    [
        ([(0, 5.0), (10, 25.0)], (5.0, 2.0)),
        ([(10, 20.0)], (0.0, 2.0)),
        ([(10, 10.0), (20, 40.0)], (0.0, 1.2)),  # would begin below 0
        ([(10, 40.0), (20, 20.0)], (24.0, 0.0)),  # would fall
    ],
)
def test_line_has_no_negative_part(points: list[tuple[int, float]], line: tuple[float, float]) -> None:
    assert fit_line(points) == pytest.approx(line)
