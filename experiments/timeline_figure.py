"""timeline_figure: simulated iterations as an interactive picture, one above the other on one time axis."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from experiments.run_folder import draft
from experiments.stored_timeline import FURTHER_COLOURS, KIND_COLOURS, Timeline, busiest

FONT = {"family": "Inter, Segoe UI, Helvetica, Arial, sans-serif", "size": 12, "color": "#2b2f36"}
LINE_COLOUR, GRID_COLOUR = "#c9ced6", "#e8ebef"
ROW_PX, TOP_PX, BOTTOM_PX, BETWEEN_PX = 15, 78, 34, 44
BAR_WIDTH, GROUP_GAP = 0.84, 0.7
"""In rows."""

HOVER = (
    "<b>%{text}</b><br>ready %{customdata[0]:,.3f} ms<br>start %{customdata[1]:,.3f} ms<br>end %{customdata[2]:,.3f} ms"
    "<br>%{customdata[3]:,.0f} bytes"
)


def timeline_figure(timelines: Sequence[Timeline], *, num_connections: int) -> go.Figure:
    """Draw timelines one above the other: rows are the devices, then the busiest connections.

    Args:
        timelines: at least one.
        num_connections: how many connections get a row, those that are occupied longest in all timelines together.
    """
    layouts = [_row_positions(timeline, busiest(timelines, num_connections)) for timeline in timelines]
    heights = [ROW_PX * (max(layout.values()) + 1) for layout in layouts]
    inner = sum(heights) + BETWEEN_PX * (len(timelines) - 1)
    figure = make_subplots(
        rows=len(timelines),
        shared_xaxes=True,
        vertical_spacing=BETWEEN_PX / inner,
        row_heights=heights,
    )
    last_ms = max(timeline.iteration_ms for timeline in timelines)
    seen: set[str] = set()
    for number, (timeline, layout) in enumerate(zip(timelines, layouts, strict=True), start=1):
        for trace in _traces(timeline, layout):
            trace.showlegend = trace.name not in seen
            seen.add(trace.name)
            figure.add_trace(trace, row=number, col=1)
        _write_axes(figure, number, timeline, layout, last_ms)
    figure.update_xaxes(showticklabels=True, ticksuffix=" ms", row=len(timelines), col=1)
    figure.update_layout(
        barmode="overlay",
        font=FONT,
        height=inner + TOP_PX + BOTTOM_PX,
        hoverlabel={"bgcolor": "white", "font": FONT},
        legend={"orientation": "h", "x": 0, "y": 1 + (TOP_PX - 10) / inner, "yanchor": "top"},
        margin={"l": 8, "r": 24, "t": TOP_PX, "b": BOTTOM_PX},
        paper_bgcolor="white",
        plot_bgcolor="white",
    )
    return figure


def write_html(figure: go.Figure, path: Path) -> None:
    """Write a page that needs no network, in place of what is at ``path``; whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    with draft(path) as unfinished:
        figure.write_html(unfinished, include_plotlyjs=True, config={"displaylogo": False, "responsive": True})


def _row_positions(timeline: Timeline, shown: set[str]) -> dict[str, float]:
    """Place of each row from the top, connections a little apart from the devices."""
    positions = {name: float(place) for place, name in enumerate(timeline.devices)}
    connections = [name for name in timeline.connections if name in shown]
    first = len(positions) + (GROUP_GAP if positions else 0.0)
    return positions | {name: first + place for place, name in enumerate(connections)}


def _traces(timeline: Timeline, layout: Mapping[str, float]) -> list[go.Bar]:
    """One trace for each kind: thousands of shapes would make a browser crawl."""
    traces = []
    is_shown = np.isin(timeline.rows, list(layout))
    further = sorted(set(timeline.kinds[is_shown]) - set(KIND_COLOURS))
    for legend_rank, kind in enumerate((*KIND_COLOURS, *further), start=1):
        chosen = is_shown & (timeline.kinds == kind)
        if not chosen.any():
            continue
        times, (area, outline) = timeline.times[chosen], KIND_COLOURS.get(kind, FURTHER_COLOURS)
        traces.append(
            go.Bar(
                name=kind,
                legendgroup=kind,
                legendrank=legend_rank,
                orientation="h",
                base=times[:, 1],
                x=times[:, 2] - times[:, 1],
                y=np.array([layout[row] for row in timeline.rows[chosen]]),
                width=BAR_WIDTH,
                text=timeline.tasks[chosen],
                textposition="none",
                customdata=times,
                hovertemplate=HOVER + f"<extra>{kind}</extra>",
                marker={"color": area, "line": {"color": outline, "width": 0.5}},
            )
        )
    return traces


def _write_axes(
    figure: go.Figure, number: int, timeline: Timeline, layout: Mapping[str, float], last_ms: float
) -> None:
    """Names of the rows, the heading, and a line where the iteration ends."""
    figure.update_xaxes(
        range=[0, 1.01 * last_ms],
        showticklabels=False,
        gridcolor=GRID_COLOUR,
        ticks="outside",
        ticklen=4,
        tickcolor=LINE_COLOUR,
        linecolor=LINE_COLOUR,
        zeroline=False,
        row=number,
        col=1,
    )
    figure.update_yaxes(
        range=[max(layout.values()) + 0.6, -0.6],
        tickvals=list(layout.values()),
        ticktext=list(layout),
        tickfont={"size": 10},
        ticklabelstandoff=4,
        showgrid=False,
        zeroline=False,
        automargin=True,
        row=number,
        col=1,
    )
    end_ms = timeline.iteration_ms
    figure.add_vline(end_ms, line={"color": FONT["color"], "width": 1, "dash": "dot"}, row=number, col=1)
    heading = f"<b>{timeline.label}</b>   {end_ms:,.3f} ms for one iteration"
    figure.add_annotation(
        text=heading,
        x=0,
        y=1,
        xref="x domain",
        yref="y domain",
        xanchor="left",
        yanchor="bottom",
        yshift=4,
        showarrow=False,
        font={"size": 14},
        row=number,
        col=1,
    )
