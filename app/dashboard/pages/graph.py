"""The graph of a run: its layers, or the neighbourhood of an op or storage, before and after scheduling."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, ClientsideFunction, Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.pages.graph_parts import (
    details_panel,
    drawn,
    found_list,
    layer_boxes,
    legend,
    listed,
)
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.run_notice import run_notice, run_title
from app.dashboard.pages.runs_actions import deleted_page
from app.dashboard.state import State, current_state
from app.dashboard.views.address import run_number
from app.dashboard.views.graph_boxes import Drawing, drawing
from app.dashboard.views.graph_details import (
    NodeDetails,
    Page,
    layer_details,
    node_details,
    storage_details,
    whole_details,
)
from app.dashboard.views.graph_found import found_in
from app.dashboard.views.graph_layers import layers_of
from app.dashboard.views.graph_layout import MOST_HOPS
from app.dashboard.views.graph_overview import overview
from app.dashboard.views.graph_query import Asked, asked_of, node_of, query_of
from app.dashboard.views.runs import run_name
from db.database import DatabaseError
from db.queries import RunRow, get_run, median_step
from hyperoffload_core.errors import UserError

STAGES = [
    {"value": "captured", "label": "Captured"},
    {"value": "scheduled", "label": "Scheduled"},
    {"value": "both", "label": "Side by side"},
]


def register(app: dash.Dash, shared: State) -> None:
    shown = guarded(layout)
    dash.register_page(__name__, path_template="/graph/<run_id>", title=run_title("Graph of"), layout=shown)

    @app.callback(
        Output("graph-drawing", "children"),
        Output("graph-query", "data"),
        Input("graph-hops", "value"),
        Input("graph-stages", "value"),
        Input("graph-picked", "data"),
        Given("graph", "data"),
        prevent_initial_call=True,
    )
    def redraw(hops: str, stages: Any, picked: str | None, kept: dict[str, Any]) -> Any:
        page = page_of(shared, kept["run"])
        asked = asked_of(kept["query"] | {"hops": hops, "stages": stages, "picked": picked or ""})
        told = query_of(asked)
        # A pick only marks a box, which needs no other drawing.
        return dash.no_update if ctx.triggered_id == "graph-picked" else neighbourhood(page, asked), told

    @app.callback(
        Output("graph-picked", "data"),
        Input({"graph-node": ALL}, "n_clicks"),
        Input({"graph-row": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )
    def pick(nodes: list[int | None], rows: list[int | None]) -> Any:
        source = ctx.triggered_id
        if not isinstance(source, dict) or not any([*nodes, *rows]):
            return dash.no_update
        return source["graph-row"] if "graph-row" in source else source["graph-node"].partition(":")[2]

    @app.callback(
        Output("graph-details", "children"),
        Output({"graph-node": ALL}, "className"),
        Input("graph-picked", "data"),
        Given({"graph-node": ALL}, "id"),
        Given({"graph-node": ALL}, "className"),
        Given("graph", "data"),
        prevent_initial_call=True,
    )
    def show_details(picked: str | None, nodes: list[dict[str, str]], classes: list[str], kept: dict[str, Any]) -> Any:
        node = node_of(picked or "")
        if node is None:
            return dash.no_update, [dash.no_update] * len(nodes)
        plain = [name.replace(" picked", "") for name in classes]
        marked = [
            f"{name} picked" if node_id["graph-node"].partition(":")[2] == picked else name
            for name, node_id in zip(plain, nodes, strict=True)
        ]
        return details_panel(node_details(page_of(shared, kept["run"]), node)), marked

    @app.callback(
        Output("graph-found", "children"),
        Input("graph-search", "value"),
        Given("graph", "data"),
        prevent_initial_call=True,
    )
    def search(text: str | None, kept: dict[str, Any]) -> Any:
        if not (text or "").strip():
            return None
        page = page_of(shared, kept["run"])
        try:
            return found_list(page, *found_in(page.view, text or ""))
        except UserError as error:
            return html.Div(str(error), className="tiers-problem", role="alert")

    app.clientside_callback(
        ClientsideFunction("graph", "replace_query"),
        Output("graph-query", "clear_data"),
        Input("graph-query", "data"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("graph", "show_centre"), Output("graph-drawing", "title"), Input("graph-drawing", "children")
    )


def page_of(shared: State, run_id: int) -> Page:
    """The median step of a run; of one without a recorded step what the simulator says of its schedule."""
    run = get_run(shared.database, run_id)
    if not run.step_count:
        return Page(run.id, 0, shared.prediction(run.id))
    step = median_step(shared.database, run.id)
    return Page(run.id, step, shared.step(run.id, step))


def layout(run_id: str = "", **query: str) -> Any:
    state = current_state()
    try:
        run = get_run(state.database, run_number(run_id))
    except DatabaseError:
        return _unknown(run_id)
    if run.deleted is not None:
        return deleted_page(run)
    page = page_of(state, run.id)
    asked = asked_of(query)
    told, missing = _told(page, asked)
    if missing:
        asked = Asked()
    picked = None if asked.picked is None else f"{asked.picked[0]}:{asked.picked[1]}"
    main = _layers(page) if asked.around is None else neighbourhood(page, asked)
    return html.Div(
        [
            dcc.Store(id="graph", data={"run": run.id, "query": query if asked.around is not None else {}}),
            dcc.Store(id="graph-picked", data=picked),
            dcc.Store(id="graph-query"),
            _head(run, page, asked),
            run_notice(run),
            parts.notice("warn", missing, "alert") if missing else None,
            html.Div(
                [
                    html.Section(
                        [_tools(asked), html.Div(id="graph-found"), html.Div(main, id="graph-drawing")],
                        className="panel",
                    ),
                    html.Section(
                        details_panel(told), id="graph-details", className="panel side", **{"aria-live": "polite"}
                    ),
                ],
                className="columns graph-columns",
            ),
        ]
    )


def neighbourhood(page: Page, asked: Asked) -> list[Any]:
    """One drawing or two side by side, and the nodes as a list."""
    if asked.around is None:
        return []
    stages = ("captured", "scheduled") if asked.stages == "both" else (asked.stages,)
    picked = "" if asked.picked is None else f"{asked.picked[0]}:{asked.picked[1]}"
    found: list[tuple[str, Drawing]] = [
        (
            stage,
            drawing(
                page.links, page.view, asked.around, asked.hops, "captured" if stage == "captured" else "scheduled"
            ),
        )
        for stage in stages
    ]
    count = len(found[-1][1].boxes)
    return [
        legend(asked.stages),
        html.Div([drawn(stage, shown, picked) for stage, shown in found], className=f"graph-stages of-{len(found)}"),
        html.Details(
            [html.Summary(f"The same as a list ({count} nodes)"), listed(found[-1][1])],
            open=asked.around.place == "layer",
        ),
    ]


def _told(page: Page, asked: Asked) -> tuple[NodeDetails | None, str]:
    """The details to begin with, and what is wrong with what was asked for."""
    graph = page.links.schedule.graph
    around = asked.around
    told: NodeDetails | None = None
    if around is not None and around.place == "layer":
        told = layer_details(page, layers_of(page.view), around.layer, around.phase)
    elif around is not None:
        told = node_details(page, ("op", around.id)) if around.place == "op" else storage_details(page, around.id)
    if around is not None and told is None:
        has = f"{len(graph.ops):,} ops and {len(graph.storages):,} storages, numbered from 0"
        what = "such layer" if around.place == "layer" else f"{around.place} {around.id}"
        return whole_details(page, layers_of(page.view)), f"There is no {what} in this graph; it has {has}."
    if asked.picked is not None and (picked := node_details(page, asked.picked)) is not None:
        return picked, ""
    return told or whole_details(page, layers_of(page.view)), ""


def _layers(page: Page) -> list[Any]:
    shown = layers_of(page.view)
    words = (
        f"Each box is a layer in one phase: its ops, their time ({page.view.kind}), and the bytes that they touch, by "
        "class. Lines are bytes that one writes and another reads, thin to thick. Click a layer for its ops."
    )
    return [html.Div(words, className="hint graph-words"), layer_boxes(page.run, overview(shown))]


def _head(run: RunRow, page: Page, asked: Asked) -> Any:
    schedule = page.links.schedule
    moves, detaches = len(page.links.moves), len(page.links.detaches)
    sub = (
        f"{len(schedule.graph.ops):,} ops, {len(schedule.graph.storages):,} storages; {moves:,} transfers and "
        f"{detaches:,} Detach inserted by {schedule.strategy}. Times are {page.view.kind}."
    )
    tools = [parts.link_button("Layers", f"/graph/{run.id}", "runs")] if asked.around is not None else []
    tools.append(parts.link_button("Run", f"/run/{run.id}", "trace"))
    crumb = [dcc.Link("Runs", href="/"), " / ", dcc.Link(str(run.id), href=f"/run/{run.id}"), " / Graph"]
    return parts.head(["Graph of ", run_name(run)], sub, tools, crumb)


def _tools(asked: Asked) -> Any:
    hidden = {"display": "none"} if asked.around is None else {}
    return html.Div(
        [
            dmc.TextInput(
                id="graph-search",
                placeholder="Find an op or a storage by name",
                debounce=300,
                size="xs",
                className="tiers-search",
                **{"aria-label": "Find an op or a storage"},
            ),
            html.Div(
                [
                    html.Span("Hops", className="hint"),
                    dmc.SegmentedControl(
                        id="graph-hops", data=[str(n) for n in range(MOST_HOPS + 1)], value=str(asked.hops), size="xs"
                    ),
                    dmc.SegmentedControl(id="graph-stages", data=STAGES, value=asked.stages, size="xs"),
                ],
                className="graph-switches",
                style=hidden,
            ),
        ],
        className="graph-tools",
    )


def _unknown(run_id: str) -> Any:
    return parts.state(
        "empty",
        f"There is no run {run_id[:40]}",
        "It may have been deleted, or the address is of another database.",
        parts.link_button("All runs", "/", "runs", "filled"),
    )
