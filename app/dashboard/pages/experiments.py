"""Experiments: those of this project with their tables and plots, and a person's own runs of one graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.pages.experiments_parts import heat_table, matrix, matrix_plot, section, sweep
from app.dashboard.pages.guard import guarded
from app.dashboard.state import State, current_state
from app.dashboard.views.experiments import choices
from app.dashboard.views.experiments_address import MATRIX, RUNS, ExperimentsAsked, address, asked_for
from app.experiments import Cell, Section, Sweep, read_cells, read_sections, recorded_sweeps


def register(app: dash.Dash, shared: State) -> None:  # noqa: ARG001
    dash.register_page(
        __name__, path="/experiments", title="Experiments · HyperOffload", layout=guarded(layout), name="Experiments"
    )

    @app.callback(
        Output("experiments-plot", "children"),
        Output("experiments-heat", "children"),
        Input("experiments-workload", "value"),
        Input("experiments-hardware", "value"),
        Input("experiments-strategies", "value"),
        prevent_initial_call=True,
    )
    def redraw(workload: str, hardware: str, strategies: list[str]) -> Any:
        cells = read_cells()
        asked = ExperimentsAsked(MATRIX, workload, hardware, tuple(strategies or ()))
        return matrix_plot(cells, asked), heat_table(cells, workload)

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Input("experiments-graph", "value"),
        Given("experiments", "data"),
        prevent_initial_call=True,
    )
    def choose(graph: str, shown: dict[str, str]) -> Any:
        return dash.no_update if graph == shown["graph"] else address(ExperimentsAsked(RUNS, graph=graph))

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Input("experiments-runs", "clickData"),
        prevent_initial_call=True,
    )
    def open_run(click: dict[str, Any] | None) -> Any:
        points = (click or {}).get("points") or [{}]
        run = points[0].get("customdata")
        return f"/run/{run}" if isinstance(run, int) else dash.no_update

    app.clientside_callback(
        ClientsideFunction("experiments", "remember"),
        Input("experiments-workload", "value"),
        Input("experiments-hardware", "value"),
        Input("experiments-strategies", "value"),
        prevent_initial_call=True,
    )


def layout(**query: str) -> Any:
    sections, cells = read_sections(), read_cells()
    sweeps = recorded_sweeps(current_state().database)
    names = [*([MATRIX] if cells else []), *([RUNS] if sweeps or not cells else []), *(s.name for s in sections)]
    names += [RUNS] if RUNS not in names else []
    known = {**choices(cells), "show": names, "graph": [s.name for s in sweeps]}
    asked = asked_for(query, known)
    return html.Div(
        [
            dcc.Store(id="experiments", data={"show": asked.show, "graph": asked.graph}),
            parts.head(
                "Experiments",
                "What was tried, and what came of it: this project's own experiments and your runs of one graph.",
            ),
            html.Div(
                [
                    _index(asked, sections, bool(cells)),
                    html.Div(_shown(asked, sections, cells, sweeps), className="stack"),
                ],
                className="experiments",
            ),
        ]
    )


def _index(asked: ExperimentsAsked, sections: Sequence[Section], with_cells: bool) -> Any:
    """The experiments there are, as links."""
    first = [(MATRIX, "Strategies under limits")] if with_cells else []
    groups = [
        ("Yours", [(RUNS, "Runs of one graph")]),
        ("Of this project", [*first, *((s.name, s.title) for s in sections)]),
    ]
    return html.Nav(
        [
            html.Div(
                [
                    html.H2(title),
                    *(
                        dcc.Link(
                            words,
                            href=address(ExperimentsAsked(name)),
                            className="here" if name == asked.show else "",
                        )
                        for name, words in links
                    ),
                    *([html.P("Not on this machine.", className="hint")] if not links else []),
                ]
            )
            for title, links in groups
        ],
        className="panel experiments-index",
        **{"aria-label": "Experiments"},
    )


def _shown(
    asked: ExperimentsAsked, sections: Sequence[Section], cells: Sequence[Cell], sweeps: Sequence[Sweep]
) -> list[Any]:
    if asked.show == MATRIX and cells:
        origin = next((s.origin for s in sections if "bench.compile" in s.origin), "bench.compile")
        return matrix(cells, asked, origin)
    if found := next((s for s in sections if s.name == asked.show), None):
        return section(found)
    own = sweep(sweeps, asked) if sweeps else [_no_sweep()]
    return own if sections or cells else [*own, _no_report()]


def _no_sweep() -> Any:
    return parts.state(
        "compare",
        "No graph has runs to set against each other",
        "Runs of one graph under different limits or strategies appear here as a plot of step time over the limit.",
        parts.command("hyperoffload compile MODEL --limit 60%"),
        parts.link_button("All runs", "/", "runs", "filled"),
    )


def _no_report() -> Any:
    return parts.state(
        "empty",
        "This project's own experiments are not on this machine",
        "They are written into docs/ of its repository, and this program runs without one. In a clone, this makes "
        "them anew:",
        parts.command("make bench"),
    )
