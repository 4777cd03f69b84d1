"""The transfers of the step with their verdicts; a search narrows them."""

from __future__ import annotations

from typing import Any

import dash
import numpy as np
from dash import Input, Output

from app.dashboard import parts
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views.step import StepView
from app.dashboard.views.transfers import summary, transfer_rows, window_around
from hyperoffload_core.metrics import Column
from profiles.filtering import FilterError, parse_query
from profiles.searching import find


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-transfers", "rowData"),
        Output("run-transfers-hint", "children"),
        Input("run-search", "value"),
        Input("run-show", "value"),
        RUN,
        prevent_initial_call=True,
    )
    def show_transfers(text: str | None, show: str, run: dict[str, Any]) -> Any:
        view = shown_timeline(shared, run, show).main
        found = found_transfers(view, text or "")
        rows = transfer_rows(view, found)
        return rows, _hint(view, len(rows), found)

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


def found_transfers(view: StepView, text: str) -> Column | None:
    """Rows of the transfers that a search finds; None (all) without a search, or for one that is not about transfers or
    cannot be understood (its field says so)."""
    if not text.strip():
        return None
    try:
        query = parse_query(text)
    except FilterError:
        return None
    if "transfer" not in query.kinds:
        return None
    hits = find(view.searchable, query).hits
    return hits["transfer"].rows if "transfer" in hits else np.zeros(0, np.int64)


def panel(view: StepView, text: str = "") -> Any:
    """``text`` is the search in force."""
    found = found_transfers(view, text)
    rows = transfer_rows(view, found)
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
    moves = len(view.profile.schedule.transfers)
    style = {"height": 42 + 36 * min(max(moves, 1), 10), "display": "block" if moves else "none"}
    table = parts.grid("run-transfers", columns, rows, getRowId="params.data.transfer.toString()", style=style)
    title = "Transfers, the costly first" if moves else "Transfers"
    hint = dash.html.Span(_hint(view, len(rows), found), id="run-transfers-hint")
    return parts.panel(title, table, hint=hint)


def _hint(view: StepView, shown: int, found: Column | None) -> str:
    words = summary(view, shown, None if found is None else len(found))
    how = f" Click a storage to zoom to its transfer. Every number {view.kind}."
    return words + (how if view.profile.schedule.transfers else "")
