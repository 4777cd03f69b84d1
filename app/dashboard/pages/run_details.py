"""Details of the op, transfer or storage that was picked: what it is, why, what would help, its place in the graph."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.frozen import frozen
from app.dashboard.pages.run_links import ask, lead, tune_link
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.pages.run_stalls import refused, remedy_words
from app.dashboard.state import State
from app.dashboard.views import neighbours, pointing
from app.dashboard.views.answers import AnswerView, answer_view
from app.dashboard.views.clipping import clipped
from app.dashboard.views.details import Details, Link, details
from app.dashboard.views.transfers import window_around
from app.dashboard.views.why import Why, why
from app.explaining import ask as answered
from db.queries import get_run, load_profile
from hyperoffload_core.errors import UserError
from hyperoffload_core.explain.questions import FORMS, QuestionError, parse_question
from hyperoffload_core.ir import Graph

KEPT_ANSWERS = 64


def panel() -> Any:
    """Head and facts, then what takes longer: the explanation, answers, and the graph around it."""
    wait = {"delay_show": 300, "overlay_style": {"visibility": "visible", "opacity": 0.85}}
    question = dmc.TextInput(
        id="run-question",
        placeholder="Ask: link x2, limit 70%, keep NAME …",
        size="xs",
        debounce=True,
        **{"aria-label": f"What if? One of: {', '.join(FORMS)}"},
    )
    return html.Section(
        [
            dcc.Store(id="run-ask"),
            html.Div(blank_details(), id="run-details-what"),
            dcc.Loading(html.Div(id="run-details-why"), **wait),
            html.Div(question, className="question"),
            dcc.Loading(html.Div(id="run-answer", role="status"), **wait),
            html.Div(id="run-details-graph"),
            html.Div(id="run-picked-bar", className="picked-bar", hidden=True),
        ],
        id="run-details",
        className="panel explained-side",
        **{"aria-live": "polite"},
    )


def register(app: dash.Dash, shared: State) -> None:
    @lru_cache(maxsize=KEPT_ANSWERS)
    def answer(run_id: int, step: int, predicted: bool, question: str, _schedule_hash: str) -> AnswerView:
        if predicted:
            return answer_view(answered(shared.prediction(run_id).profile, None, question))
        # Every step of it: what is compiled again takes medians over them.
        return answer_view(answered(load_profile(shared.database, run_id), step, question))

    @app.callback(
        Output("run-details-what", "children"),
        Output("run-details-graph", "children"),
        Output("run-picked-bar", "children"),
        Input("run-picked", "data"),
        RUN,
        SHOW,
    )
    def show_details(picked: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        if not picked:
            return dash.no_update, dash.no_update, dash.no_update
        shown = shown_timeline(shared, run, show)
        found = details(shown.main, picked["kind"], picked["id"])
        if found is None:
            return blank_details(f"This step has no {picked['kind']} {picked['id']}."), None, []
        graph = neighbourhood_chart(shown.main.profile.schedule.graph, found)
        kind, identity = found.graph_place
        way = dcc.Link("More of it in the graph", href=f"/graph/{run['id']}?{kind}={identity}", className="graph-open")
        # What the page opens with was picked by nobody: nothing lies over the chart for it.
        chosen = ctx.triggered_id is not None or picked != run["picked"]
        return frozen(details_panel(found, shown.end_ns)), [graph, way], picked_bar(found) if chosen else []

    @app.callback(
        Output("run-details-why", "children"),
        Input("run-picked", "data"),
        Input("run-show", "value"),
        RUN,
    )
    def show_why(picked: dict[str, Any] | None, show: str, run: dict[str, Any]) -> Any:
        if not picked:
            return None
        view = shown_timeline(shared, run, show).main
        if too_many := refused(view, run["id"]):
            return too_many
        if details(view, picked["kind"], picked["id"]) is None:
            return None
        found = why(view.explanation, picked["kind"], picked["id"])
        return why_block(found, (picked["kind"], picked["id"]), run["id"])

    @app.callback(
        Output("run-ask", "data", allow_duplicate=True),
        Output("run-question", "error"),
        Input("run-question", "value"),
        prevent_initial_call=True,
    )
    def ask_own(text: str | None) -> Any:
        if not (text or "").strip():
            return dash.no_update, None
        try:
            parse_question(text or "")
        except QuestionError as error:
            return dash.no_update, str(error)
        return {"question": text, "about": ""}, None

    @app.callback(
        Output("run-answer", "children"),
        Input("run-ask", "data"),
        Given("run-picked", "data"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def show_answer(asked: dict[str, Any] | None, _: Any, run: dict[str, Any], show: str) -> Any:
        if not asked:
            return None
        schedule = get_run(shared.database, run["id"]).schedule_hash
        predicted = show == "predicted" and run["kind"] == "measured"
        try:
            found = answer(run["id"], run["step"], predicted, asked["question"], schedule)
        except UserError as error:
            return parts.notice("bad", str(error), "alert")
        return answer_block(found, run["id"])

    @app.callback(
        Output("run-picked", "data", allow_duplicate=True),
        Input({"neighbours": ALL}, "clickData"),
        prevent_initial_call=True,
    )
    def pick(nodes: list[dict[str, Any] | None]) -> Any:
        op = pointing.clicked_node(nodes)
        return dash.no_update if op is None else {"kind": "op", "id": op}


def blank_details(
    text: str = "Click an op, a transfer or a storage to see what it is and why it is there.",
) -> list[Any]:
    return [html.Div(html.H2("Details"), className="panel-head"), html.Div(text, className="quiet")]


def details_panel(found: Details, end_ns: int) -> list[Any]:
    zoom = lead("Zoom to it", target=window_around(found.span, end_ns)) if found.span else None
    title = html.H2(clipped(found.title, 300), title=clipped(found.title, 2000))
    return [
        html.Div([html.Div([title, html.Div(found.subtitle, className="hint")]), zoom], className="panel-head"),
        parts.facts([(label, _words(words)) for label, words in found.facts]),
    ]


def picked_bar(found: Details) -> list[Any]:
    """What is picked in one line, with the way to its details."""
    facts = [w for label, words in found.facts if label in ("Time", "On the device") for w in words[:1]]
    words = " · ".join([found.subtitle, *(w for w in facts if isinstance(w, str))])
    button = html.Button("Details", className="ask", type="button", **{"data-show": "run-details"})
    return [html.Span([html.B(clipped(found.title)), " ", words]), button]


REMEDY_ORDER = {
    True: "First what needs neither more memory nor another link.",
    False: "The largest gain first.",
}


def why_block(found: Why, pick: tuple[str, int], run_id: int) -> list[Any]:
    """Why it is as it is, what would help with the predicted gain, and buttons that ask or change the policy."""
    block: list[Any] = [html.H3("Why"), html.P(found.text, className="explained")]
    if found.remedies:
        block.append(html.H3("What would help"))
        if len(found.remedies) > 1:
            block.append(html.Div(REMEDY_ORDER[found.remedies[0].free], className="hint"))
        block.append(html.Ul([html.Li(remedy_words(r, pick)) for r in found.remedies], className="remedies"))
    questions = [ask(text, question, pick) for text, question in found.questions]
    rules = []
    if found.storage is not None:
        rules = [
            tune_link("Pin: keep", run_id, "keep", found.storage),
            tune_link("Offload", run_id, "offload", found.storage),
        ]
    if questions:
        block += [html.H3("What if"), html.Div(questions, className="asks")]
    if rules:
        block += [html.H3("Make it a rule"), html.Div(rules, className="asks")]
    return block


def answer_block(found: AnswerView, run_id: int) -> Any:
    table = None
    if found.rows:
        head = html.Tr([html.Th(), *(html.Th(c, className="num") for c in found.columns)])
        rows = [html.Tr([html.Th(q), *(html.Td(v, className="num") for v in values)]) for q, values in found.rows]
        table = html.Table([html.Thead(head), html.Tbody(rows)], className="plain numbers")
    rule = tune_link("Make it a rule", run_id, "keep", found.keep) if found.keep and found.rows else None
    return html.Div([html.B(found.title), html.P(found.text), table, rule], className=f"answer notice-{found.tone}")


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


def _words(words: tuple[Any, ...]) -> Any:
    cells: list[Any] = []
    for number, word in enumerate(words):
        if number:
            cells.append(html.Br() if isinstance(word, Link) or isinstance(words[number - 1], Link) else " ")
        cells.append(lead(word.text, (word.kind, word.id)) if isinstance(word, Link) else word)
    return cells
