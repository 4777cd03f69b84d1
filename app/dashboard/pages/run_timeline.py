"""The timeline: memory curve above, Gantt lanes below, one time axis."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.icons import icon
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views import pointing
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import HEIGHT, Timeline, cursor_shape, data_changes, figure
from db.queries import RunRow


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Output("run-window", "data"),
        Input("run-timeline", "relayoutData"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def zoom(change: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        shown = shown_timeline(shared, run, show)
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
        shown = shown_timeline(shared, run, show)
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
        Output("run-cursor", "data", allow_duplicate=True),
        Output("run-picked", "data", allow_duplicate=True),
        Input("run-timeline", "clickData"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def point(click: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        shown = shown_timeline(shared, run, show)
        item = pointing.clicked_item(click) or pointing.item_under(click, shown.main)
        time = pointing.clicked_time(click)
        return (
            dash.no_update if time is None else min(max(time, 0), shown.end_ns - 1),
            dash.no_update if item is None else {"kind": item[0], "id": item[1]},
        )

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Input("run-cursor", "data"),
        prevent_initial_call=True,
    )
    def move_cursor(cursor: int) -> Any:
        patch = dash.Patch()
        patch["layout"]["shapes"][0] = cursor_shape(cursor)
        return patch

    @app.callback(
        Output("address", "href", allow_duplicate=True), Input("run-step", "value"), RUN, prevent_initial_call=True
    )
    def open_step(value: str | None, run: dict[str, Any]) -> Any:
        if value is None or int(value) == run["step"]:
            return dash.no_update
        return f"/run/{run['id']}?step={value}"


def panel(run: RunRow, view: StepView, step: int) -> Any:
    timeline = Timeline(view)
    choices = [{"value": str(i), "label": f"Step {i + 1}"} for i in range(run.step_count)]
    modes = [{"value": m, "label": m.title()} for m in ("measured", "predicted", "both")]
    tools = [
        dmc.Select(
            id="run-step",
            data=choices,
            value=str(step),
            allowDeselect=False,
            size="xs",
            w=110,
            display=None if len(choices) > 1 else "none",
            **{"aria-label": "Step"},
        ),
        dmc.SegmentedControl(
            id="run-show", data=modes, value=run.kind, size="xs", display=None if run.kind == "measured" else "none"
        ),
        dmc.Button("Whole step", id="run-whole", size="xs", variant="default", leftSection=icon("zoom", 14)),
    ]
    return parts.panel(
        "Timeline",
        [
            legend(view),
            dcc.Graph(
                id="run-timeline",
                figure=figure(timeline, timeline.whole(), timeline.curve.peak[0]),
                config=theme.GRAPH_CONFIG,
                style={"height": HEIGHT},
            ),
        ],
        hint="Drag to zoom, double-click for the whole step, click anything for details. Keys: W S zoom, A D move.",
        tools=dmc.Group(tools, gap="xs"),
    )


def legend(view: StepView) -> Any:
    classes = [
        html.Span([parts.swatch(theme.class_colour(c)), theme.class_title(c)]) for c in Timeline(view).curve.classes
    ]
    lanes = [
        html.Span([parts.swatch(colour), title])
        for title, colour in (
            ("Compute", theme.COMPUTE),
            ("Copy in", theme.COPY_IN),
            ("Copy out", theme.COPY_OUT),
            ("Exposed", theme.EXPOSED),
            ("Blocking", theme.BLOCKING),
        )
    ]
    return html.Div([*classes, html.Span(className="legend-gap"), *lanes], className="legend")
