"""The three lanes of one profile as plotly traces: bars or outlines, and the marks of exposed and blocking time."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard import theme
from app.dashboard.views.lanes import MS, Floats, draw, fitted, joined, outline
from app.dashboard.views.step import RunView, StepView
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.lanes import Lane, LaneKind
from profiles.lanes_by_op import OpLanes
from profiles.plain import visible

Times = NDArray[np.int64]

LANE_COLOURS = {"compute": theme.COMPUTE, "copy_in": theme.COPY_IN, "copy_out": theme.COPY_OUT}
NOTHING = Lane(*np.zeros((3, 0), dtype=np.int64))
LONGEST_NAME = 120
# What depends on the window in any trace.
DATA_KEYS = ("x", "y", "base", "width", "text", "hovertext", "customdata", "marker")


def lane_traces(
    view: StepView,
    window: tuple[int, int],
    view_ns: int,
    places: Mapping[str, tuple[float, float]],
    opacity: float = 1.0,
    along: OpLanes | None = None,
) -> Iterator[dict[str, Any]]:
    """For each row bars, outline and marks. ``places`` is (floor, height) on the axis ``y2`` by key of the row;
    ``view_ns`` is the part of the window that is seen. ``along`` are the same lanes on another axis than time."""
    lanes = view.lanes if along is None else along
    for key, (floor, height) in places.items():
        row = lanes.row[key]
        colour = LANE_COLOURS[row.of]
        text, hover = _words(view, row.kind)
        if along is not None:
            hover = _timed(hover, view.times[row.kind])
        drawn = draw(row.lane, window, text, hover, view_ns)
        common = {"yaxis": "y2", "opacity": opacity, "name": f"{row.title} ({view.kind})"}
        yield {
            **common,
            "type": "bar",
            "orientation": "h",
            "base": packed(drawn.bars.start_ms),
            "x": packed(drawn.bars.length_ms),
            "y": packed(np.full(len(drawn.bars.id), floor + height / 2)),
            "width": packed(np.full(len(drawn.bars.id), height)),
            "text": drawn.bars.text,
            "hovertext": drawn.bars.hover,
            "customdata": [[row.of, view.kind, i] for i in drawn.bars.id],
            "hovertemplate": "%{hovertext}<extra></extra>",
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "constraintext": "none",
            "insidetextfont": {"color": "#FFFFFF", "size": 11},
            "marker": {"color": colour, "line": _edge(drawn.apart, colour)},
            # Selecting a stretch of time leaves the bars as they are.
            "unselected": {"marker": {"opacity": opacity}},
        }
        yield {**common, **_area(drawn.outline.time_ms, floor + height * drawn.outline.height, colour)}
        if row.kind == "transfer":
            marked, mark, tall = lanes.exposed_in(key), theme.EXPOSED, height * 0.26
        else:
            # Compute waits as a whole, whichever row would have run the next op.
            marked, mark, tall = lanes.waiting if key == "compute" else NOTHING, theme.BLOCKING, height
        shape = outline(marked, window)
        marks = _area(shape.time_ms, floor + tall * shape.height, mark)
        # Without a line: it would run along the floor between the marks.
        marks["line"]["width"] = 0
        yield {**common, **marks, "opacity": 1.0 if opacity == 1.0 else 0.7}


def _timed(
    hover: Callable[[int, int, int], str], times: Mapping[int, tuple[int, int]]
) -> Callable[[int, int, int], str]:
    """The same words where a bar's edges are no times."""
    return lambda item, _start, _end: hover(item, *times[item])


def _edge(apart: bool, colour: str) -> dict[str, Any]:
    """Wide bars are set apart by a light edge; thin ones it would hide, so those get their own colour."""
    return {"width": 0.5, "color": "rgba(255,255,255,0.45)" if apart else colour}


def _area(time_ms: NDArray[np.float64], level: NDArray[np.float64], colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(time_ms),
        "y": packed(level.astype(np.float32)),
        "fill": "toself",
        "fillcolor": colour,
        "line": {"width": 0.5, "color": colour, "simplify": False},
        "hoverinfo": "skip",
    }


def _words(view: StepView, kind: LaneKind) -> tuple[Callable[[int, int], str], Callable[[int, int, int], str]]:
    """Text inside and beside a bar, for ops and for transfers."""
    graph = view.profile.schedule.graph
    if kind == "op":

        def op_hover(op: int, start: int, end: int) -> str:
            o = graph.ops[op]
            return f"<b>{plain(o.name)}</b><br>{plain(o.scope)}<br>{o.phase} · {format_ns(end - start)} · {view.kind}"

        return lambda op, letters: plain(fitted(graph.ops[op].primitive, letters)), op_hover

    def transfer_hover(transfer: int, start: int, end: int) -> str:
        move = view.transfers[transfer]
        part = f" ({view.parts[transfer]})" if transfer in view.parts else ""
        return (
            f"<b>{move.kind.title()} {plain(graph.storages[move.storage].name)}</b>{part}<br>"
            f"{format_bytes(move.bytes)} in {format_ns(end - start)} · {view.kind}{cost(transfer)}"
        )

    def cost(transfer: int) -> str:
        if isinstance(view, RunView):
            return ""
        verdict = view.verdicts[transfer]
        return (
            f"<br>exposed {format_ns(verdict.exposed_ns)}, blocking {format_ns(verdict.blocking_ns)}, "
            f"slack {format_ns(verdict.slack_ns)}"
        )

    def transfer_text(transfer: int, letters: int) -> str:
        name = graph.storages[view.transfers[transfer].storage].name
        if transfer in view.parts and len(with_part := f"{name} · {view.parts[transfer]}") <= letters:
            return plain(with_part)
        # Names of storages differ at their end.
        return plain(fitted(name, letters, end=True))

    return transfer_text, transfer_hover


def filled(start_ns: Times, end_ns: Times, low: Floats, high: Floats, colour: str) -> dict[str, Any]:
    """Many rectangles as one filled path; ``low`` and ``high`` are in units of the y axis."""
    x, y = joined(start_ns / MS, end_ns / MS, low, high)
    return {
        "type": "scatter",
        "mode": "none",
        "x": packed(x),
        "y": packed(y),
        "fill": "toself",
        "fillcolor": colour,
        "line": {"simplify": False},
        "hoverinfo": "skip",
    }


def packed(values: NDArray[Any]) -> dict[str, Any]:
    """A typed array as plotly's own base64 form, a fifth of the time and size of a JSON list."""
    kind = {"float64": "f8", "float32": "f4", "int64": "f8"}[str(values.dtype)]
    array = values.astype(np.float64) if values.dtype == np.int64 else values
    data: dict[str, Any] = {"dtype": kind, "bdata": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}
    if array.ndim == 2:
        data["shape"] = f"{array.shape[0]}, {array.shape[1]}"
    return data


def plain(text: str) -> str:
    """Plotly reads a few tags in texts, and fills in ``%{…}`` in templates; names must show as they are."""
    short = visible(text, LONGEST_NAME)
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "&#37;{")


def faded(colour: str, alpha: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def data_of(traces: Iterable[dict[str, Any]]) -> Iterator[tuple[int, str, Any]]:
    """(trace, key, value) of everything in the traces that a zoom replaces."""
    for number, trace in enumerate(traces):
        for key in DATA_KEYS:
            if key in trace:
                yield number, key, trace[key]
