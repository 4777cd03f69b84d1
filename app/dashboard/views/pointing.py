"""What was meant: a click on the timeline as a time and a thing, a zoom as a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.dashboard.views.lanes import MS
from app.dashboard.views.step import item_at
from app.dashboard.views.timeline import LANE_HEIGHT, Timeline


def clicked_item(click: dict[str, Any] | None) -> tuple[str, int] | None:
    """("op" or "transfer", id) of the bar that was clicked; None beside bars."""
    for point in (click or {}).get("points", ()):
        data = point.get("customdata")
        if isinstance(data, list) and len(data) == 3 and isinstance(data[0], str):
            return ("op" if data[0] == "compute" else "transfer"), int(data[2])
    return None


def clicked_node(clicks: Sequence[dict[str, Any] | None]) -> int | None:
    """The op that was clicked in a neighbourhood chart."""
    for click in clicks:
        for point in (click or {}).get("points", ()):
            if isinstance(point.get("customdata"), int):
                return int(point["customdata"])
    return None


def clicked_time(click: dict[str, Any] | None) -> int | None:
    """The time (ns) under the pointer."""
    if not click:
        return None
    if click.get("xvals"):
        return int(float(click["xvals"][0]) * MS)
    for point in click.get("points", ()):
        if "x" in point and "base" not in point:
            return int(float(point["x"]) * MS)
    return None


def clicked_lane(click: dict[str, Any] | None) -> float | None:
    """The height on the lanes' axis under the pointer; None when the click was on the memory curve."""
    if not click or click.get("yaxes_id") != "y2" or not click.get("yvals"):
        return None
    return float(click["yvals"][0])


def zoom_window(change: dict[str, Any] | None, end_ns: int) -> tuple[int, int] | None:
    """The window (ns) of a relayout event; the whole step for a reset; None for any other event."""
    span = shown_span(change)
    if span is None:
        return (0, end_ns) if (change or {}).get("xaxis.autorange") else None
    start, end = int(span[0] * MS), int(span[1] * MS)
    return (start, end) if end > start else None


def shown_span(change: dict[str, Any] | None) -> tuple[float, float] | None:
    """Both ends of the x axis that a relayout event names, in units of that axis; None for any other event."""
    change = change or {}
    low, high = change.get("xaxis.range") or (change.get("xaxis.range[0]"), change.get("xaxis.range[1]"))
    return None if low is None or high is None else (float(low), float(high))


def item_under(click: dict[str, Any] | None, shown: Timeline) -> tuple[str, int] | None:
    """The op or transfer at the clicked time in the clicked lane, where bars are too many to be drawn singly."""
    time, height = clicked_time(click), clicked_lane(click)
    if time is None or height is None:
        return None
    for row in shown.main.lanes.rows:
        if abs(height - shown.centres[row.key]) <= LANE_HEIGHT / 2:
            item = item_at(row.lane, time)
            return None if item is None else (row.kind, item)
    return None


def selected_window(change: dict[str, Any] | None, end_ns: int) -> tuple[int, int] | None:
    """The stretch (ns) that was dragged over in select mode, cut to the step; None for any other event."""
    boxes = (change or {}).get("selections")
    if not boxes:
        return None
    low, high = sorted((float(boxes[-1]["x0"]), float(boxes[-1]["x1"])))
    start, end = max(0, round(low * MS)), min(end_ns, round(high * MS))
    return (start, end) if end > start else None
