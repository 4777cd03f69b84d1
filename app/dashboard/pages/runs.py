"""Runs: every recorded or predicted profile; the way into all other pages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.icons import icon
from app.dashboard.pages import job_panel, runs_actions, runs_rows
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.runs_actions import MOST_COMPARED
from app.dashboard.state import State, current_state
from app.dashboard.views.runs import SHOWN, RunsAsked, runs_asked_for
from app.demo import DEMO_MODEL, demo_request
from app.jobs import job_view, start_run_job
from db.curation import purge_expired
from db.database import DatabaseError
from db.queries import RunFilter, count_runs, run_choices, runs_stamp
from db.run_filter import FIELDS
from profiles.plain import visible

__all__ = ["MOST_COMPARED", "layout", "register"]
BLOCK_ROWS = 60
# A list of choices is as wide as its longest.
LONGEST_CHOICE = 60
REFRESH_MS = 3000
KIND_HINT = "Predicted by the simulator, measured by the executor, or measured in MindSpore's graph mode"
CHOICES = {"model": "Model", "strategy": "Strategy", "hardware": "Hardware", "kind": "Kind", "tag": "Tag"}
SEARCH_HELP = (
    ("llama reactive", "both words occur somewhere: model, name, note, tags, strategy, hardware, conditions"),
    ("step<1.5s", "also exposed, blocking, compute; write the unit"),
    ("peak>2GiB", "also limit, out, in (bytes moved in a step)"),
    ("strategy:react", "contains; strategy=reactive is exactly that; also every other text field"),
    ("tag:paper -tag:old", "a - in front turns a condition round"),
    ("age<2d", "recorded within two days; when>2026-11-01 after a date (UTC)"),
)


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path="/", title="Runs · HyperOffload", layout=guarded(layout))
    runs_actions.register(app, shared)
    runs_rows.register(app, shared)
    if not shared.database.read_only:
        purge_expired(shared.database)

    @app.callback(
        Output("runs-stamp", "data"),
        Output("runs-refresh", "disabled"),
        Output("runs-notice", "children"),
        Input("runs-refresh", "n_intervals"),
        Given("runs-stamp", "data"),
        prevent_initial_call=True,
    )
    def look(_: int, known: str) -> Any:
        """Only whether anything changed is asked every few seconds; rows are fetched by the grid when it did."""
        try:
            stamp = runs_stamp(shared.database)
        except DatabaseError as error:
            return dash.no_update, True, parts.notice("bad", str(error), "alert")
        return dash.no_update if stamp == known else stamp, dash.no_update, dash.no_update

    @app.callback(
        Output("job-id", "data", allow_duplicate=True),
        Output("runs-demo", "disabled"),
        Output("runs-wait", "data"),
        Input("runs-demo", "n_clicks"),
        prevent_initial_call=True,
    )
    def demo(clicks: int | None) -> Any:
        if not clicks:
            return [dash.no_update] * 3
        return start_run_job(shared.path, demo_request(shared.database)), True, True

    in_browser = [
        ("ask", Output("runs-asked", "data"), [*_controls()], [Given("runs-asked", "data")]),
        ("reload", None, [Input("runs-asked", "data")], []),
        ("refresh", None, [Input("runs-stamp", "data")], []),
        ("remember", None, [Input("runs-asked", "data"), Input("runs-grid", "getRowsRequest")], []),
        ("clear", _cleared(), [Input({"type": "runs-clear", "at": dash.ALL}, "n_clicks")], []),
        ("demoEnded", None, [Input("job-poll", "disabled")], [Given("runs-wait", "data", allow_optional=True)]),
    ]
    for name, output, inputs, given in in_browser:
        written = [output] if isinstance(output, Output) else output or []
        function = ClientsideFunction("runs", name)
        app.clientside_callback(function, *written, *inputs, *given, prevent_initial_call=True)


def layout(**query: str) -> Any:
    state = current_state()
    job = _job(state)
    if not any(count_runs(state.database, RunFilter(deleted=deleted)) for deleted in (False, True)):
        return html.Div(
            [parts.head("Runs"), _empty(job, waiting=job is not None and not job_view(state.path, job).ended)]
        )
    asked = runs_asked_for(query)
    first = runs_rows.rows(state, asked, 0, BLOCK_ROWS)
    job_shown = [html.Section(job_panel.job_panel(job), className="panel runs-job")] if job is not None else []
    return html.Div(
        [
            parts.head(
                "Runs",
                "Profiles of one step or several: predicted by the simulator, or measured on this machine.",
                [parts.link_button("New run", "/new", "plus", "filled")],
            ),
            html.Div(id="runs-notice"),
            *job_shown,
            _filters(state, asked, first.wrong),
            runs_actions.bar(asked.show, first.words),
            html.Div(
                [_grid(asked), html.Div(first.none, id="runs-none")], id="runs-table", style={"--rows": first.total}
            ),
            *runs_rows.stores(asked, first),
            runs_actions.dialogs(),
            dcc.Store(id="runs-asked", data=asdict(asked)),
            dcc.Store(id="runs-stamp", data=runs_stamp(state.database)),
            dcc.Interval(id="runs-refresh", interval=REFRESH_MS),
        ]
    )


def _controls() -> list[Input]:
    return [Input("runs-search", "value"), *(Input(f"runs-{n}", "value") for n in CHOICES), Input("runs-show", "value")]


def _cleared() -> list[Output]:
    return [Output(control.component_id, "value") for control in _controls()]


def _filters(state: State, asked: RunsAsked, wrong: str | None) -> Any:
    choices = run_choices(state.database)
    selects = []
    for name, title in CHOICES.items():
        chosen = getattr(asked, name) or None
        options = choices[name] if chosen is None or chosen in choices[name] else [*choices[name], chosen]
        selects.append(
            dmc.Select(
                id=f"runs-{name}",
                data=[{"value": option, "label": visible(option, LONGEST_CHOICE)} for option in options],
                value=chosen,
                placeholder=title,
                clearable=True,
                searchable=True,
                nothingFoundMessage="none",
                comboboxProps={"width": "max-content", "position": "bottom-start"},
                className="runs-choice",
                **{"aria-label": title},
            )
        )
    return html.Div(
        [
            dmc.TextInput(
                id="runs-search",
                value=asked.q,
                error=wrong,
                debounce=300,
                placeholder="Search, or step<10ms tag:paper",
                leftSection=icon("zoom"),
                rightSection=_search_help(),
                className="runs-search",
                **{"aria-label": "Search runs"},
            ),
            *selects,
            dmc.SegmentedControl(
                id="runs-show", data=[{"value": s, "label": s.capitalize()} for s in SHOWN], value=asked.show, size="sm"
            ),
        ],
        className="runs-filters",
    )


def _search_help() -> Any:
    rows = [html.Tr([html.Td(html.Code(text)), html.Td(meaning)]) for text, meaning in SEARCH_HELP]
    words = html.P(["Fields: ", ", ".join(FIELDS), "."], className="hint")
    button = dmc.ActionIcon(
        "?", variant="subtle", c="var(--ink-soft)", size="sm", **{"aria-label": "What can be searched"}
    )
    return dmc.Popover(
        [
            dmc.PopoverTarget(button),
            dmc.PopoverDropdown([html.Table(html.Tbody(rows), className="plain"), words], className="runs-help"),
        ],
        width=580,
        position="bottom-start",
        shadow="md",
    )


def _grid(asked: RunsAsked) -> Any:
    column = asked.sort.removeprefix("-")
    direction = "desc" if asked.sort.startswith("-") else "asc"
    columns = [{**c, **({"sort": direction} if c["field"] == column else {})} for c in COLUMNS]
    return parts.grid(
        "runs-grid",
        columns,
        None,
        rowModelType="infinite",
        getRowId="params.data.id.toString()",
        default_column={"sortingOrder": ["desc", "asc"], "suppressMovable": True},
        options={
            "rowSelection": {"mode": "multiRow", "enableClickSelection": False, "headerCheckbox": False},
            "selectionColumnDef": {"width": 38, "pinned": "left", "resizable": False},
            "cacheBlockSize": BLOCK_ROWS,
            "maxBlocksInCache": 8,
            # Rows beyond those in sight are made when they come near.
            "rowBuffer": 3,
            "tooltipShowDelay": 400,
            "suppressMultiSort": True,
            "suppressNoRowsOverlay": True,
        },
    )


def _text(field: str, title: str, hint: str = "", **settings: Any) -> dict[str, Any]:
    return {"field": field, "headerName": title, "headerTooltip": hint or title, **settings}


COLUMNS: list[dict[str, Any]] = [
    _text("id", "Run", width=58, cellRenderer="RunNumber", pinned="left"),
    _text("model", "Model", "Name and model", minWidth=120, flex=1, cellRenderer="RunName"),
    _text("hardware", "Hardware", width=102, tooltipField="hardware"),
    _text("strategy", "Strategy", width=102, tooltipField="strategy"),
    parts.size_column("limit_bytes", "Limit", width=74, headerTooltip="Memory limit of the policy", filter=False),
    parts.size_column(
        "device_bytes",
        "Peak",
        width=74,
        headerTooltip="Device memory at its highest, gaps between storages included: used (measured) or reserved "
        "(predicted)",
        filter=False,
    ),
    parts.time_column("step_ns", "Step", width=76, headerTooltip="Time of the median step", filter=False),
    parts.time_column(
        "exposed_ns",
        "Exposed",
        width=88,
        headerTooltip="Transfer time with no compute beside it, in the median step",
        filter=False,
    ),
    _text("kind", "Kind", KIND_HINT, width=114, cellRenderer="RunTag", tooltipField="kind_words"),
    _text("status", "Status", width=112, cellRenderer="RunTag", tooltipField="reason"),
    _text("tags", "Tags", width=104, cellRenderer="RunTags", sortable=False),
    _text("created", "When (UTC)", width=138),
]


def _job(state: State) -> int | None:
    """The demo that works or has just ended, else whatever works."""
    demo = job_panel.last_job(state, DEMO_MODEL)
    return demo if demo is not None else job_panel.running_job(state)


def _empty(job: int | None, waiting: bool) -> Any:
    return html.Div(
        [
            parts.state(
                "empty",
                "No runs yet",
                "A run is one profile of a training or inference step: predicted by the simulator, or measured on real "
                "MindSpore kernels. The demo trains a small LLaMA-style model in 60 % of its memory and records "
                "several runs within two minutes; or start with a model of your own.",
                parts.button("Run the demo", "runs-demo", "play", "filled", disabled=waiting),
                parts.link_button("New run", "/new", "plus"),
            ),
            html.Div(["The same in a terminal: ", parts.command("hyperoffload demo")], className="quiet"),
            html.Section(job_panel.job_panel(job), className="panel runs-job"),
            dcc.Store(id="runs-wait", data=waiting),
        ]
    )
