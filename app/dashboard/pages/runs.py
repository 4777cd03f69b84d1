"""Runs: every recorded or predicted profile; the way into all other pages."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.icons import icon
from app.dashboard.pages.guard import guarded
from app.dashboard.state import State, current_state
from app.dashboard.views.runs import run_rows
from db.queries import list_runs

MOST_COMPARED = 8
ROW_PX = 36

COLUMNS: list[dict[str, Any]] = [
    {
        "field": "id",
        "headerName": "Run",
        "width": 58,
        "cellRenderer": "RunLink",
        "pinned": "left",
        "filter": "agNumberColumnFilter",
    },
    {"field": "model", "headerName": "Model", "minWidth": 110, "flex": 1, "filter": "agTextColumnFilter"},
    {"field": "strategy", "headerName": "Strategy", "width": 108, "filter": "agTextColumnFilter"},
    {"field": "hardware", "headerName": "Hardware", "width": 112, "filter": "agTextColumnFilter"},
    parts.size_column("limit_bytes", "Limit", width=90),
    parts.size_column("device_bytes", "Device memory", width=118),
    parts.time_column("step_ns", "Step time", width=92),
    parts.time_column("exposed_ns", "Exposed", width=88),
    parts.time_column("blocking_ns", "Blocking", width=88),
    {"field": "kind", "headerName": "Kind", "width": 100, "cellRenderer": "Tag", "filter": "agTextColumnFilter"},
    {"field": "status", "headerName": "Status", "width": 102, "cellRenderer": "Tag", "filter": "agTextColumnFilter"},
    {"field": "created", "headerName": "When (UTC)", "width": 144, "filter": "agTextColumnFilter"},
]


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path="/", title="Runs · HyperOffload", layout=guarded(layout))

    @app.callback(
        Output("runs-compare", "disabled"), Output("runs-compare", "children"), Input("runs-grid", "selectedRows")
    )
    def offer_comparison(rows: list[dict[str, Any]] | None) -> tuple[bool, str]:
        count = len(rows or ())
        return not 2 <= count <= MOST_COMPARED, f"Compare {count} runs" if count > 1 else "Compare"

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Input("runs-compare", "n_clicks"),
        Given("runs-grid", "selectedRows"),
        prevent_initial_call=True,
    )
    def open_comparison(clicks: int | None, rows: list[dict[str, Any]] | None) -> Any:
        if not clicks or not rows:
            return dash.no_update
        return "/compare?runs=" + ",".join(str(i) for i in sorted(row["id"] for row in rows))

    @app.callback(Output("runs-grid", "dashGridOptions"), Input("runs-search", "value"), prevent_initial_call=True)
    def search(text: str) -> dash.Patch:
        patch = dash.Patch()
        patch["quickFilterText"] = text
        return patch

    @app.callback(
        Output("runs-grid", "rowData"),
        Input("runs-refresh", "n_intervals"),
        Given("runs-grid", "rowData"),
        prevent_initial_call=True,
    )
    def refresh(_: int, shown: list[dict[str, Any]]) -> Any:
        rows = run_rows(list_runs(shared.database))
        return dash.no_update if rows == shown else rows


def layout(**_: str) -> Any:
    runs = list_runs(current_state().database)
    if not runs:
        return html.Div([parts.head("Runs"), _empty()])
    tools = [
        dmc.TextInput(
            id="runs-search",
            placeholder="Search all columns",
            leftSection=icon("zoom"),
            w=240,
            **{"aria-label": "Search all columns"},
        ),
        parts.button("Compare", "runs-compare", "compare", disabled=True),
        parts.link_button("New run", "/new", "plus", "filled"),
    ]
    return html.Div(
        [
            parts.head("Runs", "Profiles of one step or several, newest first. Tick two to eight to compare.", tools),
            parts.grid(
                "runs-grid",
                COLUMNS,
                run_rows(runs),
                getRowId="params.data.id.toString()",
                style={"height": f"min(calc(100vh - 190px), {ROW_PX * len(runs) + 42}px)", "minHeight": 260},
                options={
                    "rowSelection": {"mode": "multiRow", "enableClickSelection": False},
                    "selectionColumnDef": {"width": 40, "pinned": "left"},
                },
            ),
            dcc.Interval(id="runs-refresh", interval=3000),
        ]
    )


def _empty() -> Any:
    return parts.state(
        "empty",
        "No runs yet",
        "A run is one profile of a training or inference step: predicted by the simulator, or measured on real "
        "MindSpore kernels. The demo records several within two minutes; or start with a model of your own.",
        parts.command("hyperoffload demo"),
        parts.link_button("New run", "/new", "plus", "filled"),
    )
