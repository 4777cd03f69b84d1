"""The SQL page shows answers as table and plot, says where a query is wrong, and keeps queries; all of it as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dash
import pytest
from callbacks import call
from dashboard_example import example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder

from app.dashboard.factory import create_app
from app.dashboard.pages import sql
from app.dashboard.pages.policy_editor import name_fields
from app.dashboard.pages.sql_parts import saved_choices
from app.dashboard.state import current_state
from app.dashboard.views.policy import Draft
from app.dashboard.views.sql import (
    MOST_BARS,
    ONE_SERIES,
    PlotChoice,
    SqlAsked,
    place_shown,
    plot_choice,
    plot_figure,
    plot_named,
    sql_asked_for,
    table_columns,
    table_rows,
)
from db.database import open_database
from db.reading import Answer
from db.recordings import RunDescription, record_profile
from db.saved_queries import BUILT_IN, save_query
from profiles.plain import visible

HOSTILE = "<img src=x onerror=alert(1)>"
OPS = Answer(
    ("id", "name", "kind", "mean_ns", "bytes"),
    [(1, HOSTILE, "a", 2_000_000, 1 << 31), (2, "add", "b", 500_000, 1 << 30), (3, "add", "a", None, None)],
    0,
)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[dash.Dash]:
    opened = open_database(tmp_path / "runs.db")
    schedule = example_schedule()
    record_profile(opened, RunDescription("predicted", schedule, HOSTILE), example_profile(schedule))
    opened.close()
    made = create_app(tmp_path / "runs.db")
    yield made
    made.server.config["HYPEROFFLOAD"].database.close()


def answered(app: dash.Dash, **asked: str) -> dict[str, Any]:
    return call(app, "sql-asked.data", {"sql-asked.data": asked}, "sql-result")


def shown(app: dash.Dash, **query: str) -> str:
    with app.server.app_context():
        return json.dumps(sql.layout(**query), cls=PlotlyJSONEncoder)


def test_the_address_asks() -> None:
    assert sql_asked_for({"q": "SELECT 1", "x": "a", "more": "b"}) == SqlAsked(q="SELECT 1", x="a")


def test_columns_are_formatted_by_what_they_hold() -> None:
    formats = [column.get("valueFormatter", {}).get("function") for column in table_columns(OPS)]
    assert formats == [None, None, None, "time(params.value)", "bytes(params.value)"]
    assert table_rows(OPS)[0] == {"c0": 1, "c1": HOSTILE, "c2": "a", "c3": 2_000_000, "c4": 1 << 31}


def test_values_that_a_browser_cannot_hold_are_texts() -> None:
    answer = Answer(("a",), [(2**60,), (float("inf"),), (b"abc",), ("x" * 5000,), (None,)], 0)
    assert [row["c0"] for row in table_rows(answer)][:3] == [str(2**60), "inf", "<3 bytes>"]
    assert len(table_rows(answer)[3]["c0"]) == 2001


def test_a_column_of_numbers_and_words_shows_both(app: dash.Dash) -> None:
    page = json.dumps(answered(app, q="SELECT 1 AS x UNION ALL SELECT 'b'"))
    # A type guessed from the first value makes ag-grid call the others invalid.
    assert '"cellDataType": false' in page
    assert [row["c0"] for row in table_rows(Answer(("x",), [(1,), ("b",)], 0))] == [1, "b"]


def test_no_text_of_an_answer_turns_the_direction_of_writing() -> None:
    answer = Answer(("\u202ename",), [("\u202eexe.txt\x07\nnext",)], 0)
    assert table_rows(answer)[0]["c0"] == "\ufffdexe.txt\ufffd\nnext"
    assert table_columns(answer)[0]["headerName"] == "\ufffdname"


def test_a_plot_suggests_itself() -> None:
    assert plot_choice(OPS, {}) == PlotChoice("bar", 1, 3, 2)
    assert plot_choice(OPS, {"by": ONE_SERIES}) == PlotChoice("bar", 1, 3, None)
    assert plot_choice(OPS, {"kind": "scatter", "x": "bytes", "y": "mean_ns"}) == PlotChoice("scatter", 4, 3, None)
    assert plot_choice(OPS, {"kind": "pie", "x": "no", "y": "name"}) == PlotChoice("bar", 1, 3, 2)
    assert plot_choice(Answer(("name",), [("a",)], 0), {}) is None
    assert plot_choice(Answer(("n",), [], 0), {}) is None
    assert plot_named(OPS, "bar", {"x": "1", "y": "3", "by": None}) == {
        "kind": "bar",
        "by": "-",
        "x": "name",
        "y": "mean_ns",
    }


def test_a_plot_is_drawn_in_units_people_read_and_names_are_text() -> None:
    figure, cut = plot_figure(OPS, PlotChoice("bar", 1, 3))
    assert cut == ""
    assert figure["data"][0]["y"] == [2.0, 0.5]
    assert figure["data"][0]["x"] == ["&lt;img src=x onerror=alert(1)&gt;", "add"]
    assert figure["layout"]["yaxis"]["title"]["text"] == "mean_ns (ms)"
    points, _ = plot_figure(OPS, PlotChoice("scatter", 4, 3, 2))
    assert [(trace["name"], trace["x"]) for trace in points["data"]] == [("a", [2.0]), ("b", [1.0])]
    assert points["layout"]["xaxis"]["title"]["text"] == "bytes (GiB)"


def test_equal_names_do_not_hide_each_other_and_what_is_left_out_is_said() -> None:
    many = Answer(("name", "n", "group"), [("same", i, f"g{i}") for i in range(MOST_BARS + 5)], 0)
    figure, cut = plot_figure(many, PlotChoice("bar", 0, 1))
    assert figure["data"][0]["x"][:3] == ["same", "same (2)", "same (3)"]
    assert len(figure["data"][0]["x"]) == MOST_BARS
    assert cut == "Only the first 200 rows are drawn."
    figure, cut = plot_figure(many, PlotChoice("line", 0, 1, 2))
    assert len(figure["data"]) == 8
    assert "197 more values of group are not drawn" in cut


def test_the_place_of_a_mistake_is_marked() -> None:
    assert place_shown("SELECT\n\tx FROM", 2, 2) == " x FROM\n ^"
    assert place_shown("SELECT x", None, None) == ""
    assert place_shown("SELECT (1", 1, 10).endswith("\n         ^")
    line, mark = place_shown("x" * 500, 1, 400).split("\n")
    assert len(line) <= 120 and len(mark) <= 61


def test_an_answer_is_a_table_and_a_plot(app: dash.Dash) -> None:
    answer = answered(app, q="SELECT name, bytes FROM graph_storage ORDER BY bytes DESC LIMIT 3")
    page = json.dumps(answer["sql-result.children"])
    assert "3 rows in" in page and "sql-plot" in page and "layer0.adam" in page
    assert "No row matches" in json.dumps(answered(app, q="SELECT 1 WHERE 0"))


def test_what_is_wrong_stands_where_the_answer_would(app: dash.Dash) -> None:
    answer = answered(app, q="SELECT name\nFROM graph_storag")
    page = json.dumps(answer["sql-result.children"])
    assert "no such table: graph_storag (line 2, column 6)" in page
    assert "FROM graph_storag\\n     ^" in page
    assert answer["sql-drawn.data"] is None
    assert "DROP is refused" in json.dumps(answered(app, q="DROP TABLE run"))
    assert "there is no run 77" in json.dumps(answered(app, q="SELECT :run", run="77"))
    assert "Nothing asked yet" in json.dumps(answered(app, q=" "))


def test_a_plot_is_drawn_from_the_rows_that_the_table_shows(app: dash.Dash) -> None:
    query = "SELECT name, abs(random() % 1000) AS chance FROM graph_storage LIMIT 4"
    rows = json.dumps(answered(app, q=query)["sql-result.children"])
    chosen = {"sql-kind.value": "bar", "sql-x.value": "0", "sql-y.value": "1", "sql-by.value": None}
    drawn = call(app, "sql-y.value", chosen | {"sql-asked.data": {"q": query}})
    (bars,) = drawn["sql-plot.figure"]["data"]
    assert [f'"c1": {int(y)}' in rows for y in bars["y"]] == [True] * 4
    assert next(value for name, value in drawn.items() if name.startswith("sql-drawn"))["y"] == "chance"


def test_queries_are_saved_chosen_and_deleted(app: dash.Dash) -> None:
    saved = {"sql-save.n_clicks": 1, "sql-save-name.value": HOSTILE, "sql-text.value": "SELECT 1 AS one"}
    plot = {"sql-drawn.data": {"kind": "bar", "x": "one", "y": "one", "by": "-"}}
    kept = call(app, "sql-save.n_clicks", saved | plot)
    assert kept["sql-saved.value"] == HOSTILE
    chosen = call(app, "sql-saved.value", {"sql-saved.value": HOSTILE}, "sql-text")
    assert chosen["sql-text.value"] == "SELECT 1 AS one"
    asked = next(value for name, value in chosen.items() if name.startswith("sql-asked"))
    assert (asked["kind"], asked["x"], asked["by"]) == ("bar", "one", "-")
    assert HOSTILE in shown(app, saved=HOSTILE)
    refused = call(app, "sql-save.n_clicks", saved | {"sql-save-name.value": BUILT_IN[0].name})
    assert "is built in; choose another name" in json.dumps(refused)
    call(app, "sql-forget.n_clicks", {"sql-forget.n_clicks": 1, "sql-saved.value": HOSTILE})
    assert "there is no saved query" in shown(app, saved=HOSTILE)


def test_names_to_choose_from_obey_nothing_and_still_choose_the_whole(app: dash.Dash) -> None:
    name = "\u202eexe" + "n" * 90
    save_query(app.server.config["HYPEROFFLOAD"].database, name, "SELECT 1")
    with app.server.app_context():
        (group, *_) = saved_choices(current_state())
    assert group["items"] == [{"value": name, "label": visible(name, 80)}]
    fields = json.dumps(name_fields(Draft(name="p"), [name]), cls=PlotlyJSONEncoder, ensure_ascii=False)
    assert f'"label": "{visible(name, 80)}"' in fields and f'"value": "saved:{name}"' in fields


def test_the_download_holds_every_row(app: dash.Dash) -> None:
    asked = {"sql-csv.n_clicks": 1, "sql-asked.data": {"q": "SELECT name FROM graph_op", "saved": "a/b"}}
    sent = call(app, "sql-csv.n_clicks", asked)["sql-download.data"]
    assert sent["filename"] == "a-b.csv"
    assert len(sent["content"].splitlines()) == 1 + len(example_schedule().graph.ops)


def test_every_table_is_explained_beside_the_query(app: dash.Dash) -> None:
    page = shown(app)
    assert "One stay of a storage on the device" in page
    assert BUILT_IN[0].name in page
