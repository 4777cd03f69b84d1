"""Who holds the device memory at the chosen time, what of it is not needed, and what would lower it."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, html

from app.dashboard import parts
from app.dashboard.frozen import frozen
from app.dashboard.pages.run_links import ask, lead
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views.alive import GROUP_TITLES, Holder, HolderGroup, MomentView, Way, moment_view, storages_counted
from hyperoffload_core.sizes import format_bytes
from profiles.alive import GROUPS, Group


def panel(group: str = "") -> Any:
    """``group`` is the grouping asked for; empty until its callback has answered."""
    chosen = next((g for g in GROUPS if g == group), "class")
    choices = [{"value": g, "label": GROUP_TITLES[g]} for g in GROUPS]
    tools = dmc.Group(
        [
            dmc.Button("Peak", id="run-to-peak", size="compact-sm", variant="default", display="none"),
            dmc.SegmentedControl(
                id="run-group",
                data=choices,
                value=chosen,
                size="xs",
                **{"aria-label": "Group what is on the device by"},
            ),
        ],
        gap="xs",
    )
    head = html.Div(
        [
            html.Div(
                [html.H2("On the device", id="run-alive-title"), html.Div(id="run-alive-summary", className="hint")]
            ),
            tools,
        ],
        className="panel-head",
    )
    return html.Section(
        [head, html.Div(id="run-alive-body")], id="run-alive", className="panel", **{"aria-live": "polite"}
    )


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-alive-title", "children"),
        Output("run-alive-summary", "children"),
        Output("run-alive-body", "children"),
        Output("run-to-peak", "display"),
        Input("run-cursor", "data"),
        Input("run-show", "value"),
        Input("run-group", "value"),
        RUN,
    )
    def show_alive(cursor: int, show: str, by: Group, run: dict[str, Any]) -> Any:
        view = shown_timeline(shared, run, show).main
        found = moment_view(view, min(cursor, view.end_ns - 1), by)
        return found.title, found.summary, frozen(alive_body(found)), "none" if found.at_peak else None

    @app.callback(
        Output("run-cursor", "data", allow_duplicate=True),
        Input("run-to-peak", "n_clicks"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def go_to_peak(clicks: int | None, run: dict[str, Any], show: str) -> Any:
        return shown_timeline(shared, run, show).main.peak[0] if clicks else dash.no_update


def alive_body(found: MomentView) -> list[Any]:
    if not found.groups:
        return [html.Div("Choose another time in the timeline.", className="quiet")]
    bar = html.Div(
        [html.I(style={"width": f"{share:.3%}", "background": c}, title=title) for title, c, share in found.colours],
        className="shares",
    )
    legend = html.Div([html.Span([parts.swatch(c), title]) for title, c, _ in found.colours], className="legend")
    levels = html.Dl(
        [
            html.Div([html.Dt(title), html.Dd(size), html.Dd(meaning, className="hint")], title=meaning)
            for title, size, meaning in found.levels
        ],
        className="levels",
    )
    groups = [_group(g, number == 0) for number, g in enumerate(found.groups)]
    return [
        bar,
        legend,
        levels,
        html.Div(groups, className="groups"),
        html.Div(found.groups_left, className="hint"),
        html.H3("What would lower it"),
        html.Ul([_way(w) for w in found.ways], className="ways"),
        html.Div(
            [
                "A limit a tenth below this moment: ",
                ask(
                    f"What would {format_bytes(found.lower_limit_bytes)} cost?",
                    f"limit {format_bytes(found.lower_limit_bytes)}",
                    None,
                ),
            ],
            className="explained",
        )
        if found.lower_limit_bytes >= 1024
        else None,
    ]


def _group(group: HolderGroup, is_open: bool) -> Any:
    swatch = parts.swatch(group.colour) if group.colour else None
    summary = html.Summary(
        [
            html.Span([swatch, group.title], className="group-name", title=group.title[:500]),
            html.Span(
                html.I(style={"width": f"{group.share:.2%}", "background": group.colour or "var(--accent)"}),
                className="bar",
            ),
            html.Span(format_bytes(group.bytes), className="num"),
            html.Span(f"{group.share:.1%}", className="num"),
            html.Span(f"{group.count:,}", className="num soft", title=storages_counted(group.count)),
        ]
    )
    head = html.Tr([html.Th("Largest"), *(html.Th(t, className="num") for t in ("Size", "Share", "On the device"))])
    table = html.Table([html.Thead(head), html.Tbody([_holder(h) for h in group.holders])], className="plain")
    more: list[Any] = []
    if group.left_out:
        more = [f"and {group.left_out:,} smaller ones"]
        if group.query:
            more += ["; ", lead(f"find all {group.count:,}", find=group.query)]
    return html.Details([summary, table, html.Div(more, className="hint")], className="group", open=is_open)


def _holder(holder: Holder) -> Any:
    name = holder.text if holder.storage is None else lead(holder.text, ("storage", holder.storage))
    return html.Tr(
        [
            html.Td([parts.swatch(holder.colour), name]),
            html.Td(format_bytes(holder.bytes), className="num"),
            html.Td(f"{holder.share:.1%}", className="num"),
            html.Td(holder.when, className="num"),
        ]
    )


def _way(way: Way) -> Any:
    named = html.Ul([html.Li(lead(text, ("storage", storage))) for storage, text in way.storages])
    return html.Li([html.B(way.title), ": ", way.text, named if way.storages else None])
