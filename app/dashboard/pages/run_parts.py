"""The panels of the run page, from view-models."""

from __future__ import annotations

from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from app.dashboard import parts, theme
from app.dashboard.icons import icon
from app.dashboard.views import neighbours
from app.dashboard.views.details import Details, Link
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import HEIGHT, Timeline, figure
from app.dashboard.views.transfers import summary, transfer_rows
from db.queries import RunRow
from hyperoffload_core.ir import Graph
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.alive import Alive, group_alive

MOST_ALIVE = 14


def timeline_panel(run: RunRow, view: StepView, step: int) -> Any:
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


def transfers_panel(view: StepView) -> Any:
    rows = transfer_rows(view)
    columns = [
        {
            "field": "storage",
            "headerName": "Storage",
            "flex": 1,
            "minWidth": 180,
            "cellRenderer": "Act",
            "filter": "agTextColumnFilter",
        },
        {"field": "class", "headerName": "Class", "width": 124, "filter": "agTextColumnFilter"},
        {"field": "direction", "headerName": "Way", "width": 66, "filter": "agTextColumnFilter"},
        *([{"field": "part", "headerName": "Part", "width": 96}] if view.parts else []),
        parts.size_column("bytes", "Size", width=92),
        parts.time_column("start_ns", "Start", width=92),
        parts.time_column("duration_ns", "Duration", width=92),
        parts.time_column("hidden_ns", "Hidden", width=90),
        parts.time_column("exposed_ns", "Exposed", width=90),
        parts.time_column("blocking_ns", "Blocking", width=90, cellClassRules={"cell-bad": "params.value > 0"}),
        parts.time_column("slack_ns", "Slack", width=90),
        {"field": "cause", "headerName": "Waited for", "width": 118, "filter": "agTextColumnFilter"},
    ]
    style = {"height": 42 + 36 * min(len(rows), 10), "display": "block" if rows else "none"}
    table = parts.grid("run-transfers", columns, rows, getRowId="params.data.transfer.toString()", style=style)
    how = f" Click a storage to zoom to its transfer. Every number {view.kind}." if rows else ""
    return parts.panel("Transfers, the costly first" if rows else "Transfers", table, hint=summary(rows) + how)


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
