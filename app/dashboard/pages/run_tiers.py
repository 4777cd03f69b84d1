"""Tier bars: the storages chosen, through device, link and pool, on the time axis of the timeline."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.frozen import frozen
from app.dashboard.pages import sight, zooms
from app.dashboard.pages.run_links import lead
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views import pointing, tiers
from app.dashboard.views.marks import cursor_shape
from app.dashboard.views.step import StepView
from app.dashboard.views.tier_traces import MOST_TICKS, tick_count
from app.dashboard.views.tiers import MOST_ROWS, Tiers
from hyperoffload_core.ir import TENSOR_CLASSES
from hyperoffload_core.sizes import format_bytes, format_ns

ROWS = Given("tiers-rows", "data")


def panel() -> Any:
    controls = html.Div(
        [
            dmc.TextInput(
                id="tiers-search",
                placeholder="Storages: a part of the name, or size>4MiB, layer:3, is:moved",
                debounce=400,
                size="xs",
                className="tiers-search",
                **{"aria-label": "Storages to show"},
            ),
            dmc.MultiSelect(
                id="tiers-classes",
                data=[{"value": c, "label": theme.class_title(c)} for c in TENSOR_CLASSES if c != "workspace"],
                value=[],
                placeholder="All classes",
                size="xs",
                clearable=True,
                className="tiers-classes",
                **{"aria-label": "Tensor classes"},
            ),
            html.Div(id="tiers-words", className="hint", **{"aria-live": "polite"}),
        ],
        className="tiers-controls",
    )
    legend = html.Div(
        [
            html.Span([html.I(className="tier-key device"), "On the device, in its class's colour"]),
            html.Span([html.I(className="tier-key out", style={"backgroundColor": theme.COPY_OUT}), "On its way out"]),
            html.Span([html.I(className="tier-key pool"), "In the pool"]),
            html.Span([html.I(className="tier-key in", style={"backgroundColor": theme.COPY_IN}), "On its way in"]),
            html.Span("| read, ◆ written"),
            html.Span(id="tiers-ticks"),
        ],
        className="legend",
    )
    return parts.panel(
        "Storages, tier by tier",
        [
            dcc.Store(id="tiers-rows", data=[]),
            zooms.store("tiers-chart"),
            *sight.stores("tiers-chart"),
            dcc.Store(id="tiers-added", data=[]),
            controls,
            legend,
            dcc.Graph(
                id="tiers-chart",
                className=f"{zooms.WATCHED} {sight.WATCHED}",
                config=theme.GRAPH_CONFIG,
                figure=blank(),
                style={"height": 200},
            ),
            html.Details([html.Summary("The same as a table"), html.Div(id="tiers-table", className="scroll")]),
        ],
        hint="Those that stall most and the largest that move; what you pick is added. Drag to zoom, click to pick.",
        id="tiers",
    )


def register(app: dash.Dash, shared: State) -> None:
    def shown(run: dict[str, Any], show: str, rows: list[int]) -> Tiers:
        return Tiers(shown_timeline(shared, run, show).main, tuple(rows))

    sight.follow(app, "tiers-chart", "run-window")

    @app.callback(
        Output("tiers-rows", "data"),
        Output("tiers-added", "data"),
        Output("tiers-words", "children"),
        Output("tiers-table", "children"),
        Output("tiers-chart", "style"),
        Input("tiers-search", "value"),
        Input("tiers-classes", "value"),
        Input("run-picked", "data"),
        Input("run-show", "value"),
        Given("tiers-added", "data"),
        ROWS,
        RUN,
    )
    def choose(search: Any, classes: Any, picked: Any, show: str, added: list[int], *rest: Any) -> Any:
        rows, run = rest
        view = shown_timeline(shared, run, show).main
        storage = _storage_of(view, picked)
        if ctx.triggered_id == "run-picked" and (storage is None or storage in rows):
            return (dash.no_update,) * 5
        # What the page picks by itself, before anyone has, is no choice.
        chose = ctx.triggered_id is not None or picked != run.get("picked")
        if storage is not None and chose and storage not in added:
            added = [storage, *added][: MOST_ROWS // 2]
        chosen = tiers.choose(view, search or "", classes or [], added)
        drawn = Tiers(view, chosen.storages)
        return list(chosen.storages), added, _words(drawn, chosen), _table(drawn), {"height": drawn.height}

    @app.callback(
        Output("tiers-chart", "figure"),
        Output("tiers-ticks", "children"),
        Input("tiers-rows", "data"),
        sight.seen_window("tiers-chart"),
        Input("run-show", "value"),
        Given("run-cursor", "data"),
        RUN,
    )
    def draw(rows: list[int], asked: dict[str, Any] | None, show: str, cursor: int, run: dict[str, Any]) -> Any:
        if asked is None:
            return dash.no_update, dash.no_update
        if not rows:
            return blank(), ""
        drawn, window = shown(run, show, rows), asked["window"]
        span = (window[0], window[1]) if window else (0, drawn.view.end_ns)
        return tiers.figure(drawn, span, cursor), _ticks(drawn, span)

    @app.callback(
        Output("tiers-chart", "figure", allow_duplicate=True), Input("run-cursor", "data"), prevent_initial_call=True
    )
    def move_cursor(cursor: int) -> Any:
        patch = dash.Patch()
        patch["layout"]["shapes"][0] = cursor_shape(cursor)
        return patch

    @app.callback(
        Output("run-target", "data", allow_duplicate=True),
        zooms.zoomed("tiers-chart"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def zoom(change: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        window = pointing.zoom_window(change, shown_timeline(shared, run, show).end_ns)
        return dash.no_update if window is None else window

    @app.callback(
        Output("run-picked", "data", allow_duplicate=True),
        Output("run-cursor", "data", allow_duplicate=True),
        Input("tiers-chart", "clickData"),
        ROWS,
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def point(click: dict[str, Any] | None, rows: list[int], run: dict[str, Any], show: str) -> Any:
        drawn = shown(run, show, rows)
        picked, time = tiers.clicked(drawn, click)
        cursor = dash.no_update if time is None else min(max(time, 0), drawn.view.end_ns - 1)
        return dash.no_update if picked is None else {"kind": picked[0], "id": picked[1]}, cursor


def blank() -> dict[str, Any]:
    hidden = {"visible": False, "fixedrange": True}
    layout = {**theme.figure_layout(200), "xaxis": hidden, "yaxis": hidden, "shapes": [cursor_shape(None)]}
    return {"data": [], "layout": layout}


def _storage_of(view: StepView, picked: dict[str, Any] | None) -> int | None:
    """The storage that was picked, or that the picked transfer moves."""
    if picked and picked["kind"] == "transfer" and picked["id"] in view.transfers:
        return view.transfers[picked["id"]].storage
    return picked["id"] if picked and picked["kind"] == "storage" else None


def _words(drawn: Tiers, chosen: tiers.Chosen) -> Any:
    if chosen.problem:
        return html.Span(chosen.problem, className="tiers-problem", role="alert")
    count = len(chosen.storages)
    more = f"; {chosen.left_out:,} more are not shown, narrow the search" if chosen.left_out else ""
    return f"{count} storage{'s' * (count != 1)}{more}. {drawn.view.kind.title()}."


def _ticks(drawn: Tiers, window: tuple[int, int]) -> str:
    accesses = tick_count(drawn.view, drawn.bars, window)
    return f"{accesses:,} reads and writes here: zoom in to see them" if accesses > MOST_TICKS else ""


def _table(drawn: Tiers) -> Any:
    titles = ("Storage", "Size", "On the device", "Under way", "In the pool", "Transfers", "Blocking")
    head = html.Tr([html.Th(title, className="num" if place else "") for place, title in enumerate(titles)])
    rows = [
        html.Tr(
            [
                html.Td(lead(row.name, ("storage", row.storage))),
                *(
                    html.Td(text, className="num")
                    for text in (
                        format_bytes(row.bytes),
                        f"{row.device_ns / drawn.view.end_ns:.0%}",
                        f"{row.moving_ns / drawn.view.end_ns:.0%}",
                        f"{row.pool_ns / drawn.view.end_ns:.0%}",
                        str(row.transfers),
                        format_ns(row.blocking_ns),
                    )
                ),
            ]
        )
        for row in drawn.rows
    ]
    return frozen(html.Table([html.Thead(head), html.Tbody(rows)], className="plain"))
