"""Charts of reports as plotly.js figures in plain data: what depends on light or dark is set by who draws them, the
HTML report (plotly.js) or the SVG export (`profiles.svg`). Figures of one ``group`` share their x axis.

Times and sizes are shown in one unit per chart; the data stay exact until they are divided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.alive import layer_of
from profiles.colours import BLOCKING, COPY_IN, COPY_OUT, PHASE_COLOURS, RUN_COLOURS
from profiles.comparison import LabelledProfile
from profiles.lanes import Lane, lanes, part_words
from profiles.plain import html_text
from profiles.series import busy_fraction, downsample, memory_curve

DASHES = {"measured": "solid", "predicted": "dash"}

CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2, "filename": "hyperoffload-comparison"},
}
_BINS = 1200
_HOVERED_PER_LANE = 2000
# More rectangles than this are drawn as the busy fraction of each slice of the step.
_RECTANGLES = 10_000
_LABEL = 60
_Figure = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """A unit and what to divide by."""

    unit: str
    divisor: int


def time_scale(longest_ns: int) -> Scale:
    scales = (Scale("s", 10**9), Scale("ms", 10**6), Scale("µs", 10**3))
    return next((s for s in scales if longest_ns >= s.divisor), Scale("ns", 1))


def size_scale(largest_bytes: int) -> Scale:
    scales = (Scale("GiB", 2**30), Scale("MiB", 2**20), Scale("KiB", 2**10))
    return next((s for s in scales if largest_bytes >= s.divisor), Scale("B", 1))


def memory_figure(profiles: Sequence[LabelledProfile]) -> _Figure:
    """Device bytes over the median step, one line per profile (solid when measured, dashed when predicted), its peak
    marked, and every limit that lies near the curves."""
    curves = [memory_curve(p.profile, p.profile.median_step) for p in profiles]
    highest = max(curve.peak[1] for curve in curves)
    # The limit of a run that needed none (the whole device) would press the curves to the ground.
    limits = sorted({s.memory_limit_bytes for s in (p.profile.schedule for p in profiles)})
    limits = [limit for limit in limits if limit <= highest * 5 // 4]
    size = size_scale(highest)
    time = _time_scale(profiles)
    traces: list[_Figure] = []
    for index, (item, curve) in enumerate(zip(profiles, curves, strict=True)):
        drawn, (peak_at, peak) = downsample(curve, _BINS), curve.peak
        name, line = named(item), run_line(item, index)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "legendgroup": str(index),
                "x": (drawn.times_ns / time.divisor).round(6).tolist(),
                "y": (drawn.total / size.divisor).round(6).tolist(),
                "line": line,
                "hovertemplate": f"{label_in_template(item.label)}: %{{y:.4g}} {size.unit}<extra></extra>",
            }
        )
        text = f"peak of {label_in_template(item.label)}: {format_bytes(peak)} at {format_ns(peak_at)}"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "showlegend": False,
                "legendgroup": str(index),
                "x": [peak_at / time.divisor],
                "y": [peak / size.divisor],
                "marker": {"size": 9, "color": line["color"], "symbol": "diamond"},
                "hovertemplate": f"{text} ({item.profile.kind})<extra></extra>",
            }
        )
    shapes = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": limit / size.divisor,
            "y1": limit / size.divisor,
            "line": {"color": BLOCKING, "width": 1.2, "dash": "dot"},
            "label": {"text": f"limit {format_bytes(limit)}", "textposition": "start", "font": {"size": 11}},
        }
        for limit in limits
    ]
    layout = {
        "height": 340,
        "shapes": shapes,
        "hovermode": "x unified",
        "xaxis": _time_axis(profiles, time),
        "yaxis": {"title": {"text": f"device memory ({size.unit})"}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.12, "x": 0},
    }
    return {"data": traces, "layout": layout, "config": CONFIG, "group": "time"}


def run_line(item: LabelledProfile, index: int) -> dict[str, Any]:
    """How a profile's line looks in every chart: its colour, dashed when predicted."""
    colour = RUN_COLOURS[index % len(RUN_COLOURS)]
    return {"shape": "hv", "width": 2, "color": colour, "dash": DASHES[item.profile.kind]}


def gantt_figure(profiles: Sequence[LabelledProfile]) -> _Figure:
    """Compute, copy out and copy in of the median step, one block of three lanes per profile above each other."""
    time = _time_scale(profiles)
    traces: list[_Figure] = []
    ticks: list[tuple[float, str]] = []
    titles: list[_Figure] = []
    top, shown = 0.0, set[str]()
    for item in profiles:
        profile, step = item.profile, item.profile.median_step
        graph, moves = profile.schedule.graph, {t.id: t for t in profile.schedule.transfers}
        parts = part_words(profile.schedule)
        drawn = lanes(profile, step)
        titles.append(_block_title(named(item), top))
        compute_y, out_y, in_y = top - 1.2, top - 2.0, top - 2.8
        ticks += [(compute_y, "compute"), (out_y, "copy out"), (in_y, "copy in")]
        phase = np.array(
            [list(PHASE_COLOURS).index(graph.ops[op].phase) for op in drawn.compute.item.tolist()], dtype=np.int64
        )
        for index, (name, colour) in enumerate(PHASE_COLOURS.items()):
            traces += _rectangles(_only(drawn.compute, phase == index), compute_y, name, colour, time, shown)
        traces += _rectangles(drawn.copy_out, out_y, "copy out (Store)", COPY_OUT, time, shown)
        traces += _rectangles(drawn.copy_in, in_y, "copy in (Prefetch)", COPY_IN, time, shown)
        traces += _rectangles(drawn.waiting, compute_y, "compute waits for a copy", BLOCKING, time, shown)

        def op_text(op: int, ops: Any = graph.ops) -> str:
            return f"{html_text(ops[op].primitive)} · {html_text(layer_of(ops[op].scope))} · {ops[op].phase}"

        def move_text(transfer: int, moves: Any = moves, storages: Any = graph.storages, parts: Any = parts) -> str:
            move, part = moves[transfer], f" ({parts[transfer]})" if transfer in parts else ""
            name = html_text(storages[move.storage].name)
            return f"{move.kind.title()} {name} · {format_bytes(move.bytes)}{part}"

        def wait_text(transfer: int, text: Any = move_text) -> str:
            return f"waits for {text(transfer)}"

        span = int(profile.steps.step_ns[step])
        hovers = (
            (drawn.compute, compute_y, op_text),
            (drawn.copy_out, out_y, move_text),
            (drawn.copy_in, in_y, move_text),
        )
        for lane, y, text in (*hovers, (drawn.waiting, compute_y, wait_text)):
            traces += _hover(lane, y, text, time, span)
        top -= 3.6
    layout = {
        "height": 60 + 130 * len(profiles),
        "hovermode": "closest",
        "hoverdistance": 40,
        "annotations": titles,
        "xaxis": _time_axis(profiles, time),
        "yaxis": {
            "tickvals": [y for y, _ in ticks],
            "ticktext": [text for _, text in ticks],
            "range": [top + 0.2, 0],
            "fixedrange": True,
            "showgrid": False,
        },
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    }
    return {"data": traces, "layout": layout, "config": CONFIG, "group": "time"}


def named(item: LabelledProfile) -> str:
    kind = item.profile.kind
    return html_text(item.label if kind in item.label else f"{item.label} ({kind})", _LABEL)


def label_in_template(label: str) -> str:
    """A label in a hover template, which would put values in the place of ``%{...}``."""
    return html_text(label, _LABEL).replace("%{", "% {")


def _time_scale(profiles: Sequence[LabelledProfile]) -> Scale:
    return time_scale(max(_span(p.profile) for p in profiles))


def _time_axis(profiles: Sequence[LabelledProfile], time: Scale) -> _Figure:
    """The same range in both charts, so that they stand exactly above each other."""
    longest = max(_span(p.profile) for p in profiles) / time.divisor
    return {"title": {"text": f"time in the step ({time.unit})"}, "range": [0, longest * 1.01]}


def _span(profile: Profile) -> int:
    return int(profile.steps.step_ns[profile.median_step])


def _block_title(text: str, top: float) -> _Figure:
    return {
        "text": text,
        "xref": "paper",
        "x": 0,
        "xanchor": "left",
        "y": top - 0.45,
        "showarrow": False,
        "font": {"size": 13},
    }


def _only(lane: Lane, rows: NDArray[np.bool_]) -> Lane:
    return Lane(lane.item[rows], lane.start_ns[rows], lane.end_ns[rows])


def _rectangles(lane: Lane, y: float, name: str, colour: str, time: Scale, shown: set[str]) -> list[_Figure]:
    """All rectangles of a lane as one closed polygon each, separated by gaps, in one trace; of very many the outline of
    how busy each slice of the lane is."""
    if not len(lane.item):
        return []
    first = name not in shown
    shown.add(name)
    floor, ceiling = round(y - 0.32, 3), round(y + 0.32, 3)
    few = len(lane.item) <= _RECTANGLES
    x, drawn = _corners(lane, time, floor, ceiling) if few else _busy(lane, time, floor, ceiling)
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "legendgroup": name,
            "showlegend": first,
            "x": x,
            "y": drawn,
            "fill": "toself",
            "fillcolor": colour,
            "line": {"width": 0.4, "color": colour, "simplify": False},
            "hoverinfo": "skip",
        }
    ]


def _corners(lane: Lane, time: Scale, floor: float, ceiling: float) -> tuple[list[float | None], list[float | None]]:
    start, end = lane.start_ns / time.divisor, lane.end_ns / time.divisor
    x: list[float | None] = np.stack([start, start, end, end, start], axis=1).round(6).tolist()
    flat_x = [value for corners in x for value in (*corners, None)]  # type: ignore[misc]
    return flat_x, [floor, ceiling, ceiling, floor, floor, None] * len(lane.item)


def _busy(lane: Lane, time: Scale, floor: float, ceiling: float) -> tuple[list[float | None], list[float | None]]:
    first, last = int(lane.start_ns[0]), int(lane.end_ns.max())
    busy = busy_fraction(lane.start_ns, lane.end_ns, first, last, _BINS)
    edges = (first + (last - first) * np.arange(_BINS + 1, dtype=np.int64) // _BINS) / time.divisor
    height = (floor + (ceiling - floor) * np.repeat(busy, 2)).round(3)
    return np.repeat(edges, 2).round(6).tolist(), [floor, *height.tolist(), floor]


def _hover(lane: Lane, y: float, text: Any, time: Scale, span_ns: int) -> list[_Figure]:
    """Invisible points that carry the hover text: one in the middle of each rectangle, more in wide ones."""
    longest = np.argsort(lane.start_ns - lane.end_ns, kind="stable")[:_HOVERED_PER_LANE]
    rows = np.sort(longest)
    start, length = lane.start_ns[rows], lane.end_ns[rows] - lane.start_ns[rows]
    points = 1 + length * 100 // max(span_ns, 1)
    labels = [
        f"{text(item)} · {format_ns(ns)}" for item, ns in zip(lane.item[rows].tolist(), length.tolist(), strict=True)
    ]
    texts = [label for label, count in zip(labels, points.tolist(), strict=True) for _ in range(count)]
    # The k-th of n points stands in the middle of the k-th of n equal parts.
    part = 2 * (np.arange(len(texts)) - np.repeat(np.cumsum(points) - points, points)) + 1
    middle = np.repeat(start, points) + np.repeat(length, points) * part / np.repeat(2 * points, points)
    x = (middle / time.divisor).round(6).tolist()
    if not x:
        return []
    marker = {"size": 8, "opacity": 0}
    shared = {"type": "scatter", "mode": "markers", "marker": marker, "showlegend": False, "hoverinfo": "text"}
    return [{**shared, "x": x, "y": [y] * len(x), "text": texts}]
