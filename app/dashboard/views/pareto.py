"""The limit curve: predicted step time, or device memory, of strategies over the memory limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.dashboard import theme
from app.predicting import Prediction
from hyperoffload_core.sizes import format_bytes, format_ns
from hyperoffload_core.strategies import STRATEGIES

Measure = Literal["step", "memory"]
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "pentagon", "star", "hexagon", "cross")
LOG_FROM = 4.0
"""Step times further apart than this are drawn on a logarithmic axis."""
HEIGHT = 300
AXIS_PERCENT = 110
"""Where the axis of the limit and the slider below it end, in percent of the live peak without offload."""


@dataclass(frozen=True)
class Ground:
    """What the curve stands on, in bytes: nothing fits below the smallest limit; ``limit`` is the one chosen now."""

    smallest_bytes: int
    live_peak_bytes: int
    device_bytes: int
    limit_bytes: int | None


@dataclass(frozen=True, slots=True)
class Unit:
    """What the axis of the limit is drawn in, and where it ends: a limit beyond ``top_bytes`` stands at its end, for
    above what a step needs without offload no limit changes anything."""

    title: str
    bytes: int
    top_bytes: int

    def at(self, limit_bytes: int) -> float:
        return min(limit_bytes, self.top_bytes) / self.bytes


@dataclass(frozen=True)
class Mark:
    """A single point beside the curves: the run as it is, or the policy as edited."""

    title: str
    limit_bytes: int
    step_ns: int
    memory_bytes: int


def pareto(points: Sequence[Prediction], ground: Ground, marks: Sequence[Mark], measure: Measure) -> dict[str, Any]:
    """The figure. Points that keep their limit are joined to a line per strategy; those over it are open, and what
    cannot be met is a cross at the foot. ``customdata`` of a point is its limit in bytes."""
    unit = unit_of(ground)
    met = [p for p in points if p.metrics is not None]
    values = [_value(p, measure, unit) for p in met]
    if measure == "step":
        values += [m.step_ns / 1e6 for m in marks] + [p.metrics.lower_bound_ns / 1e6 for p in met if p.metrics]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    span = (low, high) if measure == "step" and low > 0 and high / low > LOG_FROM else None
    traces: list[dict[str, Any]] = []
    for strategy in dict.fromkeys(p.strategy for p in points):
        own = sorted((p for p in met if p.strategy == strategy), key=lambda p: p.limit_bytes)
        traces.append(_curve(strategy, own, measure, unit))
    failed = [p for p in points if p.metrics is None]
    if failed:
        traces.append(_failed(failed, low, unit))
    traces.append(_bound(met, unit) if measure == "step" else _limit_line(points, ground, unit))
    traces += [_mark(m, measure, number, unit) for number, m in enumerate(marks)]
    return {"data": traces, "layout": _layout(ground, measure, span, bool(points), unit)}


def unit_of(ground: Ground) -> Unit:
    title, size = ("GiB", 2**30) if ground.live_peak_bytes >= 2**31 else ("MiB", 2**20)
    return Unit(title, size, ground.live_peak_bytes * AXIS_PERCENT // 100)


@dataclass(frozen=True, slots=True)
class PointRow:
    """A point as a row of texts: step, above the bound, blocking, memory, moved."""

    strategy: str
    limit_bytes: int
    limit: str
    numbers: tuple[str, str, str, str, str]


def point_rows(points: Sequence[Prediction]) -> list[PointRow]:
    """All points, by strategy in the order they were asked for, then by limit."""
    order = {name: number for number, name in enumerate(dict.fromkeys(p.strategy for p in points))}
    return [
        PointRow(p.strategy, p.limit_bytes, format_bytes(p.limit_bytes), _numbers(p))
        for p in sorted(points, key=lambda p: (order[p.strategy], p.limit_bytes))
    ]


def _numbers(p: Prediction) -> tuple[str, str, str, str, str]:
    m = p.metrics
    if m is None:
        return ("no schedule", "", "", "", "")
    above = f"{max(0.0, m.step_ns / m.lower_bound_ns - 1):.1%}" if m.lower_bound_ns else ""
    memory = format_bytes(m.reserved_bytes) + (", over" if p.over_bytes else "")
    return (format_ns(m.step_ns), above, format_ns(m.blocking_ns), memory, format_bytes(m.bytes_out + m.bytes_in))


def colour_of(strategy: str) -> str:
    return theme.RUN_COLOURS[_number(strategy) % len(theme.RUN_COLOURS)]


def _number(strategy: str) -> int:
    """The strategies drawn at first get the colours furthest apart."""
    first = ["hyperoffload", "reactive", "none", "lookahead"]
    names = [*first, *(name for name in STRATEGIES if name not in first)]
    return names.index(strategy) if strategy in names else 0


def _value(p: Prediction, measure: Measure, unit: Unit) -> float:
    assert p.metrics is not None
    return p.metrics.step_ns / 1e6 if measure == "step" else p.metrics.reserved_bytes / unit.bytes


def _curve(strategy: str, points: Sequence[Prediction], measure: Measure, unit: Unit) -> dict[str, Any]:
    number, colour = _number(strategy), colour_of(strategy)
    symbol = SYMBOLS[(number + number // len(theme.RUN_COLOURS)) % len(SYMBOLS)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": strategy,
        "x": [unit.at(p.limit_bytes) for p in points],
        "y": [_value(p, measure, unit) for p in points],
        "customdata": [p.limit_bytes for p in points],
        "hovertext": [_words(p) for p in points],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "line": {"color": colour, "width": 2, "dash": theme.RUN_DASHES[number % len(theme.RUN_DASHES)]},
        "marker": {
            "color": colour,
            "size": 9,
            "symbol": [f"{symbol}-open" if p.over_bytes else symbol for p in points],
            "line": {"color": colour, "width": 1.5},
        },
    }


def _words(p: Prediction) -> str:
    assert p.metrics is not None
    lines = [
        f"<b>{p.strategy}</b> under {format_bytes(p.limit_bytes)}",
        f"step {format_ns(p.metrics.step_ns)}, {format_ns(p.metrics.blocking_ns)} blocking",
        f"takes {format_bytes(p.metrics.reserved_bytes)}"
        + (f", over by {format_bytes(p.over_bytes)}" if p.over_bytes else ""),
        "click to take this limit",
    ]
    return "<br>".join(lines)


def _failed(points: Sequence[Prediction], low: float, unit: Unit) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "no schedule",
        "x": [unit.at(p.limit_bytes) for p in points],
        "y": [low] * len(points),
        "hovertext": [f"<b>{p.strategy}</b> under {format_bytes(p.limit_bytes)}:<br>no schedule" for p in points],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {"color": theme.BLOCKING, "size": 10, "symbol": "x"},
    }


def _bound(points: Sequence[Prediction], unit: Unit) -> dict[str, Any]:
    """The bound of each limit that a schedule kept (one over its limit has the bound of what it takes)."""
    bounds: dict[int, int] = {}
    for p in points:
        if p.metrics is not None and not p.over_bytes and p.metrics.reserved_bytes <= p.limit_bytes:
            bounds[p.limit_bytes] = max(bounds.get(p.limit_bytes, 0), p.metrics.lower_bound_ns)
    limits = sorted(bounds)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "lower bound",
        "x": [unit.at(limit) for limit in limits],
        "y": [bounds[limit] / 1e6 for limit in limits],
        "hovertemplate": "no schedule is below %{y:.4~g} ms<extra></extra>",
        "line": {"color": theme.COMPUTE, "width": 1.5, "dash": "dot"},
    }


def _limit_line(points: Sequence[Prediction], ground: Ground, unit: Unit) -> dict[str, Any]:
    ends = [
        ground.smallest_bytes / unit.bytes,
        max([ground.live_peak_bytes, *(p.limit_bytes for p in points)]) / unit.bytes,
    ]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "limit",
        "x": ends,
        "y": ends,
        "hoverinfo": "skip",
        "line": {"color": theme.LIMIT, "width": 1.5, "dash": "dot"},
    }


def _mark(mark: Mark, measure: Measure, number: int, unit: Unit) -> dict[str, Any]:
    y = mark.step_ns / 1e6 if measure == "step" else mark.memory_bytes / unit.bytes
    return {
        "type": "scatter",
        "mode": "markers",
        "name": mark.title,
        "x": [unit.at(mark.limit_bytes)],
        "y": [y],
        "hovertext": [
            f"<b>{mark.title}</b>, limit {format_bytes(mark.limit_bytes)}"
            f"<br>{format_ns(mark.step_ns)}, {format_bytes(mark.memory_bytes)}"
        ],
        "cliponaxis": False,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {
            "size": 15,
            "symbol": ("star", "circle-open")[number % 2],
            "color": theme.EXPOSED if number == 0 else theme.CURSOR,
            "line": {"width": 3 if number else 1, "color": theme.CURSOR if number else "#7A5600"},
        },
    }


def _layout(
    ground: Ground, measure: Measure, span: tuple[float, float] | None, drawn: bool, unit: Unit
) -> dict[str, Any]:
    """``span`` is what a logarithmic axis shows; None for one from 0 or as plotly chooses."""
    right = unit.top_bytes / unit.bytes
    y: dict[str, Any] = {"title": {"text": "step time, ms" if measure == "step" else f"device memory, {unit.title}"}}
    if span is not None:
        y |= theme.logarithmic(*span)
    elif measure == "memory" or not drawn:
        y["rangemode"] = "tozero"
    shapes = [
        {
            "type": "rect",
            "yref": "paper",
            "x0": 0,
            "x1": ground.smallest_bytes / unit.bytes,
            "y0": 0,
            "y1": 1,
            "fillcolor": theme.BLOCKING,
            "opacity": 0.1,
            "line": {"width": 0},
        },
        _line(ground.live_peak_bytes, theme.COMPUTE, "dot", unit),
    ]
    notes = [
        _note(ground.smallest_bytes, f"nothing fits below {format_bytes(ground.smallest_bytes)}", 1.0, "left", unit),
        _note(ground.live_peak_bytes, f"no offload {format_bytes(ground.live_peak_bytes)}", 0.9, "right", unit),
    ]
    if ground.device_bytes < unit.top_bytes:
        shapes.append(_line(ground.device_bytes, theme.LIMIT, "dash", unit))
        notes.append(_note(ground.device_bytes, f"device {format_bytes(ground.device_bytes)}", 0.8, "left", unit))
    if ground.limit_bytes is not None:
        shapes.append({**_line(ground.limit_bytes, theme.CURSOR, "solid", unit), "name": "limit"})
    return {
        **theme.figure_layout(HEIGHT),
        "margin": {"l": 58, "r": 12, "t": 8, "b": 58},
        "hovermode": "closest",
        "clickmode": "event",
        "dragmode": False,
        "xaxis": theme.axis(ticksuffix=f" {unit.title}", range=[0, right], fixedrange=True),
        "yaxis": theme.axis(**y, fixedrange=True),
        "shapes": shapes,
        "annotations": notes,
        "showlegend": True,
        "legend": {"orientation": "h", "y": -0.13, "x": 0, "font": {"size": 11.5}},
        "uirevision": "curve",
    }


def _line(x_bytes: int, colour: str, dash: str, unit: Unit) -> dict[str, Any]:
    x = unit.at(x_bytes)
    line = {"color": colour, "width": 1.5, "dash": dash}
    return {"type": "line", "yref": "paper", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": line}


def _note(x_bytes: int, text: str, y: float, anchor: str, unit: Unit) -> dict[str, Any]:
    at = {"x": x_bytes / unit.bytes, "y": y, "yref": "paper", "xanchor": anchor, "yanchor": "top"}
    return {**at, "text": text, "showarrow": False, "font": {"size": 11}}
