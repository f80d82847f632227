"""report.html in a real browser: Playwright drives the machine's Chromium."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from found_runs import found_run

from experiments.comparison.comparison import compare
from experiments.comparison.found_run import FoundRun
from experiments.comparison.page import comparison_page
from experiments.strategy_picture import strategy_picture
from sim.models.nmt import nmt
from sim.problem import Problem
from sim.strategies import expert
from sim.strategy import Strategy
from sim.task_graph_builder import build_task_graph
from sim.timeline import write_timeline
from sim.topology import load_topology

playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs Playwright: pip install -c constraints.txt -e '.[browser]'"
)
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium on the PATH")

VIEWS = {"laptop": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
PROBLEM = "nmt on 16 of p100_cluster, sync.scheme=ring"


def found(root: Path, agent: str, scheme: str, seed: int) -> FoundRun:
    return found_run(
        root / f"{agent}-{scheme}-{seed}",
        agent,
        seed,
        {"mcmc": 220.0, "random": 300.0, "ppo": 230.0}[agent] + seed,
        lower_bound_ms=150.0,
        cost={"_target_": "sim.costs.analytic.AnalyticCost"},
        space={"variant": "block", "dims": "SOAP"},
        sync={"scheme": scheme, "overlap": True},
    )


def draw(folder: Path, strategy: Strategy, problem: Problem) -> None:
    """Write the pictures of a run."""
    folder.mkdir()
    (folder / "strategy.svg").write_text(strategy_picture(strategy, title=f"by {folder.name}"))
    task_graph = build_task_graph(problem, strategy)
    task_graph.simulate()
    write_timeline(task_graph, folder / "timeline.json")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("report")
    runs = [
        found(root, agent, scheme, seed)
        for agent in ("mcmc", "random", "ppo")
        for scheme in ("ring", "zero")
        for seed in range(10)
    ]
    problem = Problem(nmt(num_devices=16), load_topology("p100_cluster", num_devices=16))
    draw(root / "mcmc-ring-0", problem.data_parallel, problem)
    draw(root / "ppo-ring-0", expert(problem), problem)
    path = root / "report.html"
    path.write_text(comparison_page(compare(runs, root), root=root, place=root))
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=[(view, scheme) for view in VIEWS for scheme in ("light", "dark")], ids="-".join)
def page(request: pytest.FixtureRequest, browser: Any, report: Path) -> Iterator[Any]:
    """The report, opened offline; nothing it says on the console is allowed."""
    view, scheme = request.param
    context = browser.new_context(viewport=VIEWS[view], color_scheme=scheme, offline=True)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(report.as_uri())
    page.wait_for_selector("#profile .main-svg")
    page.select_option("#problem", PROBLEM)
    yield page
    context.close()
    assert said == []


def drawn(page: Any, chart: str) -> list[str]:
    """Names of the curves of a chart."""
    names = page.evaluate(f"document.getElementById('{chart}').data.map((trace) => trace.name)")
    return sorted(name for name in names if name)


def rows(page: Any, table: str) -> list[str]:
    """Agents of the rows that are to be seen, in order."""
    return [
        row.get_attribute("data-agent") for row in page.query_selector_all(f"#{table} tbody tr") if row.is_visible()
    ]


def test_nothing_is_wider_than_the_screen(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_all_charts_show_all_agents(page: Any) -> None:
    charts = ("simulations", "seconds", "strip", "profile")

    assert [drawn(page, chart) for chart in charts] == [["mcmc", "ppo", "random"]] * 4


def test_an_agent_can_be_hidden_and_shown_again(page: Any) -> None:
    page.click("#chips button[data-agent=ppo]")
    without = (drawn(page, "simulations"), rows(page, "agents"), page.is_visible(".matrix tr[data-agent=ppo]"))
    page.click("#chips button[data-agent=ppo]")

    assert without == (["mcmc", "random"], ["mcmc", "random"], False)
    assert drawn(page, "simulations") == ["mcmc", "ppo", "random"]


def test_a_problem_can_be_chosen(page: Any) -> None:
    page.select_option("#problem", "all problems")

    assert (len(rows(page, "agents")), len(rows(page, "runs"))) == (3, 60)
    assert not page.is_visible("#simulations")


def test_tables_are_sorted_by_a_click(page: Any) -> None:
    heading = "#agents button[data-column=best_ms]"
    page.click(heading)
    rising = rows(page, "agents")
    page.click(heading)

    assert (rising, rows(page, "agents")) == (["mcmc", "ppo", "random"], ["random", "ppo", "mcmc"])


def scroll_to_pictures(page: Any) -> None:
    page.locator("#pictures").scroll_into_view_if_needed()
    page.wait_for_selector("#timeline svg")


def titles(page: Any) -> list[str]:
    """Of the pictures that are drawn."""
    drawn = page.evaluate("[...document.querySelectorAll('.picture svg > title')].map((title) => title.textContent)")
    return [str(title) for title in drawn]


def test_pictures_are_drawn_when_they_come_into_view(page: Any) -> None:
    before = titles(page)
    scroll_to_pictures(page)

    assert (before, titles(page)) == ([], ["by mcmc-ring-0", "timeline"])


def test_pictures_scroll_inside_the_page(page: Any) -> None:
    scroll_to_pictures(page)

    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.evaluate("document.querySelector('#timeline svg').getBoundingClientRect().width") == 1000


def test_another_run_can_be_pictured(page: Any) -> None:
    scroll_to_pictures(page)
    page.select_option("#run", "ppo, seed 0: 230.000 ms")
    page.wait_for_function("document.querySelector('#strategy title').textContent === 'by ppo-ring-0'")

    assert titles(page) == ["by ppo-ring-0", "timeline"]


def test_runs_of_hidden_agents_are_not_pictured(page: Any) -> None:
    scroll_to_pictures(page)
    page.click("#chips button[data-agent=mcmc]")
    page.wait_for_function("document.querySelector('#strategy title').textContent === 'by ppo-ring-0'")

    assert page.locator("#run option").all_text_contents() == ["ppo, seed 0: 230.000 ms"]


def test_problem_without_pictures_has_no_place_for_them(page: Any) -> None:
    page.select_option("#problem", PROBLEM.replace("ring", "zero"))

    assert not page.is_visible("#pictures")


def test_text_follows_the_colour_scheme(page: Any) -> None:
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    font, paper = page.evaluate(
        "[document.getElementById('profile').layout.font.color, getComputedStyle(document.body).backgroundColor]"
    )

    assert (font, paper) == (("#e4e7ec", "rgb(21, 24, 29)") if is_dark else ("#22262c", "rgb(255, 255, 255)"))


def test_page_of_sixty_runs_is_below_six_megabytes(report: Path) -> None:
    data = json.loads(report.read_text().split('id="data">')[1].split("</script>")[0])

    assert len(data["runs"]) == 60
    assert report.stat().st_size < 6_000_000
