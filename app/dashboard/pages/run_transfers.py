"""The transfers of the step with their verdicts."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output

from app.dashboard import parts
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views.step import StepView
from app.dashboard.views.transfers import summary, transfer_rows, window_around


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-cursor", "data", allow_duplicate=True),
        Output("run-picked", "data", allow_duplicate=True),
        Output("run-target", "data", allow_duplicate=True),
        Input("run-transfers", "cellRendererData"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def go_to_transfer(row: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        if not row:
            return dash.no_update, dash.no_update, dash.no_update
        shown = shown_timeline(shared, run, show)
        transfer = row["value"]["transfer"] if isinstance(row["value"], dict) else int(row["rowId"])
        span = shown.main.times["transfer"][transfer]
        return span[0], {"kind": "transfer", "id": transfer}, window_around(span, shown.end_ns)


def panel(view: StepView) -> Any:
    rows = transfer_rows(view)
    columns = [
        {
            "field": "storage",
            "headerName": "Storage",
            "flex": 1,
            "minWidth": 180,
            "cellRenderer": "Act",
            "filter": "agTextColumnFilter",
        },
        {"field": "class", "headerName": "Class", "width": 124, "filter": "agTextColumnFilter"},
        {"field": "direction", "headerName": "Way", "width": 66, "filter": "agTextColumnFilter"},
        *([{"field": "part", "headerName": "Part", "width": 96}] if view.parts else []),
        parts.size_column("bytes", "Size", width=92),
        parts.time_column("start_ns", "Start", width=92),
        parts.time_column("duration_ns", "Duration", width=92),
        parts.time_column("hidden_ns", "Hidden", width=90),
        parts.time_column("exposed_ns", "Exposed", width=90),
        parts.time_column("blocking_ns", "Blocking", width=90, cellClassRules={"cell-bad": "params.value > 0"}),
        parts.time_column("slack_ns", "Slack", width=90),
        {"field": "cause", "headerName": "Waited for", "width": 118, "filter": "agTextColumnFilter"},
    ]
    style = {"height": 42 + 36 * min(len(rows), 10), "display": "block" if rows else "none"}
    table = parts.grid("run-transfers", columns, rows, getRowId="params.data.transfer.toString()", style=style)
    how = f" Click a storage to zoom to its transfer. Every number {view.kind}." if rows else ""
    return parts.panel("Transfers, the costly first" if rows else "Transfers", table, hint=summary(rows) + how)
