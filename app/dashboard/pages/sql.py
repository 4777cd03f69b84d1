"""SQL: a person's own questions to the database, which cannot change it; answers as table, plot and file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import asdict
from typing import Any

import dash
from dash import ALL, ClientsideFunction, Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.pages import sql_schema
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.sql_parts import before, editor, result, saved_choices, wrong
from app.dashboard.state import State, current_state
from app.dashboard.views.sql import (
    SqlAsked,
    plot_choice,
    plot_figure,
    plot_named,
    sql_asked_for,
)
from app.querying import answer_csv, ask
from db.database import DatabaseError
from db.reading import Answer, QueryError
from db.saved_queries import delete_query, find_query, save_query

MOST_AT_ONCE = 3
KEPT_ANSWERS = 6
MOST_ROWS_IN_DOWNLOAD = 200_000
FIRST_QUERY = "Runs by strategy"
PLOT = ("kind", "x", "y", "by")


class _Answers:
    """Answers given last, so that a plot is drawn from the rows that the table shows, and not asked for again."""

    def __init__(self, shared: State) -> None:
        self._shared = shared
        self._kept: OrderedDict[tuple[str, str], Answer] = OrderedDict()
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_AT_ONCE)

    def get(self, sql: str, run: str, again: bool) -> Answer:
        """Raises `QueryError`, `DatabaseError`."""
        with self._lock:
            if not again and (sql, run) in self._kept:
                return self._kept[sql, run]
        answer = self.ask(sql, run)
        with self._lock:
            self._kept[sql, run] = answer
            while len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)
        return answer

    def ask(self, sql: str, run: str, **bounds: int) -> Answer:
        if not self._places.acquire(timeout=1):
            raise QueryError(f"{MOST_AT_ONCE} queries are running; wait until one has ended")
        try:
            return ask(self._shared.database, sql, run, **bounds)
        finally:
            self._places.release()


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path="/sql", title="SQL · HyperOffload", layout=guarded(layout))
    answers = _Answers(shared)
    text, run = Given("sql-text", "value"), Given("sql-run-name", "value")

    @app.callback(
        Output("sql-result", "children"),
        Output("sql-drawn", "data"),
        Input("sql-asked", "data"),
    )
    def answer(asked: dict[str, str]) -> Any:
        sql = asked.get("q", "")
        if not sql.strip():
            return before(), None
        try:
            found = answers.get(sql, asked.get("run", ""), again=True)
        except (QueryError, DatabaseError) as error:
            return wrong(error, sql), None
        choice = plot_choice(found, asked)
        return result(found, choice), None if choice is None else dash.no_update

    @app.callback(
        Output("sql-plot", "figure"),
        Output("sql-plot-cut", "children"),
        Output("sql-drawn", "data", allow_duplicate=True),
        *(Input(f"sql-{name}", "value") for name in PLOT),
        Given("sql-asked", "data"),
        prevent_initial_call="initial_duplicate",
    )
    def draw(kind: str, x: str, y: str, by: str | None, asked: dict[str, str]) -> Any:
        try:
            found = answers.get(asked.get("q", ""), asked.get("run", ""), again=False)
        except (QueryError, DatabaseError):
            return [dash.no_update] * 3
        drawn = plot_named(found, kind, {"x": x, "y": y, "by": by})
        choice = plot_choice(found, drawn)
        return (*plot_figure(found, choice), drawn) if choice is not None else [dash.no_update] * 3

    @app.callback(
        Output("sql-text", "value"),
        Output("sql-asked", "data"),
        Output("sql-forget", "disabled"),
        Input("sql-saved", "value"),
        run,
        prevent_initial_call=True,
    )
    def choose(name: str | None, run_name: str | None) -> Any:
        if not name:
            return dash.no_update, dash.no_update, True
        query = find_query(shared.database, name)
        asked = SqlAsked(q=query.sql, saved=query.name, run=run_name or "", **_plot_of(query.plot))
        return query.sql, asdict(asked), query.built_in

    @app.callback(
        Output("sql-download", "data"),
        Output("sql-told", "children"),
        Input("sql-csv", "n_clicks"),
        Given("sql-asked", "data"),
        prevent_initial_call=True,
    )
    def download(clicks: int | None, asked: dict[str, str]) -> Any:
        if not clicks:
            return dash.no_update, dash.no_update
        try:
            found = answers.ask(asked.get("q", ""), asked.get("run", ""), most_rows=MOST_ROWS_IN_DOWNLOAD)
        except (QueryError, DatabaseError) as error:
            return dash.no_update, parts.notice("bad", str(error), "alert")
        told = parts.notice("warn", f"{found.cut} `hyperoffload sql --csv` writes more.") if found.cut else None
        return dcc.send_string(answer_csv(found), f"{asked.get('saved') or 'query'}.csv".replace("/", "-")), told

    @app.callback(
        Output("sql-save-box", "opened"),
        Output("sql-save-error", "children"),
        Output("sql-saved", "data"),
        Output("sql-saved", "value"),
        Input("sql-save", "n_clicks"),
        Input("sql-forget", "n_clicks"),
        Given("sql-save-name", "value"),
        Given("sql-saved", "value"),
        text,
        Given("sql-drawn", "data"),
        prevent_initial_call=True,
    )
    def keep(save: int | None, forget: int | None, name: str, chosen: str | None, sql: str, plot: Any) -> Any:
        if not save and not forget:
            return [dash.no_update] * 4
        try:
            if ctx.triggered_id == "sql-forget":
                delete_query(shared.database, chosen or "")
                return dash.no_update, None, saved_choices(shared), None
            saved = save_query(shared.database, name or "", sql or "", plot)
        except DatabaseError as error:
            return dash.no_update, parts.notice("bad", str(error), "alert"), dash.no_update, dash.no_update
        return False, None, saved_choices(shared), saved.name

    app.clientside_callback(
        ClientsideFunction("sql", "run"),
        Output("sql-asked", "data", allow_duplicate=True),
        Output("sql-saved", "value", allow_duplicate=True),
        Input("sql-run", "n_clicks"),
        Input({"sql-rows": ALL}, "n_clicks"),
        text,
        run,
        Given("sql-asked", "data"),
        Given("sql-saved", "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("sql", "remember"),
        Input("sql-asked", "data"),
        Input("sql-drawn", "data"),
        Input("sql-saved", "value"),
        prevent_initial_call=True,
    )


def layout(**query: str) -> Any:
    state = current_state()
    asked = sql_asked_for(query)
    missing = None
    if asked.saved or not asked.q:
        try:
            named = find_query(state.database, asked.saved or FIRST_QUERY)
            drawn = _plot_of(named.plot) | {k: v for k, v in asdict(asked).items() if k in PLOT and v}
            asked = SqlAsked(q=asked.q or named.sql, saved=named.name, run=asked.run, **drawn)
        except DatabaseError as error:
            missing = parts.notice("warn", str(error), "alert")
    return html.Div(
        [
            parts.head("SQL", "Ask the database directly. Queries only read: nothing written here can change it."),
            missing,
            html.Div(
                [
                    html.Div(
                        [
                            editor(state, asked),
                            html.Div(id="sql-told"),
                            dcc.Loading(html.Div(id="sql-result", **{"aria-live": "polite"}), delay_show=400),
                        ],
                        className="stack",
                    ),
                    sql_schema.panel(),
                ],
                className="columns sql",
            ),
            dcc.Store(id="sql-asked", data=asdict(asked)),
            dcc.Store(id="sql-drawn"),
            dcc.Download(id="sql-download"),
        ]
    )


def _plot_of(plot: Any) -> dict[str, str]:
    return {name: str(plot[name]) for name in PLOT if plot.get(name)}
