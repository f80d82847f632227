"""wandb follows a run and never ends it."""

from typing import Any

import pytest
import wandb


def test_offline_run_lies_in_the_run_folder(search: Any) -> None:
    outcome = search("tracker=wandb", "agent=random")

    assert outcome.code == 0
    assert len(list(outcome.folder.glob("wandb/offline-run-*/run-*.wandb"))) == 1


def test_wandb_prints_nothing(search: Any) -> None:
    outcome = search("tracker=wandb", "agent=random")

    assert outcome.stderr == ""
    assert "wandb:" not in outcome.stdout


@pytest.mark.parametrize("method", ["init", "setup"])
def test_failing_wandb_does_not_fail_the_run(method: str, search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no server")

    monkeypatch.setattr(wandb, method, fail)

    outcome = search("tracker=wandb", "agent=random")

    assert outcome.code == 0
    assert "this run goes on without wandb: no server" in outcome.stderr
    assert (outcome.folder / "record.json").is_file()
