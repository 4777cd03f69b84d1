"""What the SQL page is made of: the query's panel, the answer as a table, its plot, and what is wrong."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from app.dashboard import parts, theme
from app.dashboard.state import State
from app.dashboard.views.sql import FILLING, KINDS, PlotChoice, SqlAsked, place_shown, table_columns, table_rows
from app.querying import RUN
from db.reading import LONGEST_S, Answer, QueryError
from db.saved_queries import list_queries
from hyperoffload_core.sizes import format_ns
from profiles.plain import visible

ROW_PX = 36
MOST_ROWS_HIGH = 12


def editor(state: State, asked: SqlAsked) -> Any:
    save = dmc.Popover(
        [
            dmc.PopoverTarget(parts.button("Save as", "sql-save-as", "check")),
            dmc.PopoverDropdown(
                [
                    dmc.TextInput(id="sql-save-name", label="Name", value="", placeholder="What it answers"),
                    html.Div(id="sql-save-error"),
                    parts.button("Save", "sql-save", variant="filled", mt="sm"),
                ]
            ),
        ],
        id="sql-save-box",
        width=280,
        trapFocus=True,
        shadow="md",
    )
    built_in = [q.name for q in list_queries(state.database) if q.built_in]
    return html.Section(
        [
            html.Div(
                [
                    dmc.Select(
                        id="sql-saved",
                        label="Saved queries",
                        data=saved_choices(state),
                        value=asked.saved or None,
                        placeholder="choose one",
                        searchable=True,
                        clearable=True,
                        className="sql-saved",
                    ),
                    dmc.TextInput(
                        id="sql-run-name",
                        label=f"Run that :{RUN} stands for",
                        value=asked.run,
                        placeholder="the newest with transfers",
                        className="sql-run-name",
                    ),
                ],
                className="sql-head",
            ),
            dmc.Textarea(
                id="sql-text",
                value=asked.q,
                autosize=True,
                minRows=5,
                maxRows=18,
                className="mono-input",
                **{"aria-label": "Query"},
            ),
            html.Div(
                [
                    parts.button("Run", "sql-run", "play", "filled"),
                    html.Span("Ctrl+Enter", className="hint"),
                    html.Span(className="sql-space"),
                    save,
                    parts.button("Delete", "sql-forget", "trash", disabled=not asked.saved or asked.saved in built_in),
                    parts.button("CSV", "sql-csv", "download"),
                ],
                className="sql-tools",
            ),
        ],
        className="panel",
    )


def saved_choices(state: State) -> list[dict[str, Any]]:
    queries = list_queries(state.database)
    groups = [
        ("Yours", [q.name for q in queries if not q.built_in]),
        ("Built in", [q.name for q in queries if q.built_in]),
    ]
    return [
        {"group": title, "items": [{"value": name, "label": visible(name, 80)} for name in names]}
        for title, names in groups
        if names
    ]


def result(found: Answer, choice: PlotChoice | None) -> Any:
    count = len(found.rows)
    few = len(found.columns) <= FILLING
    words = f"{count:,} row{'s' if count != 1 else ''} in {format_ns(found.elapsed_ns)}"
    table = parts.panel(
        "Result",
        [
            parts.notice("warn", found.cut) if found.cut else None,
            parts.grid(
                "sql-grid",
                table_columns(found),
                table_rows(found),
                columnSize=None if few else "autoSize",
                style={"height": 41 + ROW_PX * min(count, MOST_ROWS_HIGH) + (0 if few else 14)},
                options={"tooltipShowDelay": 400, "enableCellTextSelection": True},
            )
            if count
            else html.Div("No row matches.", className="quiet"),
        ],
        hint=words,
    )
    return [table, _plot_panel(found, choice)]


def _plot_panel(found: Answer, choice: PlotChoice | None) -> Any:
    if choice is None:
        return None
    columns = [{"value": str(i), "label": name or f"column {i + 1}"} for i, name in enumerate(found.columns)]
    selects = [
        dmc.Select(
            id=f"sql-{name}",
            label=title,
            data=[{"value": k, "label": v} for k, v in KINDS.items()] if name == "kind" else columns,
            value=None if getattr(choice, name) is None else str(getattr(choice, name)),
            allowDeselect=name == "by",
            clearable=name == "by",
            placeholder="one series" if name == "by" else None,
            size="sm",
        )
        for name, title in (("kind", "Draw"), ("x", "Along x"), ("y", "Along y"), ("by", "Split by"))
    ]
    return parts.panel(
        "Plot",
        [
            html.Div(selects, className="sql-plot-tools"),
            html.Div(id="sql-plot-cut", className="hint"),
            dcc.Graph(id="sql-plot", config=theme.GRAPH_CONFIG, style={"height": 360}),
        ],
    )


def before() -> Any:
    return parts.state("zoom", "Nothing asked yet", "Write a query, or choose a saved one.")


def wrong(error: Exception, sql: str) -> Any:
    place = place_shown(sql, error.line, error.column) if isinstance(error, QueryError) else ""
    return html.Section(
        [
            parts.notice("bad", str(error), "alert"),
            html.Pre(place, className="sql-place") if place else None,
            html.Div(f"A query is stopped after {LONGEST_S:g} s.", className="hint")
            if "stopped" in str(error)
            else None,
        ],
        className="panel",
    )
