"""A picture of simulated iterations: ``python experiments/draw_timeline.py timeline=runs/.../timeline.json``."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# This checkout before site-packages, where a stranger's package may be called `agents` too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from omegaconf import DictConfig
from rich.console import Console

from experiments.application import application
from experiments.construct import resolved
from experiments.errors import OptionError
from experiments.gantt_picture import gantt_scene
from experiments.run_folder import RunFolder, write_whole
from experiments.scene import scene_figure, svg_text
from experiments.stored_timeline import load_timeline

ENDINGS = (".html", ".svg", ".png")


@application("draw_timeline")  # @hydra.main: what completion in fish looks for
def main(cfg: DictConfig) -> None:
    """Draw one timeline.json, or several one above the other, and write the page or the picture."""
    options = resolved(cfg)
    paths = [Path(path) for path in texts("timeline", options["timeline"])]
    if not paths:
        raise OptionError("timeline", "give the path of a timeline.json, or several: timeline=[a.json,b.json]")
    labels = texts("labels", options["labels"]) or [str(path.parent) for path in paths]
    if len(labels) != len(paths):
        raise OptionError("labels", f"give one for each timeline; there are {len(paths)}, not {len(labels)}")
    num_connections = options["num_connections"]
    if type(num_connections) is not int or num_connections < 0:
        raise OptionError("num_connections", f"{num_connections!r} is not a whole number from 0 on")
    output = Path(str(options["output"])) if options["output"] is not None else paths[0].with_name("timeline.html")
    if output.suffix not in ENDINGS:
        raise OptionError("output", f"'{output}' does not end with {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}")
    timelines = [load_timeline(path, label=label) for path, label in zip(paths, labels, strict=True)]
    if output.suffix == ".svg":
        write_whole(output, svg_text(gantt_scene(timelines, num_connections=num_connections)))
    elif output.suffix == ".png":
        RunFolder(output.parent).write_png(
            output.name, scene_figure(gantt_scene(timelines, num_connections=num_connections))
        )
    else:
        # plotly takes a second to import, and the other pictures do without.
        from experiments.timeline_figure import timeline_figure, write_html

        write_html(timeline_figure(timelines, num_connections=num_connections), output)
    Console().print(f"picture in {output}", highlight=False, markup=False, soft_wrap=True)


def texts(option: str, value: Any) -> Sequence[str]:
    """One text or a list of them, as a list; none for null.

    Raises:
        OptionError: it is something else.
    """
    if value is None:
        return []
    if isinstance(value, dict):
        raise OptionError(option, f"{value!r} is not a text or a list of texts")
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


if __name__ == "__main__":
    main()
