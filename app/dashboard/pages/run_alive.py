"""Who holds the device memory at the chosen time."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, html

from app.dashboard import parts, theme
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.alive import Alive, alive_at, group_alive

MOST_ALIVE = 14


def panel() -> Any:
    """Empty until its callback has answered."""
    return html.Section(id="run-alive", className="panel", **{"aria-live": "polite"})


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(Output("run-alive", "children"), Input("run-cursor", "data"), Input("run-show", "value"), RUN)
    def show_alive(cursor: int, show: str, run: dict[str, Any]) -> Any:
        view = shown_timeline(shared, run, show).main
        time = min(cursor, view.end_ns - 1)
        return alive_panel(alive_at(view.profile, time, view.step), time, view.curve.peak[0], view.kind)

    @app.callback(
        Output("run-cursor", "data", allow_duplicate=True),
        Input({"cursor": ALL}, "n_clicks"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def go_to_peak(clicks: list[int | None], run: dict[str, Any], show: str) -> Any:
        return shown_timeline(shared, run, show).main.curve.peak[0] if any(clicks) else dash.no_update


def alive_panel(alive: list[Alive], time_ns: int, peak_ns: int, kind: str) -> list[Any]:
    """Who holds the device memory at a time: by class as one bar, then the largest holders."""
    whole = sum(a.bytes for a in alive)
    groups = group_alive(alive, "class")
    at_peak = time_ns == peak_ns
    bar = html.Div(
        [
            html.I(
                style={"width": f"{g.share:.3%}", "background": theme.class_colour(g.name)},
                title=f"{g.name} {g.share:.0%}",
            )
            for g in groups
        ],
        className="shares",
    )
    shares = html.Div(
        [
            html.Span(
                [
                    parts.swatch(theme.class_colour(g.name)),
                    f"{theme.class_title(g.name)} {format_bytes(g.bytes)} ({g.share:.0%})",
                ]
            )
            for g in groups
        ],
        className="legend",
    )
    rows = [
        html.Tr(
            [
                html.Td([parts.swatch(theme.class_colour(a.tensor_class)), pick_button(a)]),
                html.Td(format_bytes(a.bytes), className="num"),
                html.Td(f"{a.bytes / whole:.1%}", className="num"),
                html.Td(f"{format_ns(a.start_ns)} to {format_ns(a.end_ns)}", className="num"),
            ]
        )
        for a in alive[:MOST_ALIVE]
    ]
    head = html.Tr(
        [
            html.Th("Largest"),
            html.Th("Size", className="num"),
            html.Th("Share", className="num"),
            html.Th("On the device", className="num"),
        ]
    )
    rest = len(alive) - MOST_ALIVE
    return [
        html.Div(
            [
                html.Div(
                    [
                        html.H2(f"On the device at {format_ns(time_ns)}" + (" (the peak)" if at_peak else "")),
                        html.Div(
                            f"{format_bytes(whole)} in {len(alive)} storages and workspaces, {kind}", className="hint"
                        ),
                    ]
                ),
                None if at_peak else dmc.Button("Peak", id={"cursor": "peak"}, size="compact-xs", variant="subtle"),
            ],
            className="panel-head",
        ),
        bar,
        shares,
        html.Div(html.Table([html.Thead(head), html.Tbody(rows)], className="plain"), className="scroll"),
        html.Div(f"and {rest} smaller ones" if rest > 0 else "", className="hint"),
    ]


def pick_button(alive: Alive) -> Any:
    if alive.storage is None:
        return f"{alive.name} (workspace)"
    return html.Button(alive.name, id={"pick": "storage", "id": alive.storage}, className="link", type="button")
