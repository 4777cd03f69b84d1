"""The tables of the compare page."""

from __future__ import annotations

from typing import Any

from dash import html

from app.dashboard import parts
from app.dashboard.theme import class_title
from profiles.compare import Comparison
from profiles.shown import format_value

TABLE_ROWS = 11


def numbers_table(comparison: Comparison) -> Any:
    """One row a number: each run's value, and its difference to the baseline's."""
    heads = [
        html.Th(
            [side.label, " ", parts.tag(side.kind, side.kind), _base_mark(i == comparison.baseline)], className="num"
        )
        for i, side in enumerate(comparison.sides)
    ]
    rows = []
    for number in comparison.numbers:
        if all(value is None for value in number.values):
            continue
        cells = []
        for i, (value, difference) in enumerate(zip(number.values, number.differences, strict=True)):
            shown: list[Any] = [format_value(value, number.unit)]
            if i != comparison.baseline and difference:
                tone = ""
                if number.lower_is_better is not None:
                    tone = "better" if (difference < 0) == number.lower_is_better else "worse"
                shown.append(
                    html.Div(format_value(difference, number.unit, signed=True), className=f"difference {tone}")
                )
            cells.append(html.Td(shown, className="num"))
        rows.append(html.Tr([html.Th(number.name.capitalize(), scope="row"), *cells]))
    rows.append(
        html.Tr(
            [
                html.Th("On", scope="row"),
                *(html.Td(_conditions(side), className="num wrap") for side in comparison.sides),
            ]
        )
    )
    table = html.Table([html.Thead(html.Tr([html.Th(""), *heads])), html.Tbody(rows)], className="plain numbers")
    return html.Div(table, className="across")


def _base_mark(is_base: bool) -> Any:
    return html.Span([" ", parts.tag("baseline")]) if is_base else None


def _conditions(side: Any) -> str:
    return side.conditions or f"{side.hardware}, op durations {side.duration_source}"


def storages_grid(comparison: Comparison) -> Any:
    columns = [
        {"field": "name", "headerName": "Storage", "flex": 2, "minWidth": 200, "filter": "agTextColumnFilter"},
        {"field": "class", "headerName": "Class", "width": 140, "filter": "agTextColumnFilter"},
        parts.size_column("bytes", "Size", width=100),
        *(
            {"field": f"side{i}", "headerName": side.label, "flex": 1, "minWidth": 140}
            for i, side in enumerate(comparison.sides)
        ),
    ]
    rows = [
        {
            "name": s.name,
            "class": class_title(s.tensor_class),
            "bytes": s.bytes,
            **{f"side{i}": "not in this graph" if p is None else p.text for i, p in enumerate(s.placements)},
        }
        for s in comparison.storages
    ]
    return _grid("compare-storages", columns, rows, "Every storage is in the same place in all runs.")


def transfers_grid(comparison: Comparison) -> Any:
    columns: list[dict[str, Any]] = [
        {"field": "name", "headerName": "Storage", "flex": 2, "minWidth": 180, "filter": "agTextColumnFilter"},
        {"field": "class", "headerName": "Class", "width": 130, "filter": "agTextColumnFilter"},
        {"field": "direction", "headerName": "Way", "width": 66},
    ]
    for i, side in enumerate(comparison.sides):
        group = [
            {"field": f"count{i}", "headerName": "Count", "width": 72, "type": "rightAligned"},
            {"field": f"parts{i}", "headerName": "Parts", "width": 72, "type": "rightAligned"},
            parts.size_column(f"bytes{i}", "Bytes", width=96),
            parts.time_column(f"blocking{i}", "Blocking", width=96),
        ]
        columns.append({"headerName": side.label, "children": group})
    rows = [
        {
            "name": t.storage,
            "class": class_title(t.tensor_class),
            "direction": t.direction,
            **{f"count{i}": m.count for i, m in enumerate(t.moves)},
            **{f"parts{i}": m.parts for i, m in enumerate(t.moves)},
            **{f"bytes{i}": m.bytes for i, m in enumerate(t.moves)},
            **{f"blocking{i}": m.blocking_ns for i, m in enumerate(t.moves)},
        }
        for t in comparison.transfers
    ]
    return _grid("compare-transfers", columns, rows, "All runs move the same storages in the same way.")


def ops_grid(comparison: Comparison) -> Any:
    columns: list[dict[str, Any]] = [
        {"field": "name", "headerName": "Op", "flex": 2, "minWidth": 180, "filter": "agTextColumnFilter"},
        {"field": "primitive", "headerName": "Primitive", "width": 150, "filter": "agTextColumnFilter"},
        {"field": "scope", "headerName": "Scope", "flex": 2, "minWidth": 160, "filter": "agTextColumnFilter"},
        *(parts.time_column(f"side{i}", side.label, flex=1, minWidth=110) for i, side in enumerate(comparison.sides)),
        parts.time_column("largest", "Largest difference", width=150),
    ]
    rows = [
        {
            "name": op.name,
            "primitive": op.primitive,
            "scope": op.scope,
            "largest": op.largest_ns,
            **{f"side{i}": value for i, value in enumerate(op.durations_ns)},
        }
        for op in comparison.ops
    ]
    return _grid("compare-ops", columns, rows, "No op to compare.")


def _grid(identity: str, columns: list[dict[str, Any]], rows: list[dict[str, Any]], nothing: str) -> Any:
    if not rows:
        return html.Div(nothing, className="quiet")
    groups = any("children" in column for column in columns)
    height = 42 + 36 * (min(len(rows), TABLE_ROWS) + groups)
    return parts.grid(identity, columns, rows, style={"height": height})
