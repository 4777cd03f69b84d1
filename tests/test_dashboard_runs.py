"""The list of runs asks for the rows it shows, filters and sorts them in the database, and can undo what it does."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dash
import pytest
from callbacks import call
from dashboard_example import example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder
from sqlalchemy import update

from app.cli.demo import demo
from app.dashboard.factory import create_app
from app.dashboard.pages import graph, run, runs, tune
from app.dashboard.pages.run_notice import run_notice, run_title
from app.dashboard.pages.runs import BLOCK_ROWS, LONGEST_CHOICE
from app.dashboard.views.runs import RunsAsked, common_tags, run_filter, runs_asked_for, runs_named
from app.demo import DEMO_LIMIT, DEMO_LINK, DEMO_STEPS, demo_request
from app.jobs import cancel_job, job_view
from db.curation import RunWords, delete_runs, name_run, note_runs, tag_runs, words_of
from db.database import Database, open_database
from db.models import Run, utc_now
from db.queries import RunFilter, get_run, list_runs
from db.recordings import RunDescription, fail_run, record_profile, start_run

ARCHIVE, DELETE, RESTORE = (f'{{"runs-do":"{name}"}}.n_clicks' for name in ("archive", "delete", "restore"))


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Run 1 measured, 2 predicted with a name, 3 failed without a step."""
    opened = open_database(tmp_path / "runs.db")
    schedule = example_schedule()
    measured = RunDescription("measured", schedule, "example")
    record_profile(opened, measured, example_profile(schedule, "measured", 2))
    record_profile(
        opened, RunDescription("predicted", schedule, "example", label="<b>"), example_profile(schedule, stretch=0.5)
    )
    fail_run(opened, start_run(opened, measured), "the worker was killed by signal 9")
    return opened


@pytest.fixture
def app(database: Database) -> Iterator[dash.Dash]:
    made = create_app(database.path)
    yield made
    made.server.config["HYPEROFFLOAD"].database.close()


def block(app: dash.Dash, start: int = 0, sort: tuple[str, str] | None = None, **asked: str) -> dict[str, Any]:
    sorted_by = [{"colId": sort[0], "sort": sort[1]}] if sort else []
    request = {"startRow": start, "endRow": start + BLOCK_ROWS, "sortModel": sorted_by}
    return call(app, "runs-wanted.data", {"runs-wanted.data": request, "runs-asked.data": asked})


def ids(answer: dict[str, Any]) -> list[int]:
    return [row["id"] for row in answer["runs-grid.getRowsResponse"]["rowData"]]


def shown(app: dash.Dash, layout: Any, **query: str) -> str:
    with app.server.app_context():
        return json.dumps(layout(**query), cls=PlotlyJSONEncoder)


def test_the_address_says_what_is_shown_and_what_is_wrong_in_it_is_left_out() -> None:
    asked = runs_asked_for({"q": "tag:x", "kind": "measured", "show": "archived", "sort": "step_ns", "utm": "1"})
    assert asked == RunsAsked(q="tag:x", kind="measured", show="archived", sort="step_ns")
    assert runs_asked_for({"show": "all", "sort": "-speed"}) == RunsAsked()
    assert run_filter(asked) == RunFilter(search="tag:x", kind="measured", archived=True)
    assert run_filter(RunsAsked(show="deleted")) == RunFilter(deleted=True)
    assert run_filter(RunsAsked()) == RunFilter(archived=False)


def test_rows_come_filtered_and_sorted(app: dash.Dash) -> None:
    assert ids(block(app)) == [3, 2, 1]
    assert ids(block(app, sort=("step_ns", "asc"))) == [2, 1, 3]
    assert ids(block(app, q="measured -status:failed")) == [1]
    assert ids(block(app, kind="predicted")) == [2]
    failed = block(app)["runs-grid.getRowsResponse"]["rowData"][0]
    assert (failed["status"], failed["reason"], failed["step_ns"]) == (
        "failed",
        "the worker was killed by signal 9",
        None,
    )


def test_no_match_and_a_search_that_means_nothing_say_so(app: dash.Dash) -> None:
    none = block(app, q="nowhere")
    assert none["runs-count.children"] == "0 runs"
    assert "No current run matches" in json.dumps(none["runs-none.children"])
    wrong = block(app, q="speed>3")
    assert wrong["runs-search.error"].startswith("'speed' is no field of a run")
    assert "The search is not understood" in json.dumps(wrong["runs-none.children"])
    assert "There are 3 current" in json.dumps(block(app, show="archived")["runs-none.children"])


def test_archiving_and_deleting_are_undone(app: dash.Dash) -> None:
    ticked = {"runs-grid.selectedRows": [{"id": 1}, {"id": 2}]}
    for button, words in ((ARCHIVE, "Archived runs 1 and 2."), (DELETE, "Deleted runs 1 and 2.")):
        done = call(app, button, ticked | {button: 1}, "runs-told")
        told = next(value for name, value in done.items() if name.startswith("runs-told"))
        assert told.startswith(words)
        assert ids(block(app)) == [3]
        undoable = next(value for name, value in done.items() if name.startswith("runs-undoable"))
        call(app, "runs-undo.n_clicks", {"runs-undo.n_clicks": 1, "runs-undoable.data": undoable}, "runs-told")
        assert ids(block(app)) == [3, 2, 1]


def test_a_deleted_run_is_in_its_list_and_its_page_says_so(app: dash.Dash, database: Database) -> None:
    delete_runs(database, [2])
    assert ids(block(app, show="deleted")) == [2]
    for layout in (run.layout, graph.layout, tune.layout):
        page = shown(app, layout, run_id="2")
        assert "Run 2 was deleted" in page and "Restore it" in page
        assert not re.search('"(run-timeline|graph-drawing|tune-compile)"', page)
    call(app, RESTORE, {RESTORE: 1, "runs-grid.selectedRows": [{"id": 2}]}, "runs-told")
    assert "was deleted" not in shown(app, run.layout, run_id="2")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("running", "This run is being recorded; reload the page"),
        ("incomplete", "This run is incomplete: the disk is full. What it recorded before is shown."),
        ("failed", "This run failed: the disk is full."),
        ("cancelled", "This run was cancelled: the disk is full."),
    ],
)
def test_every_page_of_a_run_that_is_not_whole_says_so(
    app: dash.Dash, database: Database, status: str, words: str
) -> None:
    alive = {"pid": os.getpid(), "heartbeat": utc_now()} if status == "running" else {}
    with database.write() as connection:
        connection.execute(update(Run).where(Run.id == 1).values(status=status, reason="the disk is full", **alive))
    for layout in (run.layout, graph.layout, tune.layout):
        assert words in shown(app, layout, run_id="1")


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        ("failed", "The limit is below the largest op.", "failed: The limit is below the largest op."),
        ("cancelled", "cancelled by the user", "This run was cancelled by the user."),
        ("failed", "", "failed: no reason was recorded."),
        ("failed", "\u202ex" * 5000, "…"),
    ],
)
def test_a_reason_is_the_end_of_one_sentence_whoever_wrote_it(
    database: Database, status: str, reason: str, words: str
) -> None:
    notice = run_notice(replace(get_run(database, 1), status=status, reason=reason))
    said = json.dumps(notice, cls=PlotlyJSONEncoder, ensure_ascii=False)
    assert words in said and ".." not in said and "\u202e" not in said and len(said) < 3_000


def test_choices_of_the_filters_are_cut_and_still_choose_the_whole(app: dash.Dash, database: Database) -> None:
    tag = "\u202e" + "t" * 5_000
    with database.write() as connection:
        connection.execute(update(Run).where(Run.id == 1).values(tags=[tag]))
    choices = [c for c in re.findall(r'\{"value": "[^"]*", "label": "[^"]*"\}', shown(app, runs.layout)) if "ttt" in c]
    (choice,) = map(json.loads, choices)
    assert choice["value"] == tag and len(choice["label"]) <= LONGEST_CHOICE and "\u202e" not in choice["label"]


def test_the_title_of_a_page_names_its_run(app: dash.Dash, database: Database) -> None:
    name_run(database, 2, "\u202ethe <b>best</b>" + "x" * 150)
    with app.server.app_context():
        assert run_title("Tune")(run_id="1") == "Tune #1 example · reactive · HyperOffload"
        assert run_title("Run")(run_id="7") == run_title("Run")(run_id="x") == "Run · HyperOffload"
        hostile = run_title("Run")(run_id="2")
    assert "the <b>best</b>" in hostile and "\u202e" not in hostile and len(hostile) < 200


def test_a_running_run_cannot_be_deleted_and_the_page_says_why(app: dash.Dash, database: Database) -> None:
    running = start_run(database, RunDescription("measured", example_schedule(), "example"))
    said = call(app, DELETE, {DELETE: 1, "runs-grid.selectedRows": [{"id": running}]}, "runs-told")
    assert "is still being recorded; cancel it first" in json.dumps(said)
    assert block(app)["runs-grid.getRowsResponse"]["rowData"][0]["reason"] == "steps so far: 0"


def test_tags_that_all_have_are_edited_and_others_stay(app: dash.Dash, database: Database) -> None:
    tag_runs(database, [1, 2], add=["both"])
    tag_runs(database, [2], add=["one"])
    edit = '{"runs-do":"edit"}.n_clicks'
    opened = call(app, edit, {edit: 1, "runs-grid.selectedRows": [{"id": 1}, {"id": 2}]}, "runs-edit.opened")
    assert opened["runs-tags.value"] == ["both"]
    assert opened["runs-name.display"] == "none"
    save = {"runs-edit-save.n_clicks": 1, "runs-editing.data": opened["runs-editing.data"]}
    call(app, "runs-edit-save.n_clicks", save | {"runs-tags.value": ["new"], "runs-note.value": "seen"}, "runs-told")
    assert (get_run(database, 1).tags, get_run(database, 2).tags) == (("new",), ("one", "new"))
    assert get_run(database, 2).note == "seen"
    wrong = call(
        app, "runs-edit-save.n_clicks", save | {"runs-tags.value": ["x" * 99], "runs-note.value": ""}, "runs-told"
    )
    assert "at most 60 are kept" in json.dumps(wrong)


def test_names_tags_and_notes_that_were_changed_are_as_before_when_it_is_undone(
    app: dash.Dash, database: Database
) -> None:
    tag_runs(database, [2], add=["one"])
    note_runs(database, [2], "old <b>")
    edit = '{"runs-do":"edit"}.n_clicks'

    def edited(rows: list[int], **fields: Any) -> dict[str, Any]:
        ticked = {edit: 1, "runs-grid.selectedRows": [{"id": run} for run in rows]}
        opened = call(app, edit, ticked, "runs-edit.opened")
        written = {f"runs-{name}.value": value for name, value in fields.items()}
        save = {"runs-edit-save.n_clicks": 1, "runs-editing.data": opened["runs-editing.data"]} | written
        done = call(app, "runs-edit-save.n_clicks", save, "runs-told")
        return next(value for name, value in done.items() if name.startswith("runs-undoable"))

    def undo(what: dict[str, Any]) -> None:
        call(app, "runs-undo.n_clicks", {"runs-undo.n_clicks": 1, "runs-undoable.data": what}, "runs-told")

    before = words_of(database, [1, 2])
    several = edited([1, 2], tags=["new"], note="both")
    assert {run.note for run in words_of(database, [1, 2])} == {"both"}
    undo(several)
    assert words_of(database, [1, 2]) == before
    one = edited([2], name="best", tags=[], note="")
    assert words_of(database, [2]) == [RunWords(2, "best", (), "")]
    undo(one)
    assert words_of(database, [1, 2]) == before


def test_ten_thousand_runs_come_in_blocks_and_nothing_is_sent_again(app: dash.Dash, database: Database) -> None:
    with database.write() as connection:
        names = ", ".join(column.name for column in Run.__table__.columns if column.name != "id")
        numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9997) "
        connection.exec_driver_sql(f"INSERT INTO run ({names}) {numbers}SELECT {names} FROM run, n WHERE run.id = 1")
    began = time.perf_counter()
    answer = block(app, start=6000, sort=("step_ns", "desc"))
    assert time.perf_counter() - began < 1
    assert answer["runs-count.children"] == "10,000 runs"
    assert len(ids(answer)) == BLOCK_ROWS
    layout = shown(app, runs.layout)
    assert len(layout) < 60_000
    first = call(app, "runs-refresh.n_intervals", {"runs-refresh.n_intervals": 1, "runs-stamp.data": ""})
    asked = {"runs-refresh.n_intervals": 2, "runs-stamp.data": first["runs-stamp.data"]}
    assert call(app, "runs-refresh.n_intervals", asked) == {}
    tag_runs(database, [7], add=["seen"])
    assert list(call(app, "runs-refresh.n_intervals", asked)) == ["runs-stamp.data"]


def test_a_schema_that_changed_under_the_page_says_so_once(app: dash.Dash, database: Database) -> None:
    with database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE run DROP COLUMN archived")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    said = call(app, "runs-refresh.n_intervals", {"runs-refresh.n_intervals": 1, "runs-stamp.data": "x"})
    assert said["runs-refresh.disabled"] is True
    assert "restart this program" in json.dumps(said["runs-notice.children"])
    assert "This page cannot be shown" in shown(app, dash.page_registry["app.dashboard.pages.runs"]["layout"])


def test_the_demo_of_the_browser_is_that_of_the_command_line(tmp_path: Path) -> None:
    request = demo_request(open_database(tmp_path / "runs.db"))
    defaults = demo.__defaults__ or ()
    assert tuple(defaults[2:5]) == (DEMO_STEPS, DEMO_LIMIT, DEMO_LINK)
    assert (request.model, request.steps, request.link_bandwidth) == ("demo", DEMO_STEPS, DEMO_LINK)
    assert [(policy.strategy, policy.memory_limit) for policy in request.policies] == [
        ("hyperoffload", DEMO_LIMIT),
        ("reactive", DEMO_LIMIT),
    ]
    assert all(request.policy_version_ids)


def test_the_demo_starts_from_the_empty_list_as_a_job_that_can_be_cancelled(tmp_path: Path) -> None:
    empty = create_app(tmp_path / "empty.db")
    assert "Run the demo" in shown(empty, runs.layout)
    started = call(empty, "runs-demo.n_clicks", {"runs-demo.n_clicks": 1})
    job = next(value for name, value in started.items() if name.startswith("job-id"))
    assert started["runs-demo.disabled"] is started["runs-wait.data"] is True
    assert job_view(tmp_path / "empty.db", job).request["model"] == "demo"
    cancel_job(tmp_path / "empty.db", job)
    deadline = time.monotonic() + 30
    while not job_view(tmp_path / "empty.db", job).ended and time.monotonic() < deadline:
        time.sleep(0.1)
    assert job_view(tmp_path / "empty.db", job).state == "cancelled"
    # The page found after a reload still tells of it.
    assert f'"data": {job}' in shown(empty, runs.layout)


def test_runs_are_named_in_sentences(database: Database) -> None:
    assert runs_named([3]) == "run 3"
    assert runs_named([1, 2, 5]) == "runs 1, 2 and 5"
    assert runs_named(list(range(9))) == "9 runs"
    assert common_tags(list_runs(database)) == common_tags([]) == []
