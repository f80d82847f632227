"""The workspace and the report for wandb are built without a login, over the keys that runs log."""

import sys
from dataclasses import fields

import pytest

from experiments import wandb_workspace
from experiments.record import Record
from experiments.tracker import AXES

views = pytest.importorskip("experiments.wandb_views", reason="needs wandb-workspaces")


def test_curves_are_drawn_over_the_keys_that_every_agent_logs() -> None:
    panels = views.curve_panels()

    drawn = {(str(panel.x), str(y)) for panel in panels for y in panel.y}
    assert drawn == {(axis, f"by_{axis}/{metric}") for axis in AXES for metric in ("best_ms", "speedup")}


def test_columns_are_keys_of_the_record() -> None:
    assert set(views.COLUMNS) <= {field.name for field in fields(Record)}


def test_workspace_groups_runs_by_problem_and_agent() -> None:
    workspace = views.make_workspace(entity="me", project="soap-testbed", name="Searchers")

    assert [key.name for key in workspace.runset_settings.groupby] == ["Group", "JobType"]
    assert [section.name for section in workspace.sections] == ["Curves", "Results", "Strategies"]


def test_report_is_built_without_a_login() -> None:
    report = views.make_report(entity="me", project="soap-testbed", title="Searchers on equal budgets")

    assert [block.text for block in report.blocks if hasattr(block, "text")] == [
        views.INTRODUCTION,
        "Curves",
        "Results",
        "Strategies",
    ]


def test_command_without_a_login_builds_and_says_how_to_save(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wandb_workspace, "is_logged_in", lambda: False)
    monkeypatch.setattr(sys, "argv", ["command"])

    wandb_workspace.main()

    assert capsys.readouterr().out == "built a workspace and a report; to save them: wandb login\n"


def test_no_login_is_asked_for_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")

    assert not wandb_workspace.is_logged_in()
