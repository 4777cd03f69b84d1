"""Details of the op, transfer or storage that was picked, and its place in the graph."""

from __future__ import annotations

from typing import Any

import dash
from dash import ALL, Input, Output, ctx, dcc, html

from app.dashboard import parts, theme
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views import neighbours, pointing
from app.dashboard.views.details import Details, Link, details
from app.dashboard.views.transfers import window_around
from hyperoffload_core.ir import Graph


def panel() -> Any:
    return html.Section(blank_details(), id="run-details", className="panel", **{"aria-live": "polite"})


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(Output("run-details", "children"), Input("run-picked", "data"), RUN, SHOW)
    def show_details(picked: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        if not picked:
            return dash.no_update
        view = shown_timeline(shared, run, show).main
        found = details(view, picked["kind"], picked["id"])
        if found is None:
            return dash.no_update
        return details_panel(found, neighbourhood_chart(view.profile.schedule.graph, found))

    @app.callback(
        Output("run-picked", "data", allow_duplicate=True),
        Input({"pick": ALL, "id": ALL}, "n_clicks"),
        Input({"neighbours": ALL}, "clickData"),
        prevent_initial_call=True,
    )
    def pick(picks: list[int | None], nodes: list[dict[str, Any] | None]) -> Any:
        source = ctx.triggered_id
        if not isinstance(source, dict):
            return dash.no_update
        if "neighbours" in source:
            op = pointing.clicked_node(nodes)
            return dash.no_update if op is None else {"kind": "op", "id": op}
        return {"kind": source["pick"], "id": source["id"]} if any(picks) else dash.no_update

    @app.callback(
        Output("run-target", "data", allow_duplicate=True),
        Input({"zoom": ALL, "start": ALL, "end": ALL}, "n_clicks"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def zoom_to_it(clicks: list[int | None], run: dict[str, Any], show: str) -> Any:
        source = ctx.triggered_id
        if not isinstance(source, dict) or not any(clicks):
            return dash.no_update
        return window_around((source["start"], source["end"]), shown_timeline(shared, run, show).end_ns)


def blank_details() -> list[Any]:
    return [
        html.Div(html.H2("Details"), className="panel-head"),
        html.Div("Click an op, a transfer or a storage to see what it is and why it is there.", className="quiet"),
    ]


def neighbourhood_chart(graph: Graph, found: Details) -> Any:
    """The ops around what is shown; a click on one shows its details."""
    kind, identity = found.graph_place
    around = neighbours.neighbours(graph, kind, identity)
    more = f"; {around.left_out} more are not drawn" if around.left_out else ""
    words = (
        "what the op depends on, and what depends on it"
        if around.around == "op"
        else "the ops that access it, in order"
    )
    return html.Div(
        [
            html.Div(f"In the graph: {words}{more}.", className="hint graph-hint"),
            dcc.Graph(
                id={"neighbours": f"{kind}{identity}"},
                figure=neighbours.figure(around, graph),
                config={**theme.GRAPH_CONFIG, "displayModeBar": False},
                className="neighbours",
            ),
        ]
    )


def details_panel(found: Details, neighbourhood: Any) -> list[Any]:
    pairs = [(label, _words(words)) for label, words in found.facts]
    zoom = (
        html.Button(
            "Zoom to it",
            id={"zoom": "span", "start": found.span[0], "end": found.span[1]},
            className="link",
            type="button",
        )
        if found.span
        else None
    )
    return [
        html.Div(
            [html.Div([html.H2(found.title), html.Div(found.subtitle, className="hint")]), zoom], className="panel-head"
        ),
        parts.facts(pairs),
        neighbourhood,
    ]


def _words(words: tuple[Any, ...]) -> Any:
    cells: list[Any] = []
    for number, word in enumerate(words):
        if number:
            cells.append(html.Br() if isinstance(word, Link) or isinstance(words[number - 1], Link) else " ")
        if isinstance(word, Link):
            cells.append(html.Button(word.text, id={"pick": word.kind, "id": word.id}, className="link", type="button"))
        else:
            cells.append(word)
    return cells
