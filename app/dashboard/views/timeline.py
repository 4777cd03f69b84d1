"""The run page's chart: memory curve above, Gantt lanes below, one time axis.

`traces` gives the same sequence of traces for every window, so that a zoom replaces only their data (`data_changes`).
Times on the axis are ms from the start of the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from app.dashboard import theme
from app.dashboard.views.lane_traces import LANE_TITLES, data_of, faded, lane_traces, packed
from app.dashboard.views.lanes import MS
from app.dashboard.views.phases import phase_notes, phase_shapes
from app.dashboard.views.step import StepView
from hyperoffload_core.sizes import format_bytes
from profiles.series import MemoryCurve, downsample
from profiles.series import window as cut

HEIGHT = 640
MEMORY_BINS = 1_000
UNITS = (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024), ("B", 1))
# Centre of each lane on the lanes' axis; a lane is 0.8 high.
LANES = {"compute": 3.0, "copy_in": 2.0, "copy_out": 1.0}
LANE_HEIGHT = 0.8
# From the floor up: what stays the whole step first, so that the upper edge shows what moves.
STACK_ORDER = (
    "weight",
    "optimizer_state",
    "constant",
    "kv_cache",
    "input",
    "gradient",
    "activation",
    "output",
    "workspace",
)


@dataclass(frozen=True)
class Timeline:
    """What the chart shows: one step, or a measured one with the prediction for it beside it."""

    main: StepView
    beside: StepView | None = None

    @cached_property
    def curve(self) -> MemoryCurve:
        return stacked(self.main.curve)

    @cached_property
    def beside_curve(self) -> MemoryCurve | None:
        return None if self.beside is None else self.beside.curve

    @cached_property
    def end_ns(self) -> int:
        return max(self.main.end_ns, self.beside.end_ns if self.beside else 0, 1)

    @property
    def views(self) -> tuple[StepView, ...]:
        return (self.main,) if self.beside is None else (self.main, self.beside)

    @cached_property
    def unit(self) -> tuple[str, int]:
        """The unit of the memory axis."""
        return unit_of(max(self.curve.peak[1], self.main.profile.schedule.memory_limit_bytes // 2))

    def whole(self) -> tuple[int, int]:
        return 0, self.end_ns


def stacked(curve: MemoryCurve) -> MemoryCurve:
    """The same curve with its classes in the order in which they are stacked."""
    rows = sorted(range(len(curve.classes)), key=lambda row: STACK_ORDER.index(curve.classes[row]))
    return MemoryCurve(curve.times_ns, tuple(curve.classes[row] for row in rows), curve.bytes[rows])


def unit_of(size_bytes: int) -> tuple[str, int]:
    return next(u for u in UNITS if size_bytes >= u[1] or u[1] == 1)


def figure(timeline: Timeline, window: tuple[int, int], cursor_ns: int | None = None) -> dict[str, Any]:
    """The chart as a plotly document, zoomed to ``window`` (ns)."""
    return {"data": list(traces(timeline, window)), "layout": layout(timeline, window, cursor_ns)}


def data_changes(timeline: Timeline, window: tuple[int, int]) -> Iterator[tuple[int, str, Any]]:
    """(trace, key, value) of everything that depends on the window."""
    return data_of(traces(timeline, window))


def traces(timeline: Timeline, window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    # Half a window more on each side, so that a pan shows something before the answer to it arrives.
    margin = (window[1] - window[0]) // 2
    wide = max(0, window[0] - margin), min(timeline.end_ns, window[1] + margin)
    yield from _memory_traces(timeline, wide)
    for row, view in enumerate(timeline.views):
        places = lane_places(row, len(timeline.views))
        yield from lane_traces(view, wide, window[1] - window[0], places, 1.0 if row == 0 else 0.62)


def lane_places(row: int, rows: int) -> dict[str, tuple[float, float]]:
    """Floor and height of each lane; of two profiles the first takes the upper part of each lane."""
    if rows == 1:
        return {key: (centre - LANE_HEIGHT / 2, LANE_HEIGHT) for key, centre in LANES.items()}
    if row == 0:
        return {key: (centre - LANE_HEIGHT * 0.1, LANE_HEIGHT * 0.6) for key, centre in LANES.items()}
    return {key: (centre - LANE_HEIGHT / 2, LANE_HEIGHT * 0.32) for key, centre in LANES.items()}


def _memory_traces(timeline: Timeline, window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    name, unit = timeline.unit
    curve = downsample(cut(timeline.curve, *window), MEMORY_BINS)
    time = curve.times_ns / MS
    upper = np.cumsum(curve.bytes, axis=0) / unit
    for row, tensor_class in enumerate(curve.classes):
        colour = theme.class_colour(tensor_class)
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": packed(time),
            "y": packed(upper[row]),
            "line": {"shape": "hv", "width": 0.6, "color": colour, "simplify": False},
            "fill": "tozeroy" if row == 0 else "tonexty",
            "fillcolor": faded(colour, 0.82),
            "hoverinfo": "skip",
            "name": theme.class_title(tensor_class),
        }
    held = (curve.bytes / unit).astype(np.float32)
    parts = "".join(
        f"<br>{theme.class_title(c)} %{{customdata[{row}]:.3~f}} {name}" for row, c in enumerate(curve.classes)
    )
    yield {
        "type": "scatter",
        "mode": "lines",
        "x": packed(time),
        "y": packed(upper[-1] if len(upper) else np.empty(0)),
        "customdata": packed(np.ascontiguousarray(held.T)),
        "line": {"shape": "hv", "width": 1.2, "color": "rgba(90,100,118,0.9)", "simplify": False},
        "hovertemplate": f"<b>%{{y:.4~f}} {name}</b> at %{{x:.4~f}} ms{parts}<extra></extra>",
        "name": timeline.main.kind,
    }
    if timeline.beside is not None and timeline.beside_curve is not None:
        other = downsample(cut(timeline.beside_curve, *window), MEMORY_BINS)
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": packed(other.times_ns / MS),
            "y": packed(other.total / unit),
            "line": {"shape": "hv", "width": 1.6, "color": theme.CURSOR, "dash": "dash", "simplify": False},
            "hovertemplate": f"{timeline.beside.kind} %{{y:.4~f}} {name} at %{{x:.4~f}} ms<extra></extra>",
            "name": timeline.beside.kind,
        }


def layout(timeline: Timeline, window: tuple[int, int], cursor_ns: int | None) -> dict[str, Any]:
    name, unit = timeline.unit
    limit = timeline.main.profile.schedule.memory_limit_bytes
    peak_ns, peak = timeline.curve.peak
    tops = [peak, timeline.beside_curve.peak[1] if timeline.beside_curve else 0]
    # A limit far above everything would press the curve flat: then it is named, not drawn to scale.
    to_scale = limit <= 1.7 * max(tops)
    top = max([*tops, limit if to_scale else 0]) * 1.12 / unit
    return {
        **theme.figure_layout(HEIGHT),
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        "hoverdistance": 24,
        "clickanywhere": True,
        "xaxis": theme.axis(
            domain=[0, 1],
            anchor="y2",
            range=[window[0] / MS, window[1] / MS],
            minallowed=0 - timeline.end_ns * 0.02 / MS,
            maxallowed=timeline.end_ns * 1.02 / MS,
            ticksuffix=" ms",
            showspikes=True,
            spikemode="across",
            spikesnap="cursor",
            spikethickness=1,
            spikecolor="#8A94A6",
            spikedash="solid",
        ),
        "yaxis": theme.axis(
            domain=[0.44, 1], range=[0, top], fixedrange=True, title={"text": f"Device memory ({name})"}
        ),
        "yaxis2": theme.axis(
            domain=[0, 0.40],
            range=[0.5, 4.05],
            fixedrange=True,
            showgrid=False,
            tickvals=list(LANES.values()),
            ticktext=list(LANE_TITLES.values()),
        ),
        "shapes": [cursor_shape(cursor_ns), *_limit_shapes(limit / unit, to_scale), *phase_shapes(timeline.main)],
        "annotations": [
            *_limit_notes(limit, limit / unit, to_scale),
            *phase_notes(timeline.main),
            {
                "x": peak_ns / MS,
                "y": peak / unit,
                "text": f"peak {format_bytes(peak)}",
                "showarrow": True,
                "arrowhead": 2,
                "arrowsize": 0.9,
                "arrowwidth": 1.2,
                "arrowcolor": "#7A8596",
                "ax": 0,
                "ay": -22,
                "font": {"size": 12},
                "bgcolor": "#FFFFFF",
                "borderpad": 2,
            },
        ],
    }


def cursor_shape(cursor_ns: int | None) -> dict[str, Any]:
    """The chosen time as a line through both panels; the first shape of the layout."""
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": (cursor_ns or 0) / MS,
        "x1": (cursor_ns or 0) / MS,
        "y0": 0,
        "y1": 1,
        "visible": cursor_ns is not None,
        "line": {"color": theme.CURSOR, "width": 1.5, "dash": "dot"},
    }


def _limit_shapes(level: float, to_scale: bool) -> list[dict[str, Any]]:
    if not to_scale:
        return []
    line = {"color": theme.LIMIT, "width": 1.4, "dash": "dash"}
    return [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": level, "y1": level, "line": line}]


def _limit_notes(limit: int, level: float, to_scale: bool) -> list[dict[str, Any]]:
    place = {"yref": "y", "y": level, "yanchor": "bottom"} if to_scale else {"yref": "paper", "y": 1, "yanchor": "top"}
    text = f"limit {format_bytes(limit)}" + ("" if to_scale else " (above this axis)")
    return [{"xref": "paper", "x": 1, "xanchor": "right", **place, "text": text, "showarrow": False}]
