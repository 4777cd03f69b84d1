"""Lanes of reports as plotly.js figures in plain data: compute and copies of each profile in a block of three lanes,
along time or along aligned ops (`profiles.lanes_by_op`). The same blocks, in other units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.alive import layer_of
from profiles.by_op import OpCourse
from profiles.colours import BLOCKING, COPY_IN, COPY_OUT, PHASE_COLOURS
from profiles.comparison import LabelledProfile
from profiles.figures import CONFIG, named, span_ns, time_axis, time_scale_of
from profiles.lanes import Lane, Lanes, lanes, part_words
from profiles.lanes_by_op import PLACE, lanes_by_op
from profiles.plain import html_text
from profiles.series import busy_fraction

_BINS = 1200
_HOVERED_PER_LANE = 2000
# More rectangles than this are drawn as the busy fraction of each slice of the lane.
_RECTANGLES = 10_000
# What is drawn, from top to bottom.
_OF = ("compute", "copy_out", "copy_in")
_TITLES = {"compute": "compute", "copy_out": "copy out", "copy_in": "copy in"}
_LEVELS = {"compute": 1.2, "copy_out": 2.0, "copy_in": 2.8, "waiting": 1.2}
_Figure = dict[str, Any]
Column = NDArray[np.int64]


@dataclass(frozen=True)
class _Block:
    """Of one profile: where each lane's rectangles are drawn, and how long (ns) what they stand for took."""

    item: LabelledProfile
    drawn: dict[str, Lane]
    took_ns: dict[str, Column]


def gantt_figure(profiles: Sequence[LabelledProfile]) -> _Figure:
    """Compute, copy out and copy in of the median step, one block of three lanes per profile above each other."""
    time = time_scale_of(profiles)
    longest = max(span_ns(p.profile) for p in profiles)
    blocks = []
    for item in profiles:
        found = _lanes_of(item.profile)
        drawn = {of: getattr(found, of) for of in _LEVELS}
        blocks.append(_Block(item, drawn, {of: _lengths(lane) for of, lane in drawn.items()}))
    return _figure(blocks, time_axis(profiles, time), time.divisor, longest, "time")


def op_lanes_figure(profiles: Sequence[LabelledProfile], courses: Sequence[OpCourse], axis: _Figure) -> _Figure:
    """The same lanes with ops over the same ops, each a bar of one width: ``courses`` are those of the profiles, and
    ``axis`` that of the other charts by op."""
    blocks = []
    for item, course in zip(profiles, courses, strict=True):
        found = _lanes_of(item.profile)
        along = lanes_by_op(found, course, span_ns(item.profile))
        took = {of: _joined([row.lane for row in found.rows if row.of == of]) for of in _OF}
        drawn = {of: _joined([row.lane for row in along.row.values() if row.of == of]) for of in _OF}
        drawn["waiting"], took["waiting"] = along.waiting, found.waiting
        blocks.append(_Block(item, drawn, {of: _lengths(lane) for of, lane in took.items()}))
    low, high = axis["range"]
    return _figure(blocks, axis, PLACE, round((high - low) * PLACE), "op")


def _figure(blocks: Sequence[_Block], axis: _Figure, divisor: int, span: int, group: str) -> _Figure:
    """``divisor`` units of the drawn lanes are 1 on the axis; ``span`` such units are the whole of it."""
    traces: list[_Figure] = []
    ticks: list[tuple[float, str]] = []
    titles: list[_Figure] = []
    top, shown = 0.0, set[str]()
    for block in blocks:
        titles.append(_block_title(named(block.item), top))
        y = {of: top - below for of, below in _LEVELS.items()}
        ticks += [(y[of], _TITLES[of]) for of in _OF]
        graph, compute = block.item.profile.schedule.graph, block.drawn["compute"]
        phase = np.array(
            [list(PHASE_COLOURS).index(graph.ops[op].phase) for op in compute.item.tolist()], dtype=np.int64
        )
        coloured = [
            (_only(compute, phase == index), "compute", name, colour)
            for index, (name, colour) in enumerate(PHASE_COLOURS.items())
        ]
        coloured += [
            (block.drawn["copy_out"], "copy_out", "copy out (Store)", COPY_OUT),
            (block.drawn["copy_in"], "copy_in", "copy in (Prefetch)", COPY_IN),
            (block.drawn["waiting"], "waiting", "compute waits for a copy", BLOCKING),
        ]
        for lane, of, name, colour in coloured:
            traces += _rectangles(lane, y[of], name, colour, divisor, shown)
        for of, text in _texts(block.item.profile).items():
            traces += _hover(block.drawn[of], block.took_ns[of], y[of], text, divisor, span)
        top -= 3.6
    layout = {
        "height": 60 + 130 * len(blocks),
        "hovermode": "closest",
        "hoverdistance": 40,
        "annotations": titles,
        "xaxis": axis,
        "yaxis": {
            "tickvals": [y for y, _ in ticks],
            "ticktext": [text for _, text in ticks],
            "range": [top + 0.2, 0],
            "fixedrange": True,
            "showgrid": False,
        },
        "legend": {"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    }
    return {"data": traces, "layout": layout, "config": CONFIG, "group": group}


def _lanes_of(profile: Profile) -> Lanes:
    return lanes(profile, profile.median_step)


def _joined(parts: Sequence[Lane]) -> Lane:
    columns = zip(*((lane.item, lane.start_ns, lane.end_ns) for lane in parts), strict=True)
    return Lane(*(np.concatenate(column) for column in columns))


def _lengths(lane: Lane) -> Column:
    return lane.end_ns - lane.start_ns


def _texts(profile: Profile) -> dict[str, Any]:
    """What the hover text of an item of each lane begins with."""
    graph, moves = profile.schedule.graph, {t.id: t for t in profile.schedule.transfers}
    parts = part_words(profile.schedule)

    def op_text(op: int) -> str:
        of = graph.ops[op]
        return f"{html_text(of.primitive)} · {html_text(layer_of(of.scope))} · {of.phase}"

    def move_text(transfer: int) -> str:
        move, part = moves[transfer], f" ({parts[transfer]})" if transfer in parts else ""
        name = html_text(graph.storages[move.storage].name)
        return f"{move.kind.title()} {name} · {format_bytes(move.bytes)}{part}"

    def wait_text(transfer: int) -> str:
        return f"waits for {move_text(transfer)}"

    return {"compute": op_text, "copy_out": move_text, "copy_in": move_text, "waiting": wait_text}


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


def _rectangles(lane: Lane, y: float, name: str, colour: str, divisor: int, shown: set[str]) -> list[_Figure]:
    """All rectangles of a lane as one closed polygon each, separated by gaps, in one trace; of very many the outline of
    how busy each slice of the lane is."""
    if not len(lane.item):
        return []
    first = name not in shown
    shown.add(name)
    floor, ceiling = round(y - 0.32, 3), round(y + 0.32, 3)
    few = len(lane.item) <= _RECTANGLES
    x, drawn = _corners(lane, divisor, floor, ceiling) if few else _busy(lane, divisor, floor, ceiling)
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


def _corners(lane: Lane, divisor: int, floor: float, ceiling: float) -> tuple[list[float | None], list[float | None]]:
    start, end = lane.start_ns / divisor, lane.end_ns / divisor
    x: list[float | None] = np.stack([start, start, end, end, start], axis=1).round(6).tolist()
    flat_x = [value for corners in x for value in (*corners, None)]  # type: ignore[misc]
    return flat_x, [floor, ceiling, ceiling, floor, floor, None] * len(lane.item)


def _busy(lane: Lane, divisor: int, floor: float, ceiling: float) -> tuple[list[float | None], list[float | None]]:
    first, last = int(lane.start_ns[0]), int(lane.end_ns.max())
    busy = busy_fraction(lane.start_ns, lane.end_ns, first, last, _BINS)
    edges = (first + (last - first) * np.arange(_BINS + 1, dtype=np.int64) // _BINS) / divisor
    height = (floor + (ceiling - floor) * np.repeat(busy, 2)).round(3)
    return np.repeat(edges, 2).round(6).tolist(), [floor, *height.tolist(), floor]


def _hover(lane: Lane, took_ns: Column, y: float, text: Any, divisor: int, span: int) -> list[_Figure]:
    """Invisible points that carry the hover text: one in the middle of each rectangle, more in wide ones."""
    longest = np.argsort(-took_ns, kind="stable")[:_HOVERED_PER_LANE]
    rows = np.sort(longest)
    start, length = lane.start_ns[rows], _lengths(lane)[rows]
    points = 1 + length * 100 // max(span, 1)
    items = zip(lane.item[rows].tolist(), took_ns[rows].tolist(), strict=True)
    labels = [f"{text(item)} · {format_ns(ns)}" for item, ns in items]
    texts = [label for label, count in zip(labels, points.tolist(), strict=True) for _ in range(count)]
    # The k-th of n points stands in the middle of the k-th of n equal parts.
    part = 2 * (np.arange(len(texts)) - np.repeat(np.cumsum(points) - points, points)) + 1
    middle = np.repeat(start, points) + np.repeat(length, points) * part / np.repeat(2 * points, points)
    x = (middle / divisor).round(6).tolist()
    if not x:
        return []
    marker = {"size": 8, "opacity": 0}
    shared = {"type": "scatter", "mode": "markers", "marker": marker, "showlegend": False, "hoverinfo": "text"}
    return [{**shared, "x": x, "y": [y] * len(x), "text": texts}]
