"""The address map: where each storage lies on the device over time, and what lies fallow between them."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.frozen import frozen
from app.dashboard.pages import sight, zooms
from app.dashboard.pages.run_links import lead
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views import addresses, pointing
from app.dashboard.views.addresses import AddressMap
from app.dashboard.views.clipping import clipped
from app.dashboard.views.marks import cursor_shape
from hyperoffload_core.sizes import format_bytes

MOST_AT_TOP = 5
DETAILS = {
    "bars": "each stay a rectangle",
    "outlines": "each stay a rectangle; zoom in to point at one",
    "raster": "how much of each cell is taken; zoom in for single stays",
}


def panel() -> Any:
    return parts.panel(
        "Addresses",
        [
            dcc.Store(id="addresses-places"),
            zooms.store("addresses-chart"),
            *sight.stores("addresses-chart"),
            html.Div(id="addresses-legend", className="legend"),
            dcc.Graph(
                id="addresses-chart",
                className=f"{zooms.WATCHED} {sight.WATCHED}",
                config=theme.GRAPH_CONFIG,
                figure=_blank(),
                style={"height": addresses.HEIGHT},
            ),
            html.Div(id="addresses-words", **{"aria-live": "polite"}),
        ],
        hint="Where each storage lies on the device. Drag to zoom in time and addresses, click a storage for details.",
        tools=html.Div(id="addresses-detail", className="hint"),
        id="addresses",
    )


def register(app: dash.Dash, shared: State) -> None:
    def shown(run: dict[str, Any], show: str) -> AddressMap:
        return AddressMap(shown_timeline(shared, run, show).main)

    sight.follow(app, "addresses-chart", "run-window")

    @app.callback(
        Output("addresses-chart", "figure"),
        Output("addresses-legend", "children"),
        Output("addresses-detail", "children"),
        Input("run-show", "value"),
        sight.seen_window("addresses-chart"),
        Input("addresses-places", "data"),
        Given("run-cursor", "data"),
        RUN,
    )
    def draw(show: str, asked: dict[str, Any] | None, places: Any, cursor: int, run: dict[str, Any]) -> Any:
        if asked is None:
            return dash.no_update, dash.no_update, dash.no_update
        view, window = shown(run, show), asked["window"]
        part = view.window((window[0], window[1]) if window else None, (places[0], places[1]) if places else None)
        return addresses.figure(view, part, cursor), _legend(view), _detail(view, part)

    @app.callback(
        Output("addresses-chart", "figure", allow_duplicate=True),
        Output("addresses-words", "children"),
        Input("run-cursor", "data"),
        Input("run-show", "value"),
        RUN,
        prevent_initial_call="initial_duplicate",
    )
    def tell(cursor: int, show: str, run: dict[str, Any]) -> Any:
        view = shown(run, show)
        patch = dash.Patch()
        patch["layout"]["shapes"][0] = cursor_shape(cursor)
        moved = ctx.triggered_id == "run-cursor"
        return patch if moved else dash.no_update, _fragmentation(view, min(cursor, view.view.end_ns - 1))

    @app.callback(
        Output("run-target", "data", allow_duplicate=True),
        Output("addresses-places", "data"),
        zooms.zoomed("addresses-chart"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def zoom(change: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        window = pointing.zoom_window(change, shown(run, show).view.end_ns)
        places = addresses.places(change)
        return (
            dash.no_update if window is None else window,
            dash.no_update if places is None else None if places == "all" else places,
        )

    @app.callback(
        Output("run-picked", "data", allow_duplicate=True),
        Output("run-cursor", "data", allow_duplicate=True),
        Input("addresses-chart", "clickData"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def point(click: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        view = shown(run, show)
        storage, time = addresses.clicked(view, click)
        cursor = dash.no_update if time is None else min(max(time, 0), view.view.end_ns - 1)
        return dash.no_update if storage is None else {"kind": "storage", "id": storage}, cursor


def _blank() -> dict[str, Any]:
    layout = {**theme.figure_layout(addresses.HEIGHT), "xaxis": {"visible": False}, "shapes": [cursor_shape(None)]}
    return {"data": [], "layout": layout}


def _legend(view: AddressMap) -> list[Any]:
    storages = view.view.profile.schedule.graph.storages
    present = {storages[s].tensor_class for s in set(view.stays.storage.tolist())}
    return [
        *(html.Span([parts.swatch(theme.class_colour(c)), theme.class_title(c)]) for c in sorted(present)),
        html.Span(className="legend-gap"),
        html.Span([html.I(className="address-key free"), "free below the reserved height"]),
        html.Span([html.I(className="key live"), "live, workspaces included"]),
    ]


def _detail(view: AddressMap, part: addresses.Window) -> str:
    how, count = addresses.detail(view, part)
    return f"{count:,} stay{'s' * (count != 1)} here, {DETAILS[how]}"


def _fragmentation(view: AddressMap, time_ns: int) -> Any:
    """What is free at the chosen time, and who lies highest then."""
    if not view.known:
        return parts.notice("info", "MindSpore's graph mode chose the addresses of this run, and does not tell them.")
    told = view.at(time_ns)
    now = view.stays.at(time_ns)
    storages = view.view.profile.schedule.graph.storages
    top = list(zip(now.storage.tolist(), now.low.tolist(), strict=True))[::-1][:MOST_AT_TOP]
    highest: list[Any] = []
    for storage, low in top:
        name = lead(clipped(storages[storage].name), ("storage", storage))
        highest += [html.Span([name, f" at {format_bytes(low)}"])]
    pairs = [(label, text) for label, text in addresses.words(told, view.view.kind)]
    facts = [*pairs, ("Highest then", html.Div(highest, className="highest") if highest else "nothing")]
    return frozen(parts.facts(facts))
