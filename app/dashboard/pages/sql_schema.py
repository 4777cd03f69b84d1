"""The tables and columns of the database with their meaning, beside the query."""

from __future__ import annotations

from typing import Any

from dash import html

from app.dashboard import parts
from db.meanings import COLUMNS, TABLES


def panel() -> Any:
    tables = [
        html.Details(
            [
                html.Summary([html.Code(table), html.Div(meaning, className="hint")]),
                html.Button("Show its rows", id={"sql-rows": table}, type="button", className="link", n_clicks=0),
                html.Dl(
                    [
                        cell
                        for name, text in COLUMNS[table].items()
                        for cell in (
                            html.Dt(html.Button(name, type="button", className="link sql-name")),
                            html.Dd(text),
                        )
                    ],
                    className="sql-columns",
                ),
            ],
            className="sql-table",
        )
        for table, meaning in TABLES.items()
    ]
    return html.Aside(
        parts.panel("Tables", tables, hint="Times are ns from the start of the step, sizes bytes, clock times UTC."),
        className="sql-side",
        **{"aria-label": "Tables and columns"},
    )
