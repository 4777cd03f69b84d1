"""The rows of the list of runs: the first come with the page, the others block by block as the grid asks for them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, dcc
from dash import State as Given

from app.dashboard import parts
from app.dashboard.state import State
from app.dashboard.views.runs import SHOWN, SORTED_BY, RunsAsked, run_filter, run_rows, runs_asked_for
from db.queries import count_runs, list_runs
from db.run_filter import SearchError


@dataclass(frozen=True)
class Rows:
    """A block of rows; how many there are in all, in a number and in words; what stands in their place where there are
    none; what is wrong with the search."""

    rows: list[dict[str, Any]]
    total: int
    words: str
    none: Any = None
    wrong: str | None = None

    @property
    def answer(self) -> dict[str, Any]:
        """What the grid takes."""
        return {"rowData": self.rows, "rowCount": self.total}


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("runs-grid", "getRowsResponse"),
        Output("runs-count", "children"),
        Output("runs-search", "error"),
        Output("runs-table", "style"),
        Output("runs-none", "children"),
        Input("runs-wanted", "data"),
        Given("runs-asked", "data"),
        prevent_initial_call=True,
    )
    def block(request: dict[str, Any] | None, data: dict[str, str]) -> Any:
        if request is None:
            return [dash.no_update] * 5
        asked = _sorted_as(runs_asked_for(data), request.get("sortModel"))
        got = rows(shared, asked, int(request["startRow"]), int(request["endRow"]))
        return got.answer, got.words, got.wrong, {"--rows": got.total}, got.none

    app.clientside_callback(
        ClientsideFunction("runs", "rows"),
        Output("runs-grid", "getRowsResponse", allow_duplicate=True),
        Output("runs-wanted", "data"),
        Output("runs-first", "data"),
        Input("runs-grid", "getRowsRequest"),
        Given("runs-first", "data"),
        Given("runs-asked", "data"),
        prevent_initial_call=True,
    )


def rows(state: State, asked: RunsAsked, start: int, end: int) -> Rows:
    """Rows ``start`` to ``end`` (exclusive) of the runs asked for."""
    where = run_filter(asked)
    try:
        total = count_runs(state.database, where)
    except SearchError as error:
        return Rows([], 0, "", _no_match(asked, "", misread=True), str(error))
    column = SORTED_BY[asked.sort.removeprefix("-")]
    found = list_runs(state.database, where, column, asked.sort.startswith("-"), limit=end - start, offset=start)
    words = f"{total:,} run{'s' if total != 1 else ''}"
    return Rows(run_rows(found), total, words, None if total else _no_match(asked, _elsewhere(state, asked)))


def stores(asked: RunsAsked, first: Rows) -> list[dcc.Store]:
    """The rows that came with the page, and which the grid wants next (assets/runs.js)."""
    return [
        dcc.Store(id="runs-first", data={"asked": asdict(asked), "rows": first.answer}),
        dcc.Store(id="runs-wanted"),
    ]


def _sorted_as(asked: RunsAsked, model: list[dict[str, str]] | None) -> RunsAsked:
    """As the grid's headings say; a heading that is no longer sorted by means the newest first."""
    if not model or model[0].get("colId") not in SORTED_BY:
        return replace(asked, sort="-created")
    return replace(asked, sort=("-" if model[0]["sort"] == "desc" else "") + model[0]["colId"])


def _elsewhere(state: State, asked: RunsAsked) -> str:
    """Where matching runs are when the part of the list asked for holds none."""
    found = [(show, count_runs(state.database, run_filter(replace(asked, show=show)))) for show in SHOWN]
    there = [f"{count:,} {show}" for show, count in found if count and show != asked.show]
    return f"There are {' and '.join(there)}." if there else ""


def _no_match(asked: RunsAsked, elsewhere: str, misread: bool = False) -> Any:
    if not asked.filtered:
        return parts.state("empty", f"No {asked.show} run", elsewhere or "Nothing is here.")
    button = parts.button("Clear the filter", {"type": "runs-clear", "at": "none"}, "close")
    if misread:
        return parts.state("warning", "The search is not understood", "What is wrong stands below its field.", button)
    return parts.state(
        "zoom", f"No {asked.show} run matches", elsewhere or "Try fewer words, or another field.", button
    )
