"""wandb_views: the workspace and the report that compare runs in wandb, as objects; saving them needs a login."""

import wandb_workspaces.reports.v2 as reports
import wandb_workspaces.workspaces as workspaces

from experiments.tracker import AXES

TITLES = {"simulations": "strategies priced", "seconds": "seconds of search"}

COLUMNS = ("speedup", "best_ms", "lower_bound_ms", "simulations", "search_seconds", "fits_memory")
"""Of the table of runs: keys of record.json."""

INTRODUCTION = """\
Each curve is the speed-up over data parallelism of the best strategy so far: the mean over the runs of one searcher on
one problem, between the least and the greatest. Runs are grouped by model/topology and by agent. A speed-up of 2 halves
the simulated time of an iteration. `experiments/compare.py` has the same runs with intervals and certified gaps.
"""


def curve_panels() -> list[reports.LinePlot]:
    """Speed-up and iteration time against each axis, under the keys that all agents log."""
    return [
        reports.LinePlot(
            title=f"{title} against {TITLES[axis]}",
            x=axis,
            y=[f"by_{axis}/{metric}"],
            title_x=TITLES[axis],
            title_y=title,
            groupby_aggfunc="mean",
            groupby_rangefunc="minmax",
        )
        for metric, title in (("speedup", "speed-up"), ("best_ms", "iteration time, ms"))
        for axis in AXES
    ]


def result_panels() -> list[reports.BarPlot | reports.ScatterPlot]:
    """What the searches ended with."""
    return [
        reports.BarPlot(title="speed-up over data parallelism", metrics=["speedup"], orientation="h"),
        reports.ScatterPlot(
            title="speed-up and seconds",
            x=reports.SummaryMetric("search_seconds"),
            y=reports.SummaryMetric("speedup"),
        ),
    ]


def strategy_panels() -> list[reports.WeavePanelSummaryTable]:
    """The operators' configs."""
    return [reports.WeavePanelSummaryTable(table_name="strategy")]


def make_workspace(*, entity: str, project: str, name: str) -> workspaces.Workspace:
    """The saved view.

    Args:
        entity: user or team.
        project: of the runs.
        name: of the view.
    """
    return workspaces.Workspace(
        entity=entity,
        project=project,
        name=name,
        sections=[
            workspaces.Section(name="Curves", panels=curve_panels(), is_open=True),
            workspaces.Section(name="Results", panels=result_panels(), is_open=True),
            workspaces.Section(name="Strategies", panels=strategy_panels()),
        ],
        settings=workspaces.WorkspaceSettings(max_runs=100),
        runset_settings=workspaces.RunsetSettings(
            groupby=[workspaces.Metric("Group"), workspaces.Metric("JobType")],
            pinned_columns=[f"summary:{column}" for column in COLUMNS],
        ),
    )


def make_report(*, entity: str, project: str, title: str) -> reports.Report:
    """The report: a text, curves, results and strategies.

    Args:
        entity: user or team.
        project: of the runs.
        title: of the report.
    """
    grouped = reports.Runset(entity=entity, project=project, name="searchers", groupby=["run.group", "run.job_type"])
    single = reports.Runset(entity=entity, project=project, name="runs")
    return reports.Report(
        project=project,
        entity=entity,
        title=title,
        description="Searchers of parallelization strategies, on equal budgets.",
        blocks=[
            reports.MarkdownBlock(text=INTRODUCTION),
            reports.H2("Curves"),
            reports.PanelGrid(runsets=[grouped], panels=curve_panels()),
            reports.H2("Results"),
            reports.PanelGrid(runsets=[grouped], panels=result_panels()),
            reports.H2("Strategies"),
            reports.PanelGrid(runsets=[single], panels=strategy_panels()),
        ],
        width="fluid",
    )
