"""Search the step: ops, storages and transfers, by name and in the filter language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, html

from app.dashboard import parts
from app.dashboard.frozen import frozen
from app.dashboard.icons import icon
from app.dashboard.pages.run_links import lead
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views.search import search_view
from app.dashboard.views.stalls import Highlight
from app.dashboard.views.step import StepView
from app.dashboard.views.transfers import window_around
from profiles.filtering import EXAMPLES, FIELDS, FilterError

COLUMNS = (
    {"field": "title", "headerName": "Kind", "width": 92},
    {"field": "name", "headerName": "Name", "flex": 1, "minWidth": 260, "cellRenderer": "Act"},
    {"field": "what", "headerName": "Class or op", "width": 150, "cellRenderer": "Swatch"},
    {"field": "layer", "headerName": "Layer", "width": 110},
    parts.size_column("bytes", "Size", width=96),
    parts.time_column("start_ns", "Start", width=96),
    parts.time_column("duration_ns", "Duration", width=96),
    parts.time_column("blocking_ns", "Blocking", width=96, cellClassRules={"cell-bad": "params.value > 0"}),
)


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-search", "error"),
        Output("run-found-summary", "children"),
        Output("run-found-rows", "children"),
        Input("run-search", "value"),
        Input("run-show", "value"),
        RUN,
        prevent_initial_call=True,
    )
    def search(text: str | None, show: str, run: dict[str, Any]) -> Any:
        return _found(shown_timeline(shared, run, show).main, text or "")

    @app.callback(
        Output("run-cursor", "data", allow_duplicate=True),
        Output("run-picked", "data", allow_duplicate=True),
        Output("run-target", "data", allow_duplicate=True),
        Input("run-found", "cellRendererData"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def go_to(row: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        if not row:
            return dash.no_update, dash.no_update, dash.no_update
        hit = row["value"]
        start, end = hit["start_ns"], hit["end_ns"]
        there = start is not None and end is not None
        target = window_around((start, end), shown_timeline(shared, run, show).end_ns) if there else dash.no_update
        return start if there else dash.no_update, {"kind": hit["kind"], "id": hit["id"]}, target

    # Keeps the search and the grouping in the address without making the page anew.
    app.clientside_callback(
        ClientsideFunction("explaining", "name_address"),
        Output("run-found-summary", "id"),
        Input("run-search", "value"),
        Input("run-group", "value", allow_optional=True),
        prevent_initial_call=True,
    )


def panel(view: StepView, best: Sequence[Highlight], text: str = "") -> Any:
    """What is ``best`` looked at first, and the search; ``text`` is what is searched first."""
    error, summary, rows = _found(view, text)
    field = dmc.TextInput(
        id="run-search",
        value=text,
        error=error,
        placeholder="Search names, or class:weight size>4MiB blocking>1ms  ( / )",
        leftSection=icon("zoom", 14),
        debounce=250,
        size="sm",
        **{"aria-label": "Search ops, storages and transfers"},
    )
    manual = html.Details(
        [html.Summary("What can be searched"), html.Div(id="run-search-help")], className="search-help"
    )
    first = [html.Span([html.B(h.label), ": ", lead(h.text, h.pick, h.place, h.at_ns)]) for h in best]
    if not len(view.lanes.waiting.item):
        first.insert(0, html.Span([html.B("Worst stall"), ": none, no op waits for a transfer"]))
    return html.Section(
        [
            html.Div(first, className="highlights") if first else None,
            html.Div([field, manual], className="search-row"),
            html.Div(summary, id="run-found-summary", className="hint", role="status"),
            html.Div(rows, id="run-found-rows"),
        ],
        className="panel search",
    )


def help_text() -> Any:
    """The language of the search, every example a button that asks it."""
    rows = [
        html.Tr([html.Td(lead(f.example, find=f.example)), html.Td(f"{f.meaning[:1].upper()}{f.meaning[1:]}")])
        for f in FIELDS.values()
    ]
    words = [
        "Words find names; terms beside each other must all hold; ",
        html.Code("-"),
        " in front means not; a comma means or; quotes keep spaces. For instance ",
        *(part for e in EXAMPLES for part in (lead(e, find=e), ", ")),
        "or:",
    ]
    return frozen([html.P(words, className="explained"), html.Table(html.Tbody(rows), className="plain")])


def _found(view: StepView, text: str) -> tuple[str | None, str | None, Any]:
    """What is wrong with the search, else what it found in a sentence and as a grid."""
    if not text.strip():
        return None, None, None
    try:
        found = search_view(view, text)
    except FilterError as error:
        words = str(error)
        return f"{words[:1].upper()}{words[1:]}.", None, None
    return None, found.summary, _table(list(found.rows)) if found.rows else None


def _table(rows: list[dict[str, Any]]) -> Any:
    return parts.grid(
        "run-found",
        COLUMNS,
        rows,
        getRowId="params.data.key",
        style={"height": 40 + 34 * min(len(rows), 6)},
        options={"rowHeight": 34},
    )
