"""help_page: what ``--help`` shows of a command, put together from the comments in its YAML files."""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

CONF = Path(__file__).resolve().parent / "conf"

KEY = re.compile(r"^(?P<indent> *)(?:- )?(?:override )?(?P<key>[\w/@.]+):(?:\s[^#]*)?(?:# (?P<comment>.*))?$")
"""A line of YAML with a key; its comment stands behind it, or in lines above it."""

ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""An entry of a Google docstring."""

NAME_WIDTH = 46

SETTINGS = ("hydra", "defaults")

FOOTER = """\
-m runs every combination of values separated by commas: KEY=A,B.
hydra.run.dir=FOLDER says where the files go (of -m: hydra.sweep.dir).
--cfg job prints the configuration without running; --hydra-help lists Hydra's own options."""
GROUP_FOOTER = (
    "A group with a name behind it shows the keys of that choice: python experiments/{name}.py GROUP=NAME --help"
)


@dataclass(frozen=True, slots=True)
class Heading:
    """The comment that begins a YAML file.

    Attributes:
        sentence: what the file is for.
        examples: commands.
    """

    sentence: str
    examples: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "Heading":
        """Read it."""
        lines = re.match(r"(?:#.*\n)*", text)[0].replace("#", " ").splitlines()  # type: ignore[index]
        examples = tuple(line.strip() for line in lines if line.strip().startswith("python "))
        words = " ".join(line.strip() for line in lines if line.strip() not in examples)
        return cls(words, examples)


def help_page(config_name: str, overrides: Sequence[str]) -> RenderableType:
    """The page of one command.

    Args:
        config_name: a file of ``experiments/conf``, without its ending.
        overrides: of the command line; choices among them are those whose keys are shown.
    """
    own = command_text(config_name)
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        open_groups = required_groups(config_name, overrides)
        chosen = [f"{group}={options(loader, config_name, overrides, group)[0]}" for group in open_groups]
        cfg = hydra.compose(config_name, [*overrides, *chosen], return_hydra_config=True)
        choices = {
            group: choice
            for group, choice in reversed(cfg.hydra.runtime.choices.items())
            if not group.startswith("hydra/") and "@" not in group and choice is not None
        }
        folders = list(source_folders(cfg))
        tables = [
            group_table(
                folders, options(loader, config_name, overrides, group), group, None if group in open_groups else choice
            )
            for group, choice in choices.items()
        ]
    values: dict[str, Any] = OmegaConf.to_container(cfg)  # type: ignore[assignment]
    said = comments(own)
    heading = Heading.of(own)
    name = re.sub(r"^config$", "run", config_name)
    parts: list[RenderableType] = [
        Text(f"python experiments/{name}.py {'[GROUP=NAME] ' if choices else ''}[KEY=VALUE] ...\n"),
        Text(heading.sentence + "\n"),
        title("Examples"),
        # To be copied: a terminal wraps a long line, and a newline inside would cut the command in two.
        Text("".join(f"  {example}\n" for example in heading.examples), no_wrap=True, overflow="ignore"),
    ]
    for (group, choice), table in zip(choices.items(), tables, strict=True):
        asked = "choose one" if group in open_groups else f"{choice} if not said"
        parts += [title(f"{group}=NAME", f"{sentence(said.get(f'defaults.{group}', ''))} ({asked})"), table]
    plain = {key: value for key, value in values.items() if key not in (*choices, *SETTINGS)}
    parts.append(section("Keys", keys(plain, said)))
    for group, choice in choices.items():
        if group not in open_groups:
            known = comments(read(folders, group, choice))
            known = {f"{group}.{key}": comment for key, comment in known.items()} | said
            parts.append(section(f"Keys of {group}={choice}", keys({group: values[group]}, known, name=choice)))
    return Group(*parts, Text(FOOTER), Text(GROUP_FOOTER.format(name=name) if choices else ""))


def command_text(config_name: str) -> str:
    """The YAML of a command, followed by those that it includes."""
    text = (CONF / f"{config_name}.yaml").read_text(encoding="utf-8")
    included = [entry for entry in OmegaConf.create(text).defaults if isinstance(entry, str) and entry != "_self_"]
    return "".join([text, *(command_text(name) for name in included)])


def required_groups(config_name: str, overrides: Sequence[str]) -> list[str]:
    """Groups of which the user has to choose an option and has not."""
    defaults = OmegaConf.load(CONF / f"{config_name}.yaml").defaults
    groups = [str(group) for entry in defaults if not isinstance(entry, str) for group in entry if "???" in str(entry)]
    return [group for group in groups if not any(text.startswith(f"{group}=") for text in overrides)]


def options(loader: ConfigLoader, config_name: str, overrides: Sequence[str], group: str) -> list[str]:
    """What may be chosen of a group."""
    return loader.get_group_options(group, ObjectType.CONFIG, config_name=config_name, overrides=list(overrides))


def source_folders(cfg: DictConfig) -> Iterator[Path]:
    """Where Hydra looks for YAML files, its own apart."""
    for source in cfg.hydra.runtime.config_sources:
        if source.provider != "hydra" and source.schema in ("file", "pkg"):
            yield Path(source.path) if source.schema == "file" else Path(str(files(source.path)))


def read(folders: Sequence[Path], group: str, choice: str) -> str:
    """The file of a choice; empty if the choice has none."""
    paths = (folder / group / f"{choice}.yaml" for folder in folders)
    return next((path.read_text(encoding="utf-8") for path in paths if path.is_file()), "")


def group_table(folders: Sequence[Path], names: Sequence[str], group: str, choice: str | None) -> RenderableType:
    """The choices of a group, each with the first sentence of its file."""
    marked = ((f"{name} *" if name == choice else name, Heading.of(read(folders, group, name))) for name in names)
    return two_columns((name, sentence(heading.sentence)) for name, heading in marked)


def comments(text: str) -> dict[str, str]:
    """The comment of each key, under its dotted path."""
    found: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    above: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            above.append(line.strip(" #"))
            continue
        match = KEY.match(line)
        if match:
            indent = len(match["indent"])
            parents = [(depth, key) for depth, key in parents if depth < indent]
            parents.append((indent, match["key"]))
            comment = match["comment"] or " ".join(above)
            if comment:
                found.setdefault(".".join(key for _, key in parents), comment)
        above = []
    return found


def keys(
    values: Mapping[str, Any], said: Mapping[str, str], *, name: str | None = None, prefix: str = "", target: str = ""
) -> Iterator[tuple[str, str]]:
    """Each key with its value, and what is said about it in YAML or else in the constructor's docstring.

    Args:
        values: keys of one level, and below it.
        said: comments under dotted paths.
        name: of the choice; a key that repeats it is left out.
        prefix: of the dotted paths.
        target: the constructor.
    """
    for key, value in values.items():
        path = f"{prefix}{key}"
        if key in ("_target_", "_partial_") or (isinstance(value, str) and "${" in value):
            continue  # not meant to be changed, or follows another key
        explanation = said.get(path) or (documented(target).get(key, "") if target else "")
        if isinstance(value, dict) and value:
            yield from keys(value, said, name=name, prefix=f"{path}.", target=value.get("_target_", ""))
        elif name is None or value != name:
            yield f"{path}={shown(value)}", sentence(explanation)


def documented(target: str) -> dict[str, str]:
    """What the docstring of a class or function says of its keywords."""
    doc = inspect.getdoc(get_object(target)) or ""
    return {name: " ".join(text.split()) for name, text in ARGUMENT.findall(doc)}


def sentence(text: str) -> str:
    """The first one."""
    return re.split(r"(?<=[.]) (?=[A-Z`])", text)[0].rstrip(".")


def shown(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def title(text: str, explanation: str = "") -> Text:
    """The line above a table."""
    return Text.assemble((text, "bold"), f"  {explanation}".rstrip())


def section(heading: str, rows: Iterable[tuple[str, str]]) -> RenderableType:
    """A title and its table; nothing if there are no rows."""
    listed = list(rows)
    return Group(title(heading), two_columns(listed)) if listed else Group()


def two_columns(rows: Iterable[tuple[str, str]]) -> RenderableType:
    """Names, and what they mean."""
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
    table.add_column(max_width=NAME_WIDTH, overflow="fold")
    table.add_column()
    for name, meaning in rows:
        table.add_row(Text(name), Text(meaning))
    return Group(table, "")
