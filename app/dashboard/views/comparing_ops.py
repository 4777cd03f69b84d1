"""The compare page's chart along aligned ops instead of time: memory curves over each other, lanes above each other,
and below them how much later than in the baseline each op ends. x is the place of an op on the axis of
`profiles.by_op`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard import theme
from app.dashboard.views.comparing import (
    MEMORY_HEIGHT,
    Compared,
    block_lines,
    block_names,
    in_template,
    lanes_axis,
    run_line,
)
from app.dashboard.views.lane_traces import data_of, lane_traces, packed, plain
from app.dashboard.views.lanes import BEYOND
from app.dashboard.views.pointing import shown_span
from profiles.figures import time_scale
from profiles.figures_by_op import thinned
from profiles.lanes_by_op import PLACE

BEHIND_HEIGHT = 190
# Room below for the axis and its title, and the gap between two charts, in pixels.
FOOT, GAP = 70, 22
BINS = 1_000
# Ops in the window up to which every point says which op it is.
NAMED = 2_000
Column = NDArray[np.int64]


def last_place(compared: Compared) -> int:
    return max(len(compared.by_op.order) - 1, 1)


def whole(compared: Compared) -> tuple[float, float]:
    """All places, and beside them what runs before the first op and after the last."""
    margin = max(1.0, 0.01 * last_place(compared))
    return -margin, last_place(compared) + margin


def height(compared: Compared) -> int:
    """Of the whole chart, in pixels."""
    return MEMORY_HEIGHT + compared.lanes_height + BEHIND_HEIGHT + 2 * GAP + FOOT


def asked_window(change: dict[str, Any] | None, compared: Compared) -> tuple[float, float] | None:
    """The places a relayout event asks for; all of them for a reset, None for any other event."""
    span = shown_span(change)
    if span is None:
        return whole(compared) if (change or {}).get("xaxis.autorange") else None
    return span if span[1] > span[0] else None


def figure(compared: Compared, window: tuple[float, float]) -> dict[str, Any]:
    return {"data": list(traces(compared, window)), "layout": _layout(compared, window)}


def data_changes(compared: Compared, window: tuple[float, float]) -> Iterator[tuple[int, str, Any]]:
    """(trace, key, value) of everything that depends on the window."""
    return data_of(traces(compared, window))


def traces(compared: Compared, window: tuple[float, float]) -> Iterator[dict[str, Any]]:
    """A line of memory for each run, a line of delay for each but the baseline, then the lanes of each."""
    margin = (window[1] - window[0]) / BEYOND
    wide = window[0] - margin, window[1] + margin
    name, unit = compared.unit
    late = time_scale(_latest(compared))
    rows = list(enumerate(zip(compared.names, compared.views, compared.by_op.courses, strict=True)))
    for index, (title, view, course) in rows:
        yield {
            **_line(compared, index, title, course.place, course.bytes, unit, wide),
            "yaxis": "y",
            "hovertemplate": f"<b>{in_template(title)}</b> {view.kind}<br>%{{y:.4~f}} {name} while it runs"
            "<br>%{text}<extra></extra>",
        }
    for index, (title, view, course) in rows:
        if index != compared.baseline:
            place = course.place[course.shared]
            yield {
                **_line(compared, index, title, place, course.behind_ns, late.divisor, wide),
                "yaxis": "y3",
                "hovertemplate": f"<b>{in_template(title)}</b> {view.kind}<br>%{{y:+.4~f}} {late.unit} against "
                f"{in_template(compared.names[compared.baseline])}<br>%{{text}}<extra></extra>",
            }
    # Lanes are drawn in what charts along time call ms: here a place.
    span = round(wide[0] * PLACE), round(wide[1] * PLACE)
    for index, (view, along) in enumerate(zip(compared.views, compared.lanes_by_op, strict=True)):
        yield from lane_traces(view, span, (span[1] - span[0]) // 2, compared.places(index), along=along)


def _line(
    compared: Compared,
    index: int,
    title: str,
    place: Column,
    values: Column,
    divisor: int,
    wide: tuple[float, float],
) -> dict[str, Any]:
    first, last = np.searchsorted(place, wide, side="left").tolist()
    # One point more on either side, so that the line reaches the edges of the chart.
    seen = slice(max(first - 1, 0), last + 1)
    drawn, kept = thinned(place[seen], values[seen], BINS)
    names = compared.by_op.order
    few = len(drawn) <= NAMED
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(title),
        "x": packed(drawn),
        "y": packed(kept / divisor),
        "text": [plain(names[p].name) if few else "" for p in drawn.tolist()],
        "line": run_line(index),
    }


def _latest(compared: Compared) -> int:
    return max(int(np.abs(course.behind_ns).max(initial=1)) for course in compared.by_op.courses)


def _layout(compared: Compared, window: Sequence[float]) -> dict[str, Any]:
    name, _ = compared.unit
    late = time_scale(_latest(compared))
    base = plain(compared.names[compared.baseline])
    low, high = whole(compared)
    drawn = height(compared) - FOOT
    behind, lanes = BEHIND_HEIGHT / drawn, (BEHIND_HEIGHT + GAP + compared.lanes_height) / drawn
    return {
        **theme.figure_layout(height(compared)),
        "uirevision": "op",
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        "hoverdistance": 24,
        "margin": {"l": 64, "r": 16, "t": 14, "b": 52},
        "xaxis": theme.axis(
            domain=[0, 1],
            anchor="y3",
            range=list(window),
            minallowed=2 * low,
            maxallowed=high + (high - last_place(compared)),
            title={"text": f"ops in the order of {base}, with what others run in between", "font": {"size": 12}},
            **theme.SPIKE,
        ),
        "yaxis": theme.axis(
            domain=[lanes + GAP / drawn, 1],
            rangemode="tozero",
            fixedrange=True,
            title={"text": f"Device memory ({name})"},
        ),
        "yaxis2": lanes_axis(compared, [behind + GAP / drawn, lanes]),
        "yaxis3": theme.axis(
            domain=[0, behind],
            fixedrange=True,
            title={"text": f"Behind the baseline ({late.unit})"},
            zeroline=True,
            zerolinecolor="#8A94A6",
        ),
        "shapes": block_lines(compared),
        "annotations": block_names(compared),
    }
