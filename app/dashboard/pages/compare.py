"""Compare two to eight runs: verdict, overlaid curves, Gantt charts on one axis, tables of differences, exports."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import dcc, html

from app.dashboard import parts, theme
from app.dashboard.icons import icon
from app.dashboard.pages import compare_events, zooms
from app.dashboard.pages.compare_events import AXIS_HINTS, MOST_OFFERED, chart, file_name, offered
from app.dashboard.pages.compare_tables import numbers_table
from app.dashboard.pages.compared import LABEL, compared_of, comparison_of
from app.dashboard.pages.guard import guarded
from app.dashboard.state import State, current_state
from app.dashboard.views.address import run_number
from app.dashboard.views.comparing import Compared, colour_of
from app.dashboard.views.comparing_address import CompareAsked, asked_for
from app.dashboard.views.runs import run_name, runs_asked
from app.recorded import MOST_COMPARED
from db.database import DatabaseError
from db.queries import RunRow, get_run
from profiles.comparison import Comparison
from profiles.op_groups import OP_GROUPINGS
from profiles.plain import visible
from profiles.verdict import verdict_clauses

FORMATS = (("html", "HTML report"), ("md", "Markdown"), ("csv", "CSV"), ("json", "JSON"), ("svg", "SVG"))
MOST_IN_A_SENTENCE = 3
TAB_TITLES = {
    "decisions": "Decisions",
    "time": "Where time went",
    "storages": "Storages",
    "transfers": "Transfers",
}


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path="/compare", title="Compare · HyperOffload", layout=guarded(layout))
    compare_events.register(app, shared)


def layout(runs: str = "", baseline: str = "", tab: str = "", axis: str = "", by: str = "", **_: str) -> Any:
    state = current_state()
    known = _known(state, runs)
    ids, wrong = runs_asked(runs, known, MOST_COMPARED)
    asked = asked_for(ids, baseline, tab, axis, by)
    base = [
        dcc.Store(id="compare", data={"runs": ids, "baseline": asked.baseline}),
        dcc.Download(id="compare-download"),
        parts.head("Compare", None, _tools(len(ids) > 1)),
        *(parts.notice("warn", text, "alert") for text in (*wrong, *_states([known[i] for i in ids]))),
        _choice(state, [known[i] for i in ids], asked),
    ]
    if len(ids) < 2:
        return html.Div([*base, _too_few(state, ids)])
    comparison, compared = comparison_of(state, asked), compared_of(state, asked)
    return html.Div(
        [
            *base,
            parts.panel(
                "Verdict",
                [
                    html.Div(_verdict(comparison), className="verdict", id="compare-verdict"),
                    *(html.P(note, className="hint compare-note") for note in comparison.notes),
                ],
            ),
            parts.panel(
                "Numbers",
                numbers_table(comparison),
                hint=f"Differences are to {visible(comparison.sides[comparison.baseline].label, 80)}.",
            ),
            _chart(state, asked, compared),
            _differences(comparison, asked),
        ]
    )


def _known(state: State, runs: str) -> dict[int, RunRow]:
    """The runs an address names, as far as there are any."""
    found = {}
    for word in runs.split(",")[: 4 * MOST_COMPARED]:
        try:
            run = get_run(state.database, run_number(word.strip()))
        except DatabaseError:
            continue
        found[run.id] = run
    return found


def _states(chosen: list[RunRow]) -> list[str]:
    """A sentence for each run that is not whole, or not to stay."""
    words = {
        "running": "is still being recorded; the steps it has so far are compared",
        "incomplete": "is incomplete; the steps it has are compared",
        "failed": "failed; the steps recorded before that are compared",
        "cancelled": "was cancelled; the steps recorded before that are compared",
    }
    found = [f"Run {r.id} {words[r.status]}." for r in chosen if r.status in words]
    gone = "is deleted and will be gone for good; the list of runs can restore it"
    return [*found, *(f"Run {r.id} {gone}." for r in chosen if r.deleted is not None)]


def _verdict(comparison: Comparison) -> Any:
    """One sentence, of many runs with a line for each."""
    if len(comparison.sides) <= MOST_IN_A_SENTENCE:
        return comparison.verdict
    c = comparison
    against, clauses = verdict_clauses(c.sides, c.matches, c.numbers, c.baseline)
    last = len(clauses) - 1
    return [f"{against}:", html.Ul([html.Li(f"{text}{'.' if i == last else ';'}") for i, text in enumerate(clauses)])]


def _tools(enabled: bool) -> list[Any]:
    return [parts.button(title, {"export": suffix}, "download", disabled=not enabled) for suffix, title in FORMATS]


def _choice(state: State, chosen: list[RunRow], asked: CompareAsked) -> Any:
    own = [{"value": str(r.id), "label": visible(f"{run_name(r)} · {r.kind}", LABEL)} for r in chosen]
    more = [option for option in offered(state, "") if int(option["value"]) not in asked.runs]
    return html.Section(
        html.Div(
            [
                dmc.MultiSelect(
                    id="compare-runs",
                    label="Runs",
                    data=[*own, *more],
                    value=[str(i) for i in asked.runs],
                    maxValues=MOST_COMPARED,
                    searchable=True,
                    clearable=True,
                    placeholder="Add a run: type any part of it" if len(chosen) < MOST_COMPARED else "",
                    nothingFoundMessage=f"None of the newest {MOST_OFFERED} that match what is typed",
                ),
                dmc.Select(
                    id="compare-baseline",
                    label="Baseline",
                    data=own,
                    value=None if asked.baseline is None else str(asked.baseline),
                    allowDeselect=False,
                    disabled=len(chosen) < 2,
                ),
            ],
            className="choice",
        ),
        className="panel",
        style={"marginBottom": 16},
    )


def _chart(state: State, asked: CompareAsked, compared: Compared) -> Any:
    figure, height = chart(state, asked)
    image = {"format": "png", "scale": 2, "filename": file_name(asked)}
    return parts.panel(
        "Curves and lanes",
        [
            _legend(compared),
            zooms.store("compare-timeline"),
            dcc.Graph(
                id="compare-timeline",
                className=zooms.WATCHED,
                figure=figure,
                config={**theme.GRAPH_CONFIG, "toImageButtonOptions": image},
                style={"height": height},
            ),
        ],
        hint=html.Span(AXIS_HINTS[asked.axis], id="compare-axis-hint"),
        tools=dmc.SegmentedControl(
            id="compare-axis",
            value=asked.axis,
            data=[{"value": "time", "label": "By time"}, {"value": "op", "label": "By op"}],
            size="xs",
        ),
        id="compare-chart",
    )


def _differences(comparison: Comparison, asked: CompareAsked) -> Any:
    counts = {
        "decisions": f" ({len(comparison.decisions):,})",
        "time": "",
        "storages": f" ({len(comparison.storages):,})",
        "transfers": f" ({len(comparison.transfers):,})",
    }
    controls = html.Div(
        [
            html.Div(
                dmc.SegmentedControl(
                    id="compare-by",
                    value=asked.by,
                    data=[{"value": g, "label": f"By {g}"} for g in OP_GROUPINGS],
                    size="xs",
                ),
                id="compare-by-choice",
            ),
            dmc.TextInput(
                id="compare-filter",
                placeholder="Filter the rows",
                leftSection=icon("zoom"),
                size="xs",
                w=200,
                **{"aria-label": "Filter the rows"},
            ),
        ],
        className="compare-controls",
    )
    tabs = [dmc.TabsTab(f"{title}{counts[name]}", value=name) for name, title in TAB_TITLES.items()]
    return parts.panel(
        "Differences",
        [
            dmc.Tabs(dmc.TabsList(tabs), id="compare-tab", value=asked.tab),
            html.Div(id="compare-content", className="compare-content"),
        ],
        hint="What is not alike in all runs, the largest first. Ops and storages are aligned by what they are.",
        tools=controls,
    )


def _too_few(state: State, ids: list[int]) -> Any:
    if len(offered(state, "")) < 2:
        return parts.state(
            "compare",
            "There are not two runs to compare",
            "The demo records several within two minutes; tuning a run makes another one.",
            parts.command("hyperoffload demo"),
            parts.link_button("All runs", "/", "runs", "filled"),
        )
    what = "one more run" if ids else "two runs or more"
    return parts.state(
        "compare",
        f"Choose {what}",
        "Add runs above, or tick them in the list of runs. Predicted and measured runs compare with each other.",
        parts.link_button("All runs", "/", "runs", "filled"),
    )


def _legend(compared: Compared) -> Any:
    keys = [
        html.Span(
            [
                html.I(
                    className="key",
                    style={"borderColor": colour_of(i), "borderTopStyle": _css_dash(theme.RUN_DASHES[i])},
                ),
                f"{name} ({view.kind})",
            ]
        )
        for i, (name, view) in enumerate(zip(compared.names, compared.views, strict=True))
    ]
    return html.Div(keys, className="legend")


def _css_dash(dash_name: str) -> str:
    return {"solid": "solid", "dot": "dotted"}.get(dash_name, "dashed")
