"""A stretch of time that was dragged over in select mode: shown in the chart, with its numbers below."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, html
from dash import State as Given

from app.dashboard.pages.run_shown import RUN, shown_timeline
from app.dashboard.state import State
from app.dashboard.views.marks import selected_shape
from app.dashboard.views.selecting import selection_of
from app.dashboard.views.step import StepView
from hyperoffload_core.sizes import format_ns
from profiles.selection import selection_facts

SELECTION = Given("run-selection", "data")


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-selected", "children"),
        Input("run-selection", "data"),
        Input("run-show", "value"),
        RUN,
        prevent_initial_call=True,
    )
    def show_selection(selected: list[int] | None, show: str, run: dict[str, Any]) -> Any:
        if not selected:
            return None
        return selection_panel(shown_timeline(shared, run, show).main, (selected[0], selected[1]))

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Input("run-selection", "data"),
        prevent_initial_call=True,
    )
    def draw_selection(selected: list[int] | None) -> Any:
        patch = dash.Patch()
        patch["layout"]["shapes"][1] = selected_shape((selected[0], selected[1]) if selected else None)
        # The browser's own box would stand beside it.
        patch["layout"]["selections"] = []
        return patch

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Input("run-mode", "value"),
        prevent_initial_call=True,
    )
    def change_mode(mode: str) -> Any:
        patch = dash.Patch()
        patch["layout"]["dragmode"] = mode
        return patch

    @app.callback(
        Output("run-selection", "data", allow_duplicate=True),
        Input("run-selection-clear", "n_clicks"),
        prevent_initial_call=True,
    )
    def clear(clicks: int | None) -> Any:
        return None if clicks else dash.no_update

    @app.callback(
        Output("run-target", "data", allow_duplicate=True),
        Input("run-selection-zoom", "n_clicks"),
        SELECTION,
        prevent_initial_call=True,
    )
    def zoom_to_selection(clicks: int | None, selected: list[int] | None) -> Any:
        return selected if clicks and selected else dash.no_update


def selection_panel(view: StepView, selected: tuple[int, int]) -> Any:
    chosen = selection_of(view, selected)
    cells = [
        html.Div(
            [html.Div(label, className="label"), html.Div(value, className="value"), html.Div(note, className="note")]
        )
        for label, value, note in selection_facts(chosen)
    ]
    title = f"Selected {format_ns(chosen.length_ns)}"
    return html.Section(
        [
            html.Div(
                [
                    html.Span([html.B(title), f" from {format_ns(chosen.start_ns)} to {format_ns(chosen.end_ns)}"]),
                    html.Span(f"{view.kind}, counted on unions of intervals", className="hint"),
                    dmc.Button("Zoom to it", id="run-selection-zoom", size="compact-xs", variant="subtle"),
                    dmc.Button("Clear", id="run-selection-clear", size="compact-xs", variant="subtle"),
                ],
                className="selection-head",
            ),
            html.Div(cells, className="selection-facts"),
        ],
        className="selection",
    )
