"""strategy_picture: a strategy, or two of them, in the manner of FlexFlow's figures 12 and 13."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from experiments.device_colours import device_colours, text_on
from experiments.scene import Box, Label, Line, Scene, svg_text
from experiments.strategy_layout import Cell, Panel, strategy_panels
from sim.operator_graph import Operator
from sim.strategy import ParallelConfig, Strategy

SIDE, GAP = 38.0, 6.0
"""Of an operator's square, and between the squares of a cell with two, px."""

CELL_WIDTH, TEXT_HEIGHT, PANEL_GAP = 54.0, 25.0, 14.0
MARGIN, TITLE_HEIGHT, HEADING_HEIGHT, LEGEND_HEIGHT = 16.0, 50.0, 18.0, 26.0
ROW_NAME_WIDTH = 92.0
MAX_WIDTH = 1080.0
"""Panels that do not fit go to the next line."""

LEAST_NUMBERED = 9.0
"""Side of the smallest part that bears the number of its device, px."""

LEAST_SWATCH = 15.0
"""Width of a device in the key, gaps between nodes included, px."""

LETTER_WIDTH, TITLE_LETTER_WIDTH = 5.6, 8.8
"""Of the line below the title and of the title, about, px."""

FADED = 0.3
"""Opacity of an operator that two strategies do not differ in."""

KEY = "vertical: samples; horizontal: other dimensions; S, A, P: degrees; numbers: devices"


@dataclass(frozen=True, slots=True)
class Placed:
    """A panel on the page: the corner of its first cell, px, and whether another stands left of it."""

    panel: Panel
    x: float
    y: float
    has_left: bool


def strategy_picture(strategy: Strategy, *, title: str | None = None) -> str:
    """The strategy as an SVG element (``experiments.scene``).

    Each square is an operator, cut into its parts; the colour of a part is its device. Neighbours that look alike are
    drawn once, and say how many they are.
    """
    return svg_text(strategy_scene([strategy], title=title))


def strategy_scene(
    strategies: Sequence[Strategy],
    *,
    title: str | None = None,
    key: str = KEY,
    notes: Mapping[int, str] | None = None,
) -> Scene:
    """One strategy, or several for the same graph and topology, their squares of an operator above each other.

    Args:
        strategies: operators in which they do not differ are drawn once, and faded.
        title: above the picture; by default, what the strategies are for.
        key: how to read the squares.
        notes: a word below an operator, by its position, in place of its degrees.
    """
    graph, topology = strategies[0].graph, strategies[0].topology
    if title is None:
        title = f"{graph.name} on {topology.num_devices} devices of {topology.name}"
    notes = notes or {}

    def look(operator: int) -> Hashable:
        return tuple(strategy[operator] for strategy in strategies), notes.get(operator)

    painter = _Painter(strategies, notes)
    height = len(strategies) * (SIDE + GAP) - GAP + TEXT_HEIGHT
    placed, width, bottom = _placed(strategy_panels(graph, look), height)
    header = max(LEAST_SWATCH * topology.num_devices, LETTER_WIDTH * len(key), TITLE_LETTER_WIDTH * len(title))
    width = max(width, min(MAX_WIDTH, 2 * MARGIN + header))
    painter.add_legend(title, key, width)
    for place in placed:
        painter.add_panel(place, height)
    return Scene(width, bottom, painter.items, title)


def _placed(panels: Sequence[Panel], cell_height: float) -> tuple[list[Placed], float, float]:
    """Panels in lines of text; also the size of the page."""
    lines: list[list[Panel]] = [[]]
    used = 0.0
    for panel in panels:
        if lines[-1] and used + _width(panel) > MAX_WIDTH - 2 * MARGIN:
            lines.append([])
            used = 0.0
        lines[-1].append(panel)
        used += _width(panel) + PANEL_GAP
    placed, right, y = [], 0.0, TITLE_HEIGHT + LEGEND_HEIGHT
    for line in lines:
        num_rows = max(panel.num_rows for panel in line)
        x = MARGIN
        for panel in line:
            middle = (num_rows - panel.num_rows) / 2 * cell_height
            names = ROW_NAME_WIDTH if panel.row_names else 0.0
            placed.append(Placed(panel, x + names, y + HEADING_HEIGHT + middle, panel is not line[0]))
            x += _width(panel) + PANEL_GAP
        right = max(right, x - PANEL_GAP)
        y += HEADING_HEIGHT * (2 if line[0].row_names else 1) + num_rows * cell_height + 4
    return placed, right + MARGIN, y + MARGIN / 2


def _width(panel: Panel) -> float:
    return panel.num_columns * CELL_WIDTH + (ROW_NAME_WIDTH if panel.row_names else 0.0)


class _Painter:
    """Collects what is drawn."""

    def __init__(self, strategies: Sequence[Strategy], notes: Mapping[int, str]) -> None:
        self.strategies, self.notes = strategies, notes
        self.graph, self.topology = strategies[0].graph, strategies[0].topology
        self.colours = device_colours(self.topology.devices)
        self.items: list[Box | Label | Line] = []

    def add_legend(self, title: str, key: str, width: float) -> None:
        """The title, how to read the squares, and the devices, node by node."""
        self.items.append(Label(MARGIN, 22, title, 14, is_bold=True))
        self.items.append(Label(MARGIN, 39, key, 10.5, colour="faint"))
        devices = self.topology.devices
        num_nodes = len({device.node for device in devices})
        swatch = min(22.0, (width - 2 * MARGIN - 8 * num_nodes) / len(devices))
        x, node = MARGIN, devices[0].node
        for number, device in enumerate(devices):
            x += 8 if device.node != node else 0
            node = device.node
            self._add_part(x, TITLE_HEIGHT, swatch, 14, number, device.name, 1.0, _fits(len(devices) - 1, swatch, 14))
            x += swatch

    def add_panel(self, placed: Placed, height: float) -> None:
        """Names, links, then the cells."""
        panel, left, top = placed.panel, placed.x, placed.y
        right = left + panel.num_columns * CELL_WIDTH
        if panel.title:
            self.items.append(Label(left + (CELL_WIDTH - SIDE) / 2, top - 5, panel.title, 10.5, is_bold=True))
        for row, name in enumerate(panel.row_names):
            if name:
                y = top + row * height
                self.items.append(Box(left - 2, y - 4, right - left + 4, height - 4, "panel"))
                middle = y + (height - TEXT_HEIGHT) / 2 + 4
                self.items.append(Label(left - 8, middle, name, 11, anchor="end"))
        for column, name in enumerate(panel.column_names):
            middle = left + (column + 0.5) * CELL_WIDTH
            bottom = top + panel.num_rows * height + 10
            text = f"{'steps' if '-' in name else 'step'} {name}"
            self.items.append(Label(middle, bottom, text, 10, anchor="middle", colour="faint"))
        self._add_links(placed, height)
        for cell in panel.cells:
            self._add_cell(cell, *self._corner(placed, cell, height))

    def _corner(self, placed: Placed, cell: Cell, height: float) -> tuple[float, float]:
        x = placed.x + cell.column * CELL_WIDTH + (CELL_WIDTH - SIDE) / 2
        return x, placed.y + cell.row * height

    def _add_links(self, placed: Placed, height: float) -> None:
        """Lines from operators to their readers; into a module from its left side."""
        if placed.panel.row_names:
            return
        cells = placed.panel.cells
        side = (height - TEXT_HEIGHT) / 2
        middles = [(x, y + side) for x, y in (self._corner(placed, cell, height) for cell in cells)]
        entries = [number for number, cell in enumerate(cells) if cell.column == 0]
        bus, heights = placed.x, [middles[number][1] for number in entries]
        centre = placed.y + (placed.panel.num_rows - 1) / 2 * height + side
        if len(entries) > 1:
            self.items.append(Line(((bus, min(heights)), (bus, max(heights)))))
        if placed.has_left:
            self.items.append(Line(((bus - PANEL_GAP - (CELL_WIDTH - SIDE) / 2, centre), (bus, centre))))
        self.items += [Line(((bus, middles[number][1]), middles[number])) for number in entries]
        for src, dst in placed.panel.links:
            (x, y), (to_x, to_y) = middles[src], middles[dst]
            turn = to_x - (CELL_WIDTH - SIDE) / 2
            self.items.append(Line(((x + SIDE, y), (turn, y), (turn, to_y), (to_x, to_y))))

    def _add_cell(self, cell: Cell, x: float, y: float) -> None:
        number = cell.operators[0]
        operator = self.graph.operators[number]
        configs = [strategy[number] for strategy in self.strategies]
        is_equal = len(set(configs)) == 1 and len(configs) > 1
        names = operator.name if len(cell.operators) == 1 else f"{operator.name} and {len(cell.operators) - 1} more"
        middle = (SIDE + GAP) * (len(configs) - 1) / 2
        for place, config in enumerate(configs[:1] if is_equal else configs):
            shift = middle if is_equal else place * (SIDE + GAP)
            self._add_square(operator, names, config, x, y + shift, FADED if is_equal else 1.0)
        bottom = y + (SIDE + GAP) * len(configs) - GAP
        lines = [cell.name[:11], self.notes.get(number, "" if len(configs) > 1 else degrees_text(operator, configs[0]))]
        colours = ("faint", "mark" if number in self.notes else "ink")
        for place, (text, colour) in enumerate((t, c) for t, c in zip(lines, colours, strict=True) if t):
            self.items.append(Label(x + SIDE / 2, bottom + 9 + 9 * place, text, 8.5, anchor="middle", colour=colour))

    def _add_square(
        self, operator: Operator, names: str, config: ParallelConfig, x: float, y: float, opacity: float
    ) -> None:
        """One operator: a part for each device, samples from top to bottom."""
        is_sample = [dim.label == "S" for dim in operator.dims]
        num_rows = math.prod(d for d, is_s in zip(config.degrees, is_sample, strict=True) if is_s)
        num_columns = config.num_tasks // num_rows
        width, height = SIDE / num_columns, SIDE / num_rows
        has_numbers = _fits(max(config.devices), width, height)
        degrees = degrees_text(operator, config)
        for part, device in enumerate(config.devices):
            row = column = 0
            for index, degree, is_s in zip(config.coordinates(part), config.degrees, is_sample, strict=True):
                row, column = (row * degree + index, column) if is_s else (row, column * degree + index)
            tooltip = f"{names} ({operator.kind}), {degrees}: part {part} on {self.topology.devices[device].name}"
            self._add_part(x + column * width, y + row * height, width, height, device, tooltip, opacity, has_numbers)
        self.items.append(Box(x, y, SIDE, SIDE, outline="faint", opacity=opacity))

    def _add_part(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        device: int,
        tooltip: str,
        opacity: float,
        has_number: bool,
    ) -> None:
        colour = self.colours[device]
        gap = 0.5 if min(width, height) > 3 else 0.0
        self.items.append(Box(x, y, width - gap, height - gap, colour, tooltip=tooltip, opacity=opacity))
        if has_number:
            size = min(9.5, height * 0.85)
            place = (x + width / 2, y + height / 2 + 0.36 * size)
            self.items.append(Label(*place, str(device), size, anchor="middle", colour=text_on(colour)))


def _fits(device: int, width: float, height: float) -> bool:
    """Whether the number of a device can be read in a part of this size."""
    return height >= LEAST_NUMBERED and width >= LEAST_NUMBERED * (1.0 if device < 10 else 1.3)


def degrees_text(operator: Operator, config: ParallelConfig) -> str:
    """S4 P2: the degrees greater than 1; whole if there are none."""
    degrees = [f"{dim.label}{degree}" for dim, degree in zip(operator.dims, config.degrees, strict=True) if degree > 1]
    return " ".join(degrees) or "whole"
