"""Plots and tables of experiments: step time over the memory limit for each strategy, and how far above the bound."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from app.dashboard import theme
from app.dashboard.views.lane_traces import plain
from app.experiments import OURS, Cell, Point, Table
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.figures import Scale, time_scale

HEIGHT = 460
GIB = 1024**3
# Steps that differ by more than this factor are shown on a logarithmic axis.
LINEAR_UP_TO = 4
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon")
BOUND_COLOUR = "#7A8596"
# Ratios to the bound up to which a cell has each shade; the last shade is for more.
SHADES = (1.005, 1.05, 1.2, 1.6, 2.5)


@dataclass(frozen=True)
class HeatCell:
    """``shade`` 0 (at the bound) to 5 (far above), None where the limit is not met; ``text`` stands in the cell, all
    of it in ``words``."""

    text: str
    words: str
    shade: int | None


@dataclass(frozen=True)
class HeatRow:
    hardware: str
    limit: str
    bound: str
    cells: tuple[HeatCell, ...]


def choices(cells: Sequence[Cell]) -> dict[str, list[str]]:
    """Workloads, hardware and strategies of the cells, in their order."""
    names = ("workload", "hardware", "strategy")
    return {name: list(dict.fromkeys(getattr(c, name) for c in cells)) for name in names}


def ranked(cells: Iterable[Cell]) -> list[str]:
    """The strategies: ours, then those that meet the most limits, and of those the fastest."""
    met: dict[str, list[float]] = {}
    for c in cells:
        ratios = met.setdefault(c.strategy, [])
        if c.outcome == "met" and c.bound_ns:
            ratios.append(c.step_ns / c.bound_ns)
    return sorted(met, key=lambda s: (s != OURS, -len(met[s]), sum(met[s]) / max(len(met[s]), 1)))


def usual_strategies(cells: Sequence[Cell], most: int = 8) -> list[str]:
    """Those worth a line at first: the best that meet a limit at all."""
    meet = {c.strategy for c in cells if c.outcome == "met"}
    return [s for s in ranked(cells) if s in meet][:most]


def limit_figure(points: Sequence[Point], order: Sequence[str]) -> dict[str, Any]:
    """Step time over the memory limit: a line per strategy (dashed when measured) through what meets the limit, a cross
    for what does not, and the bound. ``order`` gives a strategy its colour, whatever else is shown."""
    traces = []
    unit = time_scale(max((p.step_ns for p in points), default=1))
    drawn = sorted({(p.strategy, p.kind) for p in points}, key=lambda k: (_place(k[0], order), k[1]))
    both = len({kind for _, kind in drawn}) > 1
    for strategy, kind in drawn:
        own = sorted((p for p in points if (p.strategy, p.kind) == (strategy, kind)), key=lambda p: p.limit_bytes)
        colour = theme.RUN_COLOURS[_place(strategy, order) % len(theme.RUN_COLOURS)]
        # The ninth has the colour of the first, but not its symbol.
        symbol = SYMBOLS[(_place(strategy, order) + _place(strategy, order) // len(SYMBOLS)) % len(SYMBOLS)]
        name = f"{plain(strategy)} ({kind})" if both else plain(strategy)
        met, over = ([p for p in own if p.met == wanted] for wanted in (True, False))
        traces.append(
            {
                **_points(met or over, name, unit),
                "mode": "lines+markers" if met else "markers",
                "line": {
                    "color": colour,
                    "width": 3 if strategy == OURS else 1.8,
                    "dash": "dash" if kind == "measured" else "solid",
                },
                "marker": {"color": colour, "size": 9 if met else 8, "symbol": symbol if met else "x-thin-open"},
                "legendgroup": name,
            }
        )
        if met and over:
            traces.append(
                {
                    **_points(over, name, unit),
                    "mode": "markers",
                    "marker": {"color": colour, "size": 8, "symbol": "x-thin-open"},
                    "legendgroup": name,
                    "showlegend": False,
                }
            )
    if bound := _bound(points, unit):
        traces.append(bound)
    return {
        "data": traces,
        "layout": {
            **theme.figure_layout(HEIGHT),
            "uirevision": "limits",
            "showlegend": True,
            "legend": {"x": 1.01, "y": 1, "xanchor": "left", "font": {"size": 12}},
            "margin": {"l": 76, "r": 200, "t": 16, "b": 52},
            "hovermode": "closest",
            "xaxis": theme.axis(title={"text": "Memory limit (GiB)"}),
            "yaxis": _step_axis([trace["y"] for trace in traces], unit),
        },
    }


def _step_axis(values: Sequence[Sequence[float]], unit: Scale) -> dict[str, Any]:
    steps = [v for each in values for v in each if v > 0]
    low, high = min(steps, default=1.0), max(steps, default=1.0)
    title = {"text": f"Step time ({unit.unit})"}
    if high <= LINEAR_UP_TO * low:
        return theme.axis(title=title, rangemode="tozero")
    return theme.axis(title=title, **theme.logarithmic(low, high))


def _place(strategy: str, order: Sequence[str]) -> int:
    return order.index(strategy) if strategy in order else len(order)


def _points(points: Sequence[Point], name: str, unit: Scale) -> dict[str, Any]:
    return {
        "type": "scatter",
        "name": name,
        "x": [p.limit_bytes / GIB for p in points],
        "y": [p.step_ns / unit.divisor for p in points],
        "customdata": [p.run_id for p in points],
        "text": [_words(p) for p in points],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _words(point: Point) -> str:
    over = f", {point.step_ns / point.bound_ns:.3f} of the bound" if point.bound_ns else ""
    return (
        f"<b>{plain(point.strategy)}</b> {point.kind}<br>step {format_ns(point.step_ns)}{over}<br>"
        f"limit {format_bytes(point.limit_bytes)}<br>{plain(point.words)}"
    )


def _bound(points: Sequence[Point], unit: Scale) -> dict[str, Any] | None:
    """The lower bound of each limit, which holds for schedules that run every op once."""
    # The newest run of a limit comes first; all strategies of a cell share one bound.
    bounds: dict[int, int] = {}
    for p in points:
        if p.bound_ns:
            bounds.setdefault(p.limit_bytes, p.bound_ns)
    rows = sorted(bounds.items())
    if not rows:
        return None
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "lower bound",
        "x": [limit / GIB for limit, _ in rows],
        "y": [bound / unit.divisor for _, bound in rows],
        "line": {"color": BOUND_COLOUR, "width": 1.6, "dash": "dot"},
        # A schedule at the bound lies on this line: the pointer is for the schedule, whose words name the bound.
        "hoverinfo": "skip",
    }


def heat_rows(cells: Sequence[Cell], strategies: Sequence[str]) -> list[HeatRow]:
    """A row per hardware and limit, a cell per strategy: its step over the bound."""
    by_cell = {(c.hardware, c.limit, c.strategy): c for c in cells}
    rows = []
    for hardware, limit in dict.fromkeys((c.hardware, c.limit) for c in cells):
        found = [by_cell.get((hardware, limit, s)) for s in strategies]
        bound = max((c.bound_ns for c in cells if (c.hardware, c.limit) == (hardware, limit)), default=0)
        rows.append(HeatRow(hardware, limit, format_ns(bound), tuple(_heat(c) for c in found)))
    return rows


def _heat(cell: Cell | None) -> HeatCell:
    if cell is None:
        return HeatCell("", "not tried", None)
    if cell.outcome == "over":
        over = format_bytes(cell.over_bytes)
        return HeatCell("over", f"{cell.strategy} needs {over} more than the limit", None)
    if cell.outcome != "met" or not cell.bound_ns:
        return HeatCell(cell.outcome, cell.note or cell.outcome, None)
    ratio = cell.step_ns / cell.bound_ns
    words = f"{cell.strategy}: step {format_ns(cell.step_ns)}, bound {format_ns(cell.bound_ns)}"
    shade = next((n for n, most in enumerate(SHADES) if ratio < most), len(SHADES))
    return HeatCell(f"{ratio:.2f}", words, shade)


def grid_of(table: Table) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Columns and rows of a grid that shows a table of the report as it is written and sorts its numbers as numbers;
    what is no number in a column of numbers comes behind them."""
    columns, rows = [], [dict[str, Any]() for _ in table.rows]
    for at, (head, right) in enumerate(zip(table.heads, table.right, strict=True)):
        texts = [row[at] for row in table.rows]
        numbers = [_number(text) for text in texts]
        sorts = right or (
            any(n is not None for n in numbers)
            and all(n is not None or not t for n, t in zip(numbers, texts, strict=True))
        )
        longest = max(len(text) for text in (head, *texts))
        wide = min(260, 34 + 8 * longest)
        column: dict[str, Any] = {"field": f"c{at}", "headerName": head or " ", "minWidth": wide, "flex": 1}
        if sorts:
            column |= {
                "type": "rightAligned",
                "valueFormatter": {"function": f"params.data.t{at}"},
                "filter": "agNumberColumnFilter",
            }
        else:
            column |= {"filter": "agTextColumnFilter"}
        columns.append(column)
        for row, text, number in zip(rows, texts, numbers, strict=True):
            row[f"c{at}"] = number if sorts else text
            row[f"t{at}"] = text
    return columns, rows


def _number(text: str) -> float | None:
    """The number a cell begins with; its unit does not count."""
    found = re.fullmatch(r"([+-]?[\d,]*\.?\d+)\s*(%|s|ms|us|µs|MiB|GiB|GB|MB)?", text)
    return float(found[1].replace(",", "")) if found else None
