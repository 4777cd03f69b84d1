"""What is drawn over the lanes: arrows from a Store to its Prefetch, and the rectangles of what was picked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard import theme
from app.dashboard.views.lane_traces import packed
from app.dashboard.views.lanes import MS
from app.dashboard.views.step import StepView

Floats = NDArray[np.float64]
Places = dict[str, tuple[float, float]]

MOST_ARROWS = 40
# A frame is an element of the page each.
MOST_MARKED = 200


def returns(view: StepView, window: tuple[int, int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ends of Stores and starts of the next Prefetch of the same storage, of pairs that touch the window."""
    left, back = view.returns
    seen = (left < window[1]) & (back > window[0])
    return left[seen], back[seen]


def arrow_trace(view: StepView, window: tuple[int, int], places: Places) -> dict[str, Any]:
    """One trace of all arrows; empty when there are more than `MOST_ARROWS`."""
    left, back = returns(view, window)
    if len(left) > MOST_ARROWS:
        left, back = left[:0], back[:0]
    (out_floor, out_height), (in_floor, _) = places["copy_out"], places["copy_in"]
    low, high = out_floor + out_height, in_floor
    gap = np.full(len(left), np.nan)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "yaxis": "y2",
        "x": packed(np.column_stack([left / MS, back / MS, gap]).ravel()),
        "y": packed(np.tile([low, high, np.nan], len(left))),
        "line": {"width": 1.1, "color": "rgba(125,135,152,0.9)", "simplify": False},
        "marker": {
            "symbol": "arrow",
            "angleref": "previous",
            "size": packed(np.tile([0.0, 9.0, 0.0], len(left))),
            "color": "#7D8798",
        },
        "hoverinfo": "skip",
        "name": "Store to Prefetch",
    }


def picked_trace(
    view: StepView, window: tuple[int, int], places: Places, picked: tuple[str, int] | None
) -> dict[str, Any]:
    """Frames around the picked op or transfer, or around all that touches the picked storage."""
    time, height = [np.zeros(0)], [np.zeros(0)]
    ids = {} if picked is None else marked(view, *picked)
    for key, (floor, tall) in places.items():
        row = view.lanes.row[key]
        lane = row.lane.inside(*window)
        hits = np.flatnonzero(np.isin(lane.item, ids.get(row.kind, [])))[:MOST_MARKED]
        start, end = lane.start_ns[hits] / MS, lane.end_ns[hits] / MS
        gap = np.full(len(start), np.nan)
        time.append(np.column_stack([start, end, end, start, start, gap]).ravel())
        height.append(np.tile([floor, floor, floor + tall, floor + tall, floor, np.nan], len(start)))
    return {
        "type": "scatter",
        "mode": "lines",
        "yaxis": "y2",
        "x": packed(np.concatenate(time)),
        "y": packed(np.concatenate(height)),
        "line": {"width": 2, "color": theme.CURSOR, "simplify": False},
        "hoverinfo": "skip",
        "name": "picked",
    }


def marked(view: StepView, kind: str, identity: int) -> dict[str, list[int]]:
    """The ops and the transfers that belong to what was picked, by kind of lane; nothing for an unknown one."""
    if kind != "storage":
        return {kind: [identity]}
    accesses = view.profile.schedule.graph.accesses
    if not 0 <= identity < len(accesses):
        return {}
    moves = [t.id for t in view.profile.schedule.transfers if t.storage == identity]
    return {"op": [a.op for a in accesses[identity]], "transfer": moves}


def selected_shape(selected: tuple[int, int] | None) -> dict[str, Any]:
    """The selected stretch across both panels; the second shape of the layout."""
    start, end = selected or (0, 0)
    return {
        "type": "rect",
        "xref": "x",
        "yref": "paper",
        "x0": start / MS,
        "x1": end / MS,
        "y0": 0,
        "y1": 1,
        "visible": selected is not None,
        "fillcolor": "rgba(61,123,250,0.13)",
        "line": {"color": theme.CURSOR, "width": 1},
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
