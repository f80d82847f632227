"""Scene: a picture of rectangles, lines and texts, as SVG for light and dark pages or by matplotlib."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias
from xml.etree import ElementTree

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

Role: TypeAlias = Literal["ink", "faint", "line", "panel", "mark"]
Anchor: TypeAlias = Literal["start", "middle", "end"]

ROLE_COLOURS: dict[Role, tuple[str, str]] = {
    "ink": ("#1f2328", "#e6edf3"),
    "faint": ("#59636e", "#9aa4b2"),
    "line": ("#c3c9d2", "#4a5260"),
    "panel": ("#eef0f3", "#22272e"),
    "mark": ("#c4281c", "#ff7b6b"),
}
"""On a light and on a dark page."""

FONT_FAMILY = "Inter, Segoe UI, Helvetica, Arial, sans-serif"
POINTS_PER_PX = 0.75
"""Of matplotlib, for 96 pixels to the inch."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle from its upper left corner, in px.

    Attributes:
        fill: a colour (#rrggbb) or a role; None for an outline.
        outline: the role of its border, if it has one.
        tooltip: shown where the pointer rests.
        opacity: from 0 to 1.
    """

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    outline: Role | None = None
    tooltip: str = ""
    opacity: float = 1.0


@dataclass(frozen=True, slots=True)
class Label:
    """A text on a baseline, in px.

    Attributes:
        colour: a colour (#rrggbb) or a role.
    """

    x: float
    y: float
    text: str
    size: float = 11
    anchor: Anchor = "start"
    colour: str = "ink"
    is_bold: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points, in px."""

    points: tuple[tuple[float, float], ...]
    role: Role = "line"


@dataclass(frozen=True, slots=True)
class Scene:
    """What is drawn, in this order, on a page of this size in px."""

    width: float
    height: float
    items: Sequence[Box | Label | Line]
    title: str


def stacked(scenes: Sequence[Scene]) -> Scene:
    """Scenes below each other."""
    items: list[Box | Label | Line] = []
    bottom = 0.0
    for scene in scenes:
        items += [_moved(item, bottom) for item in scene.items]
        bottom += scene.height
    return Scene(max(scene.width for scene in scenes), bottom, items, scenes[0].title)


def _moved(item: Box | Label | Line, by: float) -> Box | Label | Line:
    if isinstance(item, Line):
        return replace(item, points=tuple((x, y + by) for x, y in item.points))
    return replace(item, y=item.y + by)


def svg_text(scene: Scene) -> str:
    """The scene as an SVG element: a file of its own, or part of a page.

    It follows the page's light or dark scheme; a page with a switch of its own sets the properties ``--ink`` and so on
    of ``svg.scene``.
    """
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "scene",
            "role": "img",
            "viewBox": f"0 0 {scene.width:g} {scene.height:g}",
            "width": f"{scene.width:g}",
            "height": f"{scene.height:g}",
        },
    )
    ElementTree.SubElement(root, "title").text = scene.title
    ElementTree.SubElement(root, "style").text = _style()
    for item in scene.items:
        _add(root, item)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _style() -> str:
    light, dark = (";".join(f"--{role}:{both[side]}" for role, both in ROLE_COLOURS.items()) for side in (0, 1))
    return (
        f":where(svg.scene){{{light}}}@media (prefers-color-scheme:dark){{:where(svg.scene){{{dark}}}}}"
        f"svg.scene{{max-width:100%;height:auto;font-family:{FONT_FAMILY}}}"
    )


def _add(root: ElementTree.Element, item: Box | Label | Line) -> None:
    if isinstance(item, Line):
        points = " ".join(f"{x:g},{y:g}" for x, y in item.points)
        style = f"fill:none;stroke:var(--{item.role})"
        ElementTree.SubElement(root, "polyline", {"points": points, "style": style})
    elif isinstance(item, Label):
        at = {"x": f"{item.x:g}", "y": f"{item.y:g}", "font-size": f"{item.size:g}", "text-anchor": item.anchor}
        bold = {"font-weight": "600"} if item.is_bold else {}
        ElementTree.SubElement(root, "text", at | bold | _css("fill", item.colour)).text = item.text
    else:
        place = {"x": item.x, "y": item.y, "width": item.width, "height": item.height}
        box = ElementTree.SubElement(root, "rect", {key: f"{value:g}" for key, value in place.items()})
        box.attrib |= _css("fill", item.fill or "none")
        if item.outline is not None:
            box.attrib["style"] = f"{box.attrib.get('style', '')};stroke:var(--{item.outline})".lstrip(";")
        if item.opacity < 1:
            box.set("opacity", f"{item.opacity:g}")
        if item.tooltip:
            ElementTree.SubElement(box, "title").text = item.tooltip


def _css(name: str, colour: str) -> dict[str, str]:
    return {"style": f"{name}:var(--{colour})"} if colour in ROLE_COLOURS else {name: colour}


def scene_figure(scene: Scene) -> Figure:
    """The scene by matplotlib, on a light page."""
    picture = Figure(figsize=(scene.width / 96, scene.height / 96), facecolor="white")
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, scene.width), ylim=(scene.height, 0))
    axes.set_axis_off()
    for order, item in enumerate(scene.items):
        if isinstance(item, Line):
            axes.plot(*zip(*item.points, strict=True), color=_light(item.role), linewidth=0.8, zorder=order)
        elif isinstance(item, Label):
            alignment = {"start": "left", "middle": "center", "end": "right"}[item.anchor]
            weight = "bold" if item.is_bold else "normal"
            size, colour = item.size * POINTS_PER_PX, _light(item.colour)
            text = axes.text(item.x, item.y, item.text, ha=alignment, va="baseline", zorder=order)
            text.set(fontsize=size, color=colour, weight=weight)
        else:
            box = Rectangle((item.x, item.y), item.width, item.height, linewidth=0.8, alpha=item.opacity, zorder=order)
            box.set(edgecolor=_light(item.outline or "none"), facecolor=_light(item.fill or "none"))
            axes.add_patch(box)
    return picture


def _light(colour: str) -> str:
    roles: dict[str, str] = {role: light for role, (light, _) in ROLE_COLOURS.items()}
    return roles.get(colour, colour)
