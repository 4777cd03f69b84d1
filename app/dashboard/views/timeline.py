"""The run page's chart: memory curve above, Gantt lanes below, one time axis.

`traces` gives the same sequence of traces for every window, so that a zoom replaces only their data (`data_changes`).
Times on the axis are ms from the start of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.dashboard import theme
from app.dashboard.views.lane_traces import data_of, lane_traces
from app.dashboard.views.lanes import BARS, LABELLED, MS, OUTLINES, wider
from app.dashboard.views.marks import (
    MOST_ARROWS,
    Places,
    arrow_trace,
    cursor_shape,
    picked_trace,
    returns,
    selected_shape,
)
from app.dashboard.views.memory_traces import MEMORY_BINS as MEMORY_BINS
from app.dashboard.views.memory_traces import memory_traces
from app.dashboard.views.phases import Band, band_shapes, band_trace, phase_shades, step_shades
from app.dashboard.views.step import RunView, StepView
from hyperoffload_core.sizes import format_bytes
from profiles.lanes import Row
from profiles.stacks import Grouping

# Heights in pixels; of a lane with the gap to the next, and of the phases' band above them.
MEMORY_HEIGHT = 330
LANE_PIXELS = 70
BAND_PIXELS = 40
MARGIN_PIXELS = 50
GAP_PIXELS = 24
UNITS = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024), ("B", 1))
LANE_HEIGHT = 0.8
MOST_STAYS = 200_000
# Levels far above everything would press the curve flat: then they are named, not drawn to scale.
TO_SCALE = 1.7


@dataclass(frozen=True)
class Timeline:
    """What the chart shows: one step, or a measured one with the prediction for it beside it; how its memory is split;
    and what was picked ("op", "transfer" or "storage", id)."""

    main: StepView
    beside: StepView | None = None
    by: Grouping = "class"
    picked: tuple[str, int] | None = None

    @cached_property
    def end_ns(self) -> int:
        return max(self.main.end_ns, self.beside.end_ns if self.beside else 0, 1)

    @property
    def views(self) -> tuple[StepView, ...]:
        return (self.main,) if self.beside is None else (self.main, self.beside)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The lanes from top to bottom: those of every profile that is shown."""
        rows = {row.key: row for view in self.views for row in view.lanes.rows}
        kinds = list(dict.fromkeys(row.of for row in self.main.lanes.rows))
        return tuple(sorted(rows.values(), key=lambda row: kinds.index(row.of)))

    @cached_property
    def centres(self) -> dict[str, float]:
        """Centre of each lane on the lanes' axis, by key."""
        return {row.key: float(len(self.rows) - place) for place, row in enumerate(self.rows)}

    @property
    def bands(self) -> list[Band]:
        """What stands above the lanes: the phases of a step, the steps of a run."""
        if isinstance(self.main, RunView):
            return step_shades(self.main.starts_ns)
        return phase_shades(self.main.phases)

    @property
    def band(self) -> tuple[float, float]:
        """Floor and ceiling of the bands on the lanes' axis."""
        return len(self.rows) + 0.55, len(self.rows) + 1.0

    @property
    def lines(self) -> bool:
        """Whether theoretical and reserved memory are drawn: working them out takes seconds for a million stays."""
        return len(self.main.profile.lifetimes.step) <= MOST_STAYS

    @property
    def height(self) -> int:
        """Of the chart, in pixels."""
        return MEMORY_HEIGHT + GAP_PIXELS + BAND_PIXELS + LANE_PIXELS * len(self.rows) + MARGIN_PIXELS

    @cached_property
    def unit(self) -> tuple[str, int]:
        """The unit of the memory axis: that of the curve, however far above it a limit lies."""
        return unit_of(self.main.peak[1])

    def whole(self) -> tuple[int, int]:
        return 0, self.end_ns

    def places(self, number: int) -> Places:
        """Floor and height of the lanes of one profile; of two the first takes the upper part of each lane."""
        low, tall = (((0.0, 1.0),) if len(self.views) == 1 else ((0.4, 0.6), (0.0, 0.32)))[number]
        own = self.views[number].lanes.row
        floors = {key: at + (low - 0.5) * LANE_HEIGHT for key, at in self.centres.items() if key in own}
        return {key: (floor, tall * LANE_HEIGHT) for key, floor in floors.items()}


def unit_of(size_bytes: int) -> tuple[str, int]:
    return next(u for u in UNITS if size_bytes >= u[1] or u[1] == 1)


def figure(
    timeline: Timeline,
    window: tuple[int, int],
    cursor_ns: int | None = None,
    selected: tuple[int, int] | None = None,
    mode: str = "zoom",
) -> dict[str, Any]:
    """The chart as a plotly document, zoomed to ``window`` (ns); ``mode`` is what a drag does: zoom or select."""
    return {
        "data": list(traces(timeline, window)),
        "layout": layout(timeline, window, cursor_ns, selected) | {"dragmode": mode},
    }


def data_changes(timeline: Timeline, window: tuple[int, int]) -> Iterator[tuple[int, str, Any]]:
    """(trace, key, value) of everything that depends on the window."""
    return data_of(traces(timeline, window))


def traces(timeline: Timeline, window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    wide = wider(window, timeline.end_ns)
    yield from memory_traces(timeline.main, timeline.by, timeline.beside, wide, timeline.unit, timeline.lines)
    for number, view in enumerate(timeline.views):
        places = timeline.places(number)
        yield from lane_traces(view, wide, window[1] - window[0], places, 1.0 if number == 0 else 0.62)
    places = timeline.places(0)
    yield band_trace(timeline.bands, window, sum(timeline.band) / 2)
    yield arrow_trace(timeline.main, wide, places)
    yield picked_trace(timeline.main, wide, places, timeline.picked)


def detail_words(timeline: Timeline, window: tuple[int, int]) -> str:
    """How the window is drawn, in a sentence or two."""
    compute = sum(len(row.lane.inside(*window).item) for row in timeline.main.lanes.rows if row.kind == "op")
    copies = sum(len(row.lane.inside(*window).item) for row in timeline.main.lanes.rows if row.kind == "transfer")
    words = [f"In view: {compute:,} ops{_drawn(compute)}, {copies:,} transfers{_drawn(copies)}."]
    arrows = len(returns(timeline.main, window)[0])
    if arrows > MOST_ARROWS:
        words.append(f"Arrows from Store to Prefetch appear when {MOST_ARROWS} or fewer are in view (now {arrows:,}).")
    elif arrows:
        words.append(f"{arrows} arrow{'s' * (arrows > 1)} from Store to Prefetch.")
    if not timeline.lines:
        words.append(f"The theoretical and reserved lines are drawn for up to {MOST_STAYS:,} stays.")
    return " ".join(words)


def _drawn(count: int) -> str:
    if count <= LABELLED:
        return " with their names" if count else ""
    if count <= BARS:
        return " one by one"
    return " as outlines" if count <= OUTLINES else " as exact busy fractions"


def layout(
    timeline: Timeline, window: tuple[int, int], cursor_ns: int | None, selected: tuple[int, int] | None = None
) -> dict[str, Any]:
    name, unit = timeline.unit
    schedule = timeline.main.profile.schedule
    peak_ns, peak = timeline.main.peak
    tops = [peak, timeline.beside.peak[1] if timeline.beside else 0]
    tops += [timeline.main.reserved.peak[1]] if timeline.lines else []
    levels = [("limit", schedule.memory_limit_bytes, theme.LIMIT)]
    levels += [("capacity of the device", schedule.hardware.device_bytes, "#8A94A6")]
    drawn = [level for level in levels if level[1] <= TO_SCALE * max(tops)]
    beyond = [level for level in levels if level not in drawn]
    top = max([*tops, *(size for _, size, _ in drawn)]) * 1.12 / unit
    lanes = LANE_PIXELS * len(timeline.rows) + BAND_PIXELS
    whole = MEMORY_HEIGHT + GAP_PIXELS + lanes
    return {
        **theme.figure_layout(timeline.height),
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        "hoverdistance": 24,
        "clickanywhere": True,
        "selectdirection": "h",
        "newselection": {"line": {"color": theme.CURSOR, "width": 1}},
        "xaxis": theme.axis(
            domain=[0, 1],
            anchor="y2",
            range=[window[0] / MS, window[1] / MS],
            minallowed=0 - timeline.end_ns * 0.02 / MS,
            maxallowed=timeline.end_ns * 1.02 / MS,
            **theme.MILLISECONDS,
            **theme.SPIKE,
        ),
        "yaxis": theme.axis(
            domain=[1 - MEMORY_HEIGHT / whole, 1],
            range=[0, top],
            fixedrange=True,
            title={"text": f"Device memory ({name})"},
        ),
        "yaxis2": theme.axis(
            domain=[0, lanes / whole],
            range=[0.5, timeline.band[1] + 0.05],
            fixedrange=True,
            showgrid=False,
            tickvals=list(timeline.centres.values()),
            ticktext=[row.title for row in timeline.rows],
        ),
        "shapes": [
            cursor_shape(cursor_ns),
            selected_shape(selected),
            *(_level_shape(size / unit, colour) for _, size, colour in drawn),
            *band_shapes(timeline.bands, *timeline.band),
        ],
        "annotations": [
            *(_level_note(f"{title} {format_bytes(size)}", size / unit, title == "limit") for title, size, _ in drawn),
            *_beyond_note(beyond),
            _peak_note(peak_ns, peak, peak / unit),
        ],
    }


def _peak_note(peak_ns: int, peak: int, level: float) -> dict[str, Any]:
    return {
        "x": peak_ns / MS,
        "y": level,
        "text": f"peak {format_bytes(peak)}",
        "showarrow": True,
        "arrowhead": 2,
        "arrowsize": 0.9,
        "arrowwidth": 1.2,
        "arrowcolor": "#7A8596",
        "ax": 0,
        # Below the edge: above it stands the limit.
        "ay": 26,
        "font": {"size": 12},
        "bgcolor": "#FFFFFF",
        "borderpad": 2,
    }


def _level_shape(level: float, colour: str) -> dict[str, Any]:
    line = {"color": colour, "width": 1.4, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": level, "y1": level, "line": line}


def _level_note(text: str, level: float, at_right: bool) -> dict[str, Any]:
    """At one end each: a limit just below the capacity would write over it."""
    side = {"x": 1, "xanchor": "right"} if at_right else {"x": 0, "xanchor": "left"}
    place = {"xref": "paper", **side, "yref": "y", "y": level, "yanchor": "bottom"}
    return {**place, "text": text, "showarrow": False}


def _beyond_note(levels: list[tuple[str, int, str]]) -> list[dict[str, Any]]:
    if not levels:
        return []
    text = ", ".join(f"{title} {format_bytes(size)}" for title, size, _ in levels)
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "top"}
    return [{**place, "text": f"{text} (above this axis)", "showarrow": False}]
