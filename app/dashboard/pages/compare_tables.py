"""The tables of the compare page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from app.dashboard import parts
from app.dashboard.icons import icon
from app.dashboard.theme import class_title
from app.dashboard.views.comparing import colour_of
from app.dashboard.views.comparing_address import Tab
from profiles.comparison import TIER_WORDS, Comparison, Side, StorageDifference
from profiles.op_groups import OpGrouping, op_groups
from profiles.plain import visible
from profiles.shown import DASH, format_value

TABLE_ROWS = 12
# As many rows of a plain table are seen without scrolling.
UNSCROLLED_ROWS = 8
MOST_ROWS = 2_000
LABEL = 48
# Names are cut by their column, and whole under the pointer.
_NAME = {"filter": "agTextColumnFilter", "tooltipField": "name"}


def numbers_table(comparison: Comparison) -> Any:
    """One row a number: each run's value, and its difference to the baseline's."""
    heads = [
        html.Th(_side_head(comparison, index), className="num side-head") for index in range(len(comparison.sides))
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
    return html.Div(table, className="across", tabIndex=0)


def _side_head(comparison: Comparison, index: int) -> list[Any]:
    """Name and kind of a run, and what can be done with it here."""
    side, is_base = comparison.sides[index], index == comparison.baseline
    label = visible(side.label, LABEL)
    # Its number comes first, so that any label fits a link.
    number = "" if side.label.startswith(f"{side.run_id} ") else f"{side.run_id} "
    tools: list[Any] = []
    if is_base:
        tools.append(parts.tag("baseline"))
    else:
        tools.append(
            html.Button(
                "make baseline",
                id={"compare-base": side.run_id},
                className="link",
                type="button",
                **{"aria-label": f"Make run {side.run_id} the baseline"},
            )
        )
    tools.append(
        html.Button(
            icon("close", 14),
            id={"compare-remove": side.run_id},
            className="link remove",
            type="button",
            title=f"Take run {side.run_id} out of the comparison",
            **{"aria-label": f"Take run {side.run_id} out of the comparison"},
        )
    )
    return [
        html.Div(
            [
                parts.swatch(colour_of(index)),
                dcc.Link(f"{number}{label}", href=f"/run/{side.run_id}", title=visible(side.label, 300)),
            ],
            className="side-name",
        ),
        html.Div([parts.tag(side.kind, side.kind), *tools], className="side-tools"),
    ]


def _conditions(side: Side) -> str:
    return visible(side.conditions or f"{side.hardware}, op durations {side.duration_source}", 300)


def table_of(comparison: Comparison, tab: Tab, by: OpGrouping, search: str) -> list[Any]:
    """The table of a tab, filtered by ``search`` from the start."""
    if tab == "decisions":
        return [_tiers(comparison), _policies(comparison), *_decisions(comparison, search)]
    if tab == "time":
        return _time(comparison, by, search)
    if tab == "storages":
        return _storages(comparison, search)
    return _transfers(comparison, search)


def _tiers(comparison: Comparison) -> Any:
    """What changes tier, added up by class: the decisions in a few lines."""
    changes = comparison.tier_changes
    if not changes:
        return html.P("No storage is in another tier than in the baseline.", className="hint")
    base = comparison.sides[comparison.baseline]
    heads = ("In this run", "Class", f"In {visible(base.label, LABEL)}", "Here", "Storages", "Bytes")
    rows = [
        html.Tr(
            [
                html.Td(
                    [html.I(className="swatch", style={"background": colour_of(c.side)}), _label(comparison, c.side)]
                ),
                html.Td(class_title(c.tensor_class)),
                html.Td(TIER_WORDS[c.before]),
                html.Td(TIER_WORDS[c.after]),
                html.Td(f"{c.count:,}", className="num"),
                html.Td(format_value(c.bytes, "bytes"), className="num"),
            ]
        )
        for c in changes
    ]
    return plain_table("Storages that change tier", heads, rows, 4)


def _policies(comparison: Comparison) -> Any:
    if not comparison.policies:
        return html.P("The policies of all runs ask for the same.", className="hint")
    heads = ("Setting", *(_label(comparison, i) for i in range(len(comparison.sides))))
    rows = [
        html.Tr([html.Td(p.setting), *(html.Td(DASH if v is None else visible(v, 300)) for v in p.values)])
        for p in comparison.policies
    ]
    return plain_table("Policies", heads, rows, len(heads))


def plain_table(title: str, heads: Sequence[str], rows: list[Any], left: int) -> Any:
    head = html.Tr([html.Th(text, className="" if i < left else "num") for i, text in enumerate(heads)])
    table = html.Table([html.Thead(head), html.Tbody(rows)], className="plain")
    # What is scrolled away would not be missed.
    title += f" ({len(rows):,} rows)" if len(rows) > UNSCROLLED_ROWS else ""
    return html.Div([html.H3(title), html.Div(table, className="across scroll", tabIndex=0)], className="subtable")


def _decisions(comparison: Comparison, search: str) -> list[Any]:
    columns = [*_storage_columns(), *(_side_column(comparison, i) for i in range(len(comparison.sides)))]
    rows = [
        {
            **_storage_row(s),
            **{f"side{i}": "not in this graph" if p is None else p.text for i, p in enumerate(s.placements)},
        }
        for s in comparison.decisions
    ]
    nothing = "Every storage is in the same place in all runs."
    return [html.H3("Storages treated differently"), *_grid(columns, rows, nothing, search)]


def _storages(comparison: Comparison, search: str) -> list[Any]:
    columns: list[dict[str, Any]] = _storage_columns()
    for i in range(len(comparison.sides)):
        columns.append(
            {
                "headerName": _label(comparison, i),
                "children": [
                    _column(f"peak{i}", "Of the peak", "share(params.value)", 104),
                    _column(f"resident{i}", "Resident", "share(params.value)", 94),
                ],
            }
        )
    rows = [
        {
            **_storage_row(s),
            **{f"peak{i}": r.peak_share for i, r in enumerate(s.residencies) if r},
            **{f"resident{i}": r.resident for i, r in enumerate(s.residencies) if r},
        }
        for s in comparison.storages
    ]
    return _grid(columns, rows, "Every storage is on the device for the same part of the step in all runs.", search)


def _transfers(comparison: Comparison, search: str) -> list[Any]:
    columns = [*_storage_columns()[:2], {"field": "direction", "headerName": "Way", "width": 70}]
    for i in range(len(comparison.sides)):
        group = [
            {"field": f"count{i}", "headerName": "Moves", "width": 78, "type": "rightAligned"},
            parts.size_column(f"bytes{i}", "Bytes", width=96),
            parts.time_column(f"exposed{i}", "Exposed", width=92),
            parts.time_column(f"blocking{i}", "Blocking", width=92),
        ]
        columns.append({"headerName": _label(comparison, i), "children": group})
    rows = [
        {
            "name": visible(t.storage, 300),
            "class": class_title(t.tensor_class),
            "direction": t.direction,
            **{f"count{i}": m.count for i, m in enumerate(t.moves)},
            **{f"bytes{i}": m.bytes for i, m in enumerate(t.moves)},
            **{f"exposed{i}": m.exposed_ns for i, m in enumerate(t.moves)},
            **{f"blocking{i}": m.blocking_ns for i, m in enumerate(t.moves)},
        }
        for t in comparison.transfers
    ]
    return _grid(columns, rows, "All runs move the same storages in the same way.", search)


def _time(comparison: Comparison, by: OpGrouping, search: str) -> list[Any]:
    columns: list[dict[str, Any]] = [
        {"field": "name", "headerName": by.capitalize(), "flex": 2, "minWidth": 200, **_NAME}
    ]
    for i in range(len(comparison.sides)):
        group = [
            parts.time_column(f"took{i}", "Compute", width=96),
            parts.time_column(f"waited{i}", "Waits", width=90),
        ]
        if i != comparison.baseline:
            group.append(_column(f"more{i}", "Difference", "signedTime(params.value)", 104))
        columns.append({"headerName": _label(comparison, i), "children": group})
    rows = [
        {
            "name": visible(g.name, 300),
            **{f"took{i}": v for i, v in enumerate(g.durations_ns)},
            **{f"waited{i}": v for i, v in enumerate(g.waits_ns)},
            **{f"more{i}": v for i, v in enumerate(g.differences_ns)},
        }
        for g in op_groups(comparison, by)
    ]
    return _grid(columns, rows, "No op to compare.", search)


def _storage_columns() -> list[dict[str, Any]]:
    return [
        {"field": "name", "headerName": "Storage", "flex": 2, "minWidth": 200, **_NAME},
        {"field": "class", "headerName": "Class", "width": 136, "filter": "agTextColumnFilter"},
        parts.size_column("bytes", "Size", width=92),
    ]


def _storage_row(storage: StorageDifference) -> dict[str, Any]:
    return {
        "name": visible(storage.name, 300),
        "class": class_title(storage.tensor_class),
        "bytes": storage.bytes,
    }


def _column(field: str, title: str, formatter: str, width: int) -> dict[str, Any]:
    shown = {"type": "rightAligned", "filter": "agNumberColumnFilter", "valueFormatter": {"function": formatter}}
    return {"field": field, "headerName": title, "width": width, **shown}


def _side_column(comparison: Comparison, index: int) -> dict[str, Any]:
    title = _label(comparison, index)
    field = f"side{index}"
    shown = {"filter": "agTextColumnFilter", "tooltipField": field}
    return {"field": field, "headerName": title, "flex": 1, "minWidth": 190, **shown}


def _label(comparison: Comparison, index: int) -> str:
    return visible(comparison.sides[index].label, LABEL)


def _grid(columns: list[dict[str, Any]], rows: list[dict[str, Any]], nothing: str, search: str) -> list[Any]:
    if not rows:
        return [html.Div(nothing, className="quiet")]
    groups = any("children" in column for column in columns)
    height = 42 + 36 * (min(len(rows), TABLE_ROWS) + groups)
    options: dict[str, Any] = {"localeText": {"noRowsToShow": "No row matches the filter."}, "tooltipShowDelay": 400}
    if search:
        options["quickFilterText"] = search
    shown = [fitted_grid("compare-table", columns, rows[:MOST_ROWS], style={"height": height}, options=options)]
    if len(rows) > MOST_ROWS:
        more = f"The {MOST_ROWS:,} largest of {len(rows):,} rows; CSV and JSON hold all of them."
        shown.append(html.P(more, className="hint"))
    return shown


def fitted_grid(identity: str, columns: list[dict[str, Any]], rows: list[dict[str, Any]], **settings: Any) -> Any:
    """A grid as wide as the page, or wider and scrolled where its columns need more than that.

    It has no flexible columns: ag-grid keeps a grid with such hidden until it has worked out their widths, and one that
    comes into a page late, below what is seen, sometimes stays hidden.
    """
    return parts.grid(identity, _fixed(columns), rows, columnSize="responsiveSizeToFit", **settings)


def _fixed(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    fixed = []
    for column in columns:
        if "children" in column:
            fixed.append({**column, "children": _fixed(column["children"])})
        else:
            least = max(column.get("width", 0), column.get("minWidth", 0))
            rest = {k: v for k, v in column.items() if k != "flex"}
            fixed.append({**rest, "minWidth": least, "width": least * column.get("flex", 1)})
    return fixed
