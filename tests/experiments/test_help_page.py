"""--help of every command: what it does, what can be chosen, and examples that are commands."""

import importlib
import io
import re
import shlex
import sys

import hydra
import pytest
from rich.console import Console

from experiments import draw_timeline
from experiments.help_page import CONF, Heading, command_text, comments, help_page

COMMANDS = sorted(path.stem for path in CONF.glob("*.yaml") if path.stem != "command")


def shown(config_name: str, *overrides: str) -> str:
    page = io.StringIO()
    Console(file=page, width=200).print(help_page(config_name, overrides))
    return page.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_page_says_what_the_command_does_with_two_examples(command: str) -> None:
    heading = Heading.of((CONF / f"{command}.yaml").read_text())

    page = shown(command)

    assert heading.sentence in page
    assert len(heading.examples) == 2
    assert all(example in page for example in heading.examples)


def test_examples_are_not_cut_in_two_where_the_terminal_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "argv", ["command", "--help"])
    draw_timeline.main()

    (_, example) = Heading.of((CONF / "draw_timeline.yaml").read_text()).examples
    assert f"  {example}\n" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_page_names_every_group_and_key_of_the_commands_yaml(command: str) -> None:
    found = comments(command_text(command))
    groups = [key.removeprefix("defaults.") for key in found if key.startswith("defaults.")]
    keys = [key for key in found if not key.startswith(("defaults", "hydra"))]

    page = shown(command)

    assert [group for group in groups if f"{group}=NAME" not in page] == []
    assert [key for key in keys if f"{key}=" not in page and f"{key}." not in page] == []


def test_page_lists_the_choices_with_what_their_files_say() -> None:
    page = shown("config")

    assert "best_response        Coordinate descent with a 1-opt certificate" in page
    assert "mcmc *               FlexFlow's execution optimizer (section 6 of the paper)" in page


def test_keys_without_a_comment_are_explained_by_the_constructor() -> None:
    page = shown("config", "model=lenet")

    assert re.search("model.image_size=28 +height and width of the images *\\n", page)


def test_every_key_is_explained() -> None:
    unexplained = re.findall(r"^  ([\w.]+)=\S+ *$", shown("config", "agent=ppo"), re.MULTILINE)

    assert [key for key in unexplained if not key.startswith("topology.")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_are_commands(command: str) -> None:
    for example in Heading.of((CONF / f"{command}.yaml").read_text()).examples:
        interpreter, path, *overrides = shlex.split(example)
        required = ["figure=fig4"] if command == "reproduce" else []
        for override in overrides:
            if override == "-m" or override == "figure=all":
                continue
            choices = override if "[" in override else override.partition(",")[0]
            with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
                hydra.compose(command, [*required, choices])

        assert (interpreter, path) == ("python", f"experiments/{script(command)}.py")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_shown_and_succeeds(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["command", "--help"])

    importlib.import_module(f"experiments.{script(command)}").main()

    page = capsys.readouterr().out
    has_groups = "=NAME  " in page
    assert page.startswith(
        f"python experiments/{script(command)}.py {'[GROUP=NAME] ' if has_groups else ''}[KEY=VALUE] ...\n"
    )
    assert ("GROUP=NAME --help" in page) == has_groups


def script(command: str) -> str:
    return "run" if command == "config" else command
