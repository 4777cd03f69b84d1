"""A query's answer as rows of a table and as a plot; what the address of the SQL page says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from app.dashboard import theme
from app.dashboard.views.lane_traces import plain
from app.querying import cell_text
from db.reading import Answer
from profiles.plain import visible

KINDS = {"bar": "Bars", "line": "Line", "scatter": "Points"}
LONGEST_CELL = 2_000
LONGEST_TITLE = 80
# So many columns share the width of the table.
FILLING = 7
LONGEST_NAME = 40
ONE_SERIES = "-"
MOST_BARS = 200
MOST_POINTS = 5_000
MOST_GROUPS = 8
# Whole numbers above it lose digits in a browser.
LARGEST_EXACT = 2**53
_SCALES = {
    "time": ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns")),
    "size": ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")),
}


@dataclass(frozen=True)
class SqlAsked:
    """What the address asks for: a query's text, or the name of a saved one; what ``:run`` stands for; how to draw."""

    q: str = ""
    saved: str = ""
    run: str = ""
    kind: str = ""
    x: str = ""
    y: str = ""
    by: str = ""


@dataclass(frozen=True)
class PlotChoice:
    """How an answer is drawn: ``x``, ``y`` and ``by`` are numbers of columns, ``by`` None for one series.

    Made by `plot_choice`; None in its place means that there is nothing to draw.
    """

    kind: str
    x: int
    y: int
    by: int | None = None


def sql_asked_for(query: Mapping[str, Any]) -> SqlAsked:
    """The query of an address, without what the page does not know."""
    return SqlAsked(**{f.name: str(query[f.name]) for f in fields(SqlAsked) if query.get(f.name)})


def unit_of(column: str) -> str:
    """``time`` for a column of nanoseconds, ``size`` for one of bytes, by its name; else empty."""
    name = column.lower()
    if name.endswith("_ns"):
        return "time"
    return "size" if name == "bytes" or name.endswith("_bytes") else ""


def table_columns(answer: Answer) -> list[dict[str, Any]]:
    """Columns of a grid. Times and sizes are shown in units people read, and sort as numbers."""
    columns = []
    for i, name in enumerate(answer.columns):
        title = visible(name[:LONGEST_TITLE], None) or f"column {i + 1}"
        column: dict[str, Any] = {"field": f"c{i}", "headerName": title, "headerTooltip": title, "minWidth": 90}
        if is_numeric(answer, i):
            column |= {"type": "rightAligned", "filter": "agNumberColumnFilter"}
            if unit := unit_of(name):
                column["valueFormatter"] = {"function": f"{'time' if unit == 'time' else 'bytes'}(params.value)"}
        else:
            column |= {"tooltipField": f"c{i}", "filter": "agTextColumnFilter"}
        columns.append(column)
    if len(columns) <= FILLING:
        # Few columns share the width; many are as wide as they need.
        return [column | {"flex": 1, "minWidth": 110} for column in columns]
    return columns


def table_rows(answer: Answer) -> list[dict[str, Any]]:
    return [{f"c{i}": _cell(value) for i, value in enumerate(row)} for row in answer.rows]


def is_numeric(answer: Answer, column: int) -> bool:
    """Whether a column holds numbers only, and at least one."""
    values = [row[column] for row in answer.rows if row[column] is not None]
    return bool(values) and all(isinstance(value, (int, float)) for value in values)


def plot_choice(answer: Answer, asked: Mapping[str, str]) -> PlotChoice | None:
    """What is asked for where the answer has it, else what suggests itself.

    That is the first text along x, the first time, size or number that is no id along y, split by another text where
    names along x repeat (``by`` `ONE_SERIES`: not at all). None for an answer without numbers.
    """
    names = list(answer.columns)
    numbers = [i for i in range(len(names)) if is_numeric(answer, i)]
    if not numbers or not answer.rows:
        return None

    def named(key: str) -> int | None:
        return names.index(asked[key]) if asked.get(key) in names else None

    measures = [i for i in numbers if not (names[i] == "id" or names[i].endswith("_id"))] or numbers
    texts = [i for i in range(len(names)) if i not in numbers]
    y = named("y")
    if y not in numbers:
        y = next((i for i in measures if unit_of(names[i])), measures[0])
    x = named("x")
    if x is None:
        x = next((i for i in [*texts, *measures, *numbers] if i != y), y)
    kind = asked.get("kind", "")
    if kind not in KINDS:
        kind = "bar" if x in texts else "scatter"
    by = named("by")
    if by is None and asked.get("by") != ONE_SERIES and kind == "bar":
        by = next((i for i in texts if i != x and _tells_apart(answer, x, i)), None)
    return PlotChoice(kind, x, y, by)


def plot_named(answer: Answer, kind: str, numbers: Mapping[str, str | None]) -> dict[str, str]:
    """A plot as the address and saved queries keep it: names of columns in place of their numbers."""
    names = {
        key: answer.columns[int(number)]
        for key, number in numbers.items()
        if number and number.isdecimal() and int(number) < len(answer.columns)
    }
    return {"kind": kind, "by": ONE_SERIES, **names}


def _tells_apart(answer: Answer, x: int, by: int) -> bool:
    """Whether a column of few values makes repeated names along x unique."""
    names, both, values = (
        {f(row) for row in answer.rows} for f in (lambda r: r[x], lambda r: (r[x], r[by]), lambda r: r[by])
    )
    return len(names) < len(both) == len(answer.rows) and len(values) <= MOST_GROUPS


def plot_figure(answer: Answer, choice: PlotChoice) -> tuple[dict[str, Any], str]:
    """The figure, and a sentence when it leaves something out (else empty)."""
    most = MOST_BARS if choice.kind == "bar" else MOST_POINTS
    rows = [row for row in answer.rows if row[choice.y] is not None and row[choice.x] is not None][:most]
    numeric_x = is_numeric(answer, choice.x)
    y_scale, y_unit = _scale(answer.columns[choice.y], [row[choice.y] for row in rows])
    x_scale, x_unit = _scale(answer.columns[choice.x], [row[choice.x] for row in rows]) if numeric_x else (1, "")
    groups, left_out = _groups(rows, choice.by)
    traces = [
        _trace(
            choice.kind,
            name,
            [row[choice.x] / x_scale for row in group]
            if numeric_x
            else _apart([cell_text(r[choice.x]) for r in group]),
            [row[choice.y] / y_scale for row in group],
            number,
        )
        for number, (name, group) in enumerate(groups)
    ]
    titles = [_title(answer.columns[i], unit) for i, unit in ((choice.x, x_unit), (choice.y, y_unit))]
    layout = theme.figure_layout(360) | {
        "margin": {"l": 72, "r": 16, "t": 14, "b": 56},
        "xaxis": theme.axis(
            title={"text": titles[0], "font": {"size": 12}}, automargin=True, **({} if numeric_x else _TEXTS)
        ),
        "yaxis": theme.axis(title={"text": titles[1], "font": {"size": 12}}, automargin=True, rangemode="tozero"),
        # Bars of one place each need no room beside them for other series.
        "barmode": "overlay" if _alone(traces) else "group",
        "showlegend": len(traces) > 1,
        "uirevision": f"{choice}",
    }
    cut = f"Only the first {most:,} rows are drawn." if len(answer.rows) > most else ""
    also = (
        f"{left_out:,} more values of {plain(answer.columns[choice.by])} are not drawn."
        if left_out and choice.by is not None
        else ""
    )
    return {"data": traces, "layout": layout}, " ".join(part for part in (cut, also) if part)


# Names along x: one place each, in the order of the answer.
_TEXTS = {"type": "category"}


def place_shown(sql: str, line: int | None, column: int | None) -> str:
    """The line of the query that is wrong, with a mark under the place; empty when the place is not known."""
    if line is None or column is None:
        return ""
    text = [*sql.split("\n"), ""][line - 1]
    start = max(0, column - 60)
    mark = " " * (column - 1 - start) + "^"
    return f"{text[start : start + 120].replace(chr(9), ' ')}\n{mark}"


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        cut = value if len(value) <= LONGEST_CELL else value[:LONGEST_CELL] + "…"
        return "\n".join(visible(line, None) for line in cut.split("\n"))
    if isinstance(value, bytes):
        return cell_text(value)
    # JSON knows no infinity.
    exact = not isinstance(value, (int, float)) or abs(value) <= LARGEST_EXACT
    return value if exact else str(value)


def _scale(column: str, values: list[Any]) -> tuple[float, str]:
    unit = unit_of(column)
    largest = max((abs(v) for v in values if isinstance(v, (int, float))), default=0)
    return next(((by, name) for by, name in _SCALES.get(unit, ()) if largest >= by), (1, "")) if unit else (1, "")


def _title(column: str, unit: str) -> str:
    return f"{plain(column)} ({unit})" if unit else plain(column)


def _alone(traces: list[dict[str, Any]]) -> bool:
    places = [place for trace in traces for place in set(trace["x"])]
    return len(places) == len(set(places))


def _apart(names: list[str]) -> list[str]:
    """Names along x; the second of the same name says so, since bars at one place would hide each other."""
    seen: dict[str, int] = {}
    shown = []
    for whole in names:
        name = whole if len(whole) <= LONGEST_NAME else f"{whole[: LONGEST_NAME // 2]}…{whole[-LONGEST_NAME // 2 :]}"
        seen[name] = seen.get(name, 0) + 1
        shown.append(plain(name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return shown


def _groups(rows: list[tuple[Any, ...]], by: int | None) -> tuple[list[tuple[str, list[tuple[Any, ...]]]], int]:
    """Rows by the value of a column, at most `MOST_GROUPS`, and how many values are left out."""
    if by is None:
        return [("", rows)], 0
    groups: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(plain(cell_text(row[by])), []).append(row)
    return list(groups.items())[:MOST_GROUPS], max(0, len(groups) - MOST_GROUPS)


def _trace(kind: str, name: str, x: list[Any], y: list[float], number: int) -> dict[str, Any]:
    colour = theme.RUN_COLOURS[number % len(theme.RUN_COLOURS)]
    shared = {"name": name, "x": x, "y": y, "hovertemplate": "%{x}<br>%{y:.4~g}<extra>%{fullData.name}</extra>"}
    if kind == "bar":
        return {**shared, "type": "bar", "marker": {"color": colour}}
    if kind == "line":
        dash = theme.RUN_DASHES[number % len(theme.RUN_DASHES)]
        return {
            **shared,
            "type": "scatter",
            "mode": "lines+markers",
            "line": {"color": colour, "dash": dash, "width": 2},
        }
    symbols = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star", "pentagon")
    marker = {"color": colour, "size": 9, "symbol": symbols[number % len(symbols)], "opacity": 0.8}
    return {**shared, "type": "scatter", "mode": "markers", "marker": marker}
