"""The parts of the page of experiments: plots over the limit, heat table, sections of the report."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html

from app.dashboard import parts, theme
from app.dashboard.pages.compare_tables import fitted_grid
from app.dashboard.views.experiments import (
    choices,
    grid_of,
    heat_rows,
    limit_figure,
    ranked,
    usual_strategies,
)
from app.dashboard.views.experiments_address import ExperimentsAsked
from app.experiments import (
    Block,
    Cell,
    Listing,
    Picture,
    Prose,
    Section,
    Sweep,
    Table,
    points_of_cells,
    points_of_runs,
    rows_of_runs,
)
from profiles.plain import visible

TABLE_ROWS = 14
MOST_POINTS = 500


def matrix(cells: Sequence[Cell], asked: ExperimentsAsked, origin: str) -> list[Any]:
    """Every strategy under every limit: a plot for one workload and hardware, a heat table for the workload."""
    known = choices(cells)
    drawn = asked.strategies or tuple(usual_strategies(_own(cells, asked)))
    controls = html.Div(
        [
            dmc.Select(
                id="experiments-workload",
                label="Workload",
                data=known["workload"],
                value=asked.workload,
                allowDeselect=False,
            ),
            dmc.Select(
                id="experiments-hardware",
                label="Hardware",
                data=known["hardware"],
                value=asked.hardware,
                allowDeselect=False,
            ),
            dmc.MultiSelect(
                id="experiments-strategies",
                label="Strategies",
                data=known["strategy"],
                value=list(drawn),
                searchable=True,
            ),
        ],
        className="experiment-choice",
    )
    return [
        parts.panel(
            "Step time over the memory limit",
            [controls, html.Div(matrix_plot(cells, asked), id="experiments-plot")],
            hint=f"Predicted, on hardware descriptions: {origin}. Crosses do not meet the limit.",
        ),
        parts.panel(
            "Step time over the lower bound",
            html.Div(heat_table(cells, asked.workload), id="experiments-heat"),
            hint="Predicted. 1.00 is the bound: nothing that runs every op once is faster. Hover a cell for more.",
        ),
    ]


def matrix_plot(cells: Sequence[Cell], asked: ExperimentsAsked) -> Any:
    own = _own(cells, asked)
    usual = usual_strategies(own)
    # Those drawn at first have colours of their own, and keep them whatever else is chosen.
    order = list(dict.fromkeys([*usual, *ranked(cells)]))
    drawn = asked.strategies or tuple(usual)
    points = points_of_cells(c for c in own if c.strategy in drawn)
    if not points:
        return html.Div("There is no schedule of these strategies.", className="quiet")
    return _graph("experiments-limits", limit_figure(points, order), f"hyperoffload-{asked.workload}-{asked.hardware}")


def _own(cells: Sequence[Cell], asked: ExperimentsAsked) -> list[Cell]:
    return [c for c in cells if (c.workload, c.hardware) == (asked.workload, asked.hardware)]


def heat_table(cells: Sequence[Cell], workload: str) -> Any:
    own = [c for c in cells if c.workload == workload]
    strategies = ranked(own)
    head = [html.Th(text, scope="col") for text in ("Hardware", "Limit", "Bound")]
    head += [html.Th(html.Span(s), scope="col", className="turned") for s in strategies]
    rows = []
    for row in heat_rows(own, strategies):
        marks = [
            html.Td(c.text, title=c.words, className="heat none" if c.shade is None else f"heat heat-{c.shade}")
            for c in row.cells
        ]
        rows.append(
            html.Tr(
                [html.Th(row.hardware, scope="row"), html.Td(row.limit), html.Td(row.bound, className="num"), *marks]
            )
        )
    table = html.Table([html.Thead(html.Tr(head)), html.Tbody(rows)], className="plain heat-table")
    return html.Div(table, className="across", tabIndex=0)


def sweep(found: Sequence[Sweep], asked: ExperimentsAsked) -> list[Any]:
    """A person's own runs of one graph as the same plot."""
    chosen = next((s for s in found if s.name == asked.graph), found[0])
    options = [{"value": s.name, "label": f"{visible(s.model, 60)} on {s.hardware}, {len(s.runs)} runs"} for s in found]
    runs = chosen.runs[:MOST_POINTS]
    strategies = sorted({r.strategy for r in runs}, key=lambda s: (s != "hyperoffload", s))
    kinds = sorted({r.kind for r in runs})
    newest = list(dict.fromkeys(str(r.id) for r in runs))[:8]
    sources = list(dict.fromkeys(r.duration_source for r in runs))
    durations = visible("; ".join(sources[:3]), 160)
    words = f"{' and '.join(kinds).capitalize()} on {chosen.hardware}; op durations: {durations}."
    if len(chosen.runs) > MOST_POINTS:
        words += f" The newest {MOST_POINTS} of {len(chosen.runs):,} runs."
    return [
        parts.panel(
            "Step time over the memory limit",
            [
                dmc.Select(
                    id="experiments-graph", label="Graph", data=options, value=chosen.name, allowDeselect=False, w=460
                ),
                _graph("experiments-runs", limit_figure(points_of_runs(runs), strategies), "hyperoffload-runs"),
            ],
            hint=f"{words} A click on a point opens its run; crosses do not meet their limit.",
            tools=parts.link_button(
                f"Compare the newest {len(newest)}", f"/compare?runs={','.join(newest)}", "compare"
            ),
        ),
        parts.panel("Runs", _runs_grid(chosen)),
    ]


def _runs_grid(chosen: Sweep) -> Any:
    columns = [
        {"field": "id", "headerName": "Run", "width": 80, "cellRenderer": "RunLink", "filter": "agNumberColumnFilter"},
        {"field": "strategy", "headerName": "Strategy", "flex": 1, "minWidth": 120, "filter": "agTextColumnFilter"},
        {"field": "kind", "headerName": "Kind", "width": 110, "cellRenderer": "Tag", "filter": "agTextColumnFilter"},
        parts.size_column("limit", "Limit", width=110),
        parts.size_column("used", "Device memory", width=130),
        parts.time_column("step", "Step time", width=110),
        parts.time_column("bound", "Lower bound", width=120),
        {
            **parts.time_column("over", "Over the bound", width=130),
            "valueFormatter": {"function": "share(params.value)"},
        },
        parts.time_column("exposed", "Exposed", width=104),
        parts.time_column("blocking", "Blocking", width=104),
    ]
    rows = rows_of_runs(chosen.runs[:MOST_POINTS])
    return fitted_grid("experiments-runs-grid", columns, rows, style={"height": _height(len(rows))})


def section(found: Section) -> list[Any]:
    """One section of the report: its tables as grids, everything else as it is written."""
    panels = []
    for number, (heading, blocks) in enumerate(found.blocks):
        if blocks or found.origin:
            shown = [_block(block, f"experiments-table-{number}-{at}") for at, block in enumerate(blocks)]
            panels.append(parts.panel(heading or found.title, shown, hint=found.origin or None))
    return panels


def _block(block: Block, identity: str) -> Any:
    if isinstance(block, Table):
        columns, rows = grid_of(block)
        return html.Div(fitted_grid(identity, columns, rows, style={"height": _height(len(rows))}), className="block")
    if isinstance(block, Listing):
        return html.Pre(block.text, className="log block")
    if isinstance(block, Picture):
        data = base64.b64encode(block.path.read_bytes()).decode()
        kind = "image/svg+xml" if block.path.suffix == ".svg" else f"image/{block.path.suffix[1:]}"
        return html.Img(src=f"data:{kind};base64,{data}", alt=block.words, className="experiment-picture")
    assert isinstance(block, Prose)
    return dcc.Markdown(block.text, className="prose")


def _graph(identity: str, figure: dict[str, Any], name: str) -> Any:
    image = {"format": "png", "scale": 2, "filename": name}
    config = {**theme.GRAPH_CONFIG, "toImageButtonOptions": image}
    return dcc.Graph(id=identity, figure=figure, config=config, style={"height": figure["layout"]["height"]})


def _height(rows: int) -> int:
    return 48 + 36 * min(max(rows, 1), TABLE_ROWS)
