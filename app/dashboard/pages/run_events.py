"""What happens on the run page: zoom, click, choice of step and of predicted or measured, export."""

from __future__ import annotations

from typing import Any

import dash
from dash import ALL, Input, Output, ctx, dcc
from dash import State as Given

from app.dashboard.pages.run_parts import alive_panel, details_panel, neighbourhood_chart
from app.dashboard.state import State
from app.dashboard.views import pointing
from app.dashboard.views.details import details
from app.dashboard.views.timeline import Timeline, cursor_shape, data_changes, figure
from app.dashboard.views.transfers import window_around
from db.queries import get_run, load_profile
from profiles.alive import alive_at
from profiles.chrome_trace import trace_bytes

RUN = Given("run", "data")
SHOW = Given("run-show", "value")


def register(app: dash.Dash, shared: State) -> None:
    def timeline(run: dict[str, Any], show: str) -> Timeline:
        measured = shared.step(run["id"], run["step"])
        if measured.kind == "predicted" or show == "measured":
            return Timeline(measured)
        prediction = shared.prediction(run["id"])
        return Timeline(measured, prediction) if show == "both" else Timeline(prediction)

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Output("run-window", "data"),
        Input("run-timeline", "relayoutData"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def zoom(change: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        shown = timeline(run, show)
        window = pointing.zoom_window(change, shown.end_ns)
        if window is None:
            return dash.no_update, dash.no_update
        patch = dash.Patch()
        for trace, key, value in data_changes(shown, window):
            patch["data"][trace][key] = value
        return patch, window

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Output("run-window", "data", allow_duplicate=True),
        Input("run-show", "value"),
        Input("run-target", "data"),
        Input("run-whole", "n_clicks"),
        RUN,
        Given("run-window", "data"),
        Given("run-cursor", "data"),
        prevent_initial_call=True,
    )
    def redraw(
        show: str, target: list[int] | None, _: int | None, run: dict[str, Any], window: list[int] | None, cursor: int
    ) -> Any:
        shown = timeline(run, show)
        if ctx.triggered_id == "run-target" and target:
            window = target
        elif ctx.triggered_id != "run-show":
            window = None
        chosen = (window[0], window[1]) if window else shown.whole()
        drawn = figure(shown, chosen, cursor)
        # Another revision, so that the browser takes this range instead of the one the user left.
        drawn["layout"]["uirevision"] = f"{show} {chosen}"
        return drawn, chosen

    @app.callback(
        Output("run-cursor", "data"),
        Output("run-picked", "data"),
        Output("run-target", "data"),
        Input("run-timeline", "clickData"),
        Input({"pick": ALL, "id": ALL}, "n_clicks"),
        Input({"zoom": ALL, "start": ALL, "end": ALL}, "n_clicks"),
        Input({"cursor": ALL}, "n_clicks"),
        Input("run-transfers", "cellRendererData"),
        Input({"neighbours": ALL}, "clickData"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def point(click: dict[str, Any] | None, *given: Any) -> Any:
        picks, zooms, peaks, row, nodes, run, show = given
        shown = timeline(run, show)
        cursor: Any = dash.no_update
        picked: Any = dash.no_update
        target: Any = dash.no_update
        source = ctx.triggered_id
        if source == "run-timeline":
            item = pointing.clicked_item(click) or pointing.item_under(click, shown.main)
            time = pointing.clicked_time(click)
            picked = dash.no_update if item is None else {"kind": item[0], "id": item[1]}
            cursor = dash.no_update if time is None else min(max(time, 0), shown.end_ns - 1)
        elif source == "run-transfers" and row:
            transfer = row["value"]["transfer"] if isinstance(row["value"], dict) else int(row["rowId"])
            span = shown.main.times["transfer"][transfer]
            picked, cursor = {"kind": "transfer", "id": transfer}, span[0]
            target = window_around(span, shown.end_ns)
        elif isinstance(source, dict) and "neighbours" in source:
            op = pointing.clicked_node(nodes)
            picked = dash.no_update if op is None else {"kind": "op", "id": op}
        elif isinstance(source, dict) and any([*picks, *zooms, *peaks]):
            if "pick" in source:
                picked = {"kind": source["pick"], "id": source["id"]}
            elif "zoom" in source:
                target = window_around((source["start"], source["end"]), shown.end_ns)
            else:
                cursor = shown.curve.peak[0]
        return cursor, picked, target

    @app.callback(
        Output("run-alive", "children"),
        Output("run-timeline", "figure", allow_duplicate=True),
        Input("run-cursor", "data"),
        Input("run-show", "value"),
        RUN,
        prevent_initial_call="initial_duplicate",
    )
    def show_alive(cursor: int, show: str, run: dict[str, Any]) -> Any:
        view = timeline(run, show).main
        time = min(cursor, view.end_ns - 1)
        patch = dash.Patch()
        patch["layout"]["shapes"][0] = cursor_shape(time)
        alive = alive_at(view.profile, time, view.step)
        moved = ctx.triggered_id == "run-cursor"
        return alive_panel(alive, time, view.curve.peak[0], view.kind), patch if moved else dash.no_update

    @app.callback(Output("run-details", "children"), Input("run-picked", "data"), RUN, SHOW)
    def show_details(picked: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        if not picked:
            return dash.no_update
        view = timeline(run, show).main
        found = details(view, picked["kind"], picked["id"])
        return (
            dash.no_update
            if found is None
            else details_panel(found, neighbourhood_chart(view.profile.schedule.graph, found))
        )

    @app.callback(
        Output("address", "href", allow_duplicate=True), Input("run-step", "value"), RUN, prevent_initial_call=True
    )
    def open_step(value: str | None, run: dict[str, Any]) -> Any:
        if value is None or int(value) == run["step"]:
            return dash.no_update
        return f"/run/{run['id']}?step={value}"

    @app.callback(Output("run-download", "data"), Input("run-export", "n_clicks"), RUN, prevent_initial_call=True)
    def export(clicks: int | None, run: dict[str, Any]) -> Any:
        if not clicks:
            return dash.no_update
        row = get_run(shared.database, run["id"])
        data = trace_bytes(load_profile(shared.database, row.id), row.title, compress=True)
        return dcc.send_bytes(data, f"hyperoffload-run-{row.id}.trace.json.gz")
