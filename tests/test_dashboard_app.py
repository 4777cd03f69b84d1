"""The application: answers only pages of its own, imports no mindspore, and has something to say in every state."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dash
import pytest
from callbacks import call
from dash import dcc, html
from dashboard_example import example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder
from read_only import run_beside_read_only

from app.dashboard.factory import create_app
from app.dashboard.frozen import frozen
from app.dashboard.pages import compare, missing, new, run, runs, tune
from app.dashboard.pages.job_panel import view as job_words
from app.dashboard.state import State, current_state
from app.dashboard.views.policy import Draft
from app.jobs import JobView
from db.database import open_database
from db.jobs import enqueue
from db.queries import load_profile
from db.recordings import RunDescription, append_profile, fail_run, record_profile, start_run

HOSTILE = '<img src=x onerror="alert(1)">\u202e\x07'


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "dashboard.db"


@pytest.fixture
def filled(database: Path) -> Path:
    """Run 1 measured, 2 predicted, 3 failed without a step, 4 incomplete with one step, 5 with a hostile name."""
    opened = open_database(database)
    schedule = example_schedule()
    measured = RunDescription("measured", schedule, "example", link_bandwidth_bytes_per_s=2 * 10**9, paced=True)
    record_profile(opened, measured, example_profile(schedule, "measured", 3), True)
    record_profile(opened, RunDescription("predicted", schedule, "example"), example_profile(schedule))
    fail_run(opened, start_run(opened, measured), "the worker was killed by signal 9")
    part = start_run(opened, measured)
    append_profile(opened, part, example_profile(schedule, "measured"))
    with opened.write() as connection:
        connection.exec_driver_sql(
            "UPDATE run SET status = 'incomplete', reason = 'the recording process (pid 7) ended' WHERE id = ?", (part,)
        )
    record_profile(opened, RunDescription("predicted", schedule, HOSTILE, label=HOSTILE), example_profile(schedule))
    opened.close()
    return database


@pytest.fixture
def ask(filled: Path) -> Iterator[Callable[..., str]]:
    """Render a page's layout over the filled database; the answer is its JSON."""
    app = create_app(filled)

    def asked(layout: Callable[..., Any], **query: Any) -> str:
        with app.server.app_context():
            return rendered(layout(**query))

    yield asked
    app.server.config["HYPEROFFLOAD"].database.close()


def rendered(component: Any) -> str:
    return json.dumps(component, cls=PlotlyJSONEncoder)


def test_nothing_comes_from_another_machine(database: Path) -> None:
    app = create_app(database)
    page = app.server.test_client().get("/", headers={"Host": "127.0.0.1"}).get_data(as_text=True)
    sources = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert sources
    assert all(source.startswith("/") for source in sources)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "127.0.0.1:8050"}, 200),
        ({"Host": "localhost:8050"}, 200),
        ({"Host": "127.0.0.1:8050", "Origin": "http://localhost:8050"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1:8050", "Origin": "https://evil.example"}, 403),
        ({"Host": "127.0.0.1:8050", "Origin": "null"}, 403),
        ({"Host": "127.0.0.1:8050", "Origin": ""}, 403),
        ({"Host": "127.0.0.1:8050", "Origin": "http://[::1"}, 400),
    ],
)
def test_only_pages_of_this_machine_are_answered(database: Path, headers: dict[str, str], status: int) -> None:
    app = create_app(database)
    assert app.server.test_client().get("/_dash-layout", headers=headers).status_code == status


@pytest.mark.parametrize(
    "body",
    ["", "{}", "null", "5", "[" * 100_000, '{"output": "x"}', '{"output": "x", "outputs": [], "inputs": []}', "\\xff"],
)
def test_what_no_page_sends_is_refused_without_a_traceback(
    database: Path, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = create_app(database).server.test_client()
    asked = {"data": body, "content_type": "application/json", "headers": {"Host": "127.0.0.1"}}
    assert client.post("/_dash-update-component", **asked).status_code == 400
    assert client.get("/_dash-component-suites/os/os.py", headers={"Host": "127.0.0.1"}).status_code == 404
    assert "Traceback" not in caplog.text


def test_a_request_of_a_hundred_megabytes_is_refused(database: Path) -> None:
    client = create_app(database).server.test_client()
    asked = {"data": b"[" * 100_000_000, "content_type": "application/json", "headers": {"Host": "127.0.0.1"}}
    assert client.post("/_dash-update-component", **asked).status_code == 413


def test_the_web_process_never_imports_mindspore(filled: Path) -> None:
    program = (
        "import sys; from app.dashboard.factory import create_app; from app.dashboard.pages import tune; "
        "app = create_app(sys.argv[1]); context = app.server.app_context(); context.push(); tune.layout(run_id='1'); "
        "assert 'mindspore' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program, str(filled)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_database_that_cannot_be_written_is_shown_and_says_so(filled: Path) -> None:
    program = """
import sys
from app.dashboard.factory import create_app
from app.dashboard.pages import run, runs, sql
app = create_app(sys.argv[1])
headers = {"Host": "127.0.0.1"}
print("cannot be written here" in app.server.test_client().get("/_dash-layout", headers=headers).get_data(as_text=True))
with app.server.app_context():
    print("runs-grid" in str(runs.layout()), "run-timeline" in str(run.layout(run_id="1")), "sql" in str(sql.layout()))
"""
    folder = filled.parent
    assert run_beside_read_only(folder, program, str(filled)).split() == ["True"] * 4
    app = create_app(filled)
    shell = app.server.test_client().get("/_dash-layout", headers={"Host": "127.0.0.1"}).get_data(as_text=True)
    assert "cannot be written here" not in shell


def test_every_page_says_when_the_database_was_taken_away(filled: Path) -> None:
    app = create_app(filled)
    app.server.test_client().get("/", headers={"Host": "127.0.0.1"})

    def shown(page: str) -> str:
        opened = {"_pages_location.pathname": page, "_pages_location.search": ""}
        return json.dumps(call(app, "_pages_location.pathname", opened, "_pages_content"))

    def told() -> str:
        return json.dumps(call(app, "database-look.n_intervals", {"database-look.n_intervals": 1}))

    pages = ("/", "/run/1", "/graph/1", "/tune/1", "/compare", "/sql", "/new", "/experiments")
    assert not any("since this program opened it" in shown(page) for page in pages)
    assert told() == "{}"
    filled.rename(filled.with_name("elsewhere.db"))
    for page in pages:
        assert re.search("This page cannot be shown.*is not there any more since", shown(page)), page
    assert "is not there any more since" in told()
    open_database(filled).close()
    assert "was replaced by another file since" in shown("/run/1")
    assert "was replaced by another file since" in told()


@pytest.mark.parametrize("page", ["new", "tune"])
def test_a_job_of_somebody_else_is_named_and_holds_nobody_up(filled: Path, page: str) -> None:
    """Of those a page started itself it starts one at a time: a second click must not start a second."""
    app = create_app(filled)
    database = open_database(filled)
    job = enqueue(database, "compile", {"model": "run:1", "policy": {"name": "more room"}})
    database.close()
    known = {
        "policy-valid.data": {},
        "tune-hardware-given.data": {"errors": {}},
        "tune.data": 1,
        "job-id.data": job,
        "job-poll.disabled": False,
    }
    other = call(app, "job-id.data", known | {"job-found.data": job}, f"{page}-compile")
    assert other[f"{page}-compile.disabled"] is False
    assert f'Job {job} (Compiling policy "more room") was started on another page' in other[f"{page}-others.children"]
    for found in (None, job - 1):
        own = call(app, "job-id.data", known | {"job-found.data": found}, f"{page}-compile")
        assert (own[f"{page}-compile.disabled"], own[f"{page}-others.children"]) == (True, "")
    ended = call(app, "job-id.data", known | {"job-poll.disabled": True}, f"{page}-compile")
    assert (ended[f"{page}-compile.disabled"], ended[f"{page}-others.children"]) == (False, "")


@pytest.mark.parametrize("page", ["new", "tune"])
def test_steps_out_of_range_are_said_beside_their_field_and_start_nothing(filled: Path, page: str) -> None:
    app = create_app(filled)
    field = f"{page}-steps"
    judged = call(app, f"{field}.value", {f"{field}.value": 5000})
    assert judged == {f"{field}.error": "write a whole number of steps, from 1 to 1,000"}
    assert call(app, f"{field}.value", {f"{field}.value": 7}) == {f"{field}.error": None}
    pressed = {
        f"{page}-run.n_clicks": 1,
        f"{field}.value": 5000,
        "new-model.value": "tiny",
        "tune.data": 1,
        "tune-hardware-given.data": {"hardware": None, "overrides": {}, "errors": {}},
        "policy-draft.data": asdict(Draft(name="p", limit="60%")),
        "policy-name.value": "p",
        "policy-limit.value": "60%",
        "policy-toml.value": "",
    }
    said = json.dumps(call(app, f"{page}-run.n_clicks", pressed))
    assert "write a whole number of steps, from 1 to 1,000" in said and "job-id" not in said
    opened = open_database(filled)
    with opened.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM job").scalar() == 0
    opened.close()


def test_a_prefetch_starts_earlier_by_a_time_that_was_written(filled: Path) -> None:
    app = create_app(filled)
    moved = next(t for t in example_schedule().transfers if t.kind == "prefetch")
    pressed = {
        "run-earlier-go.n_clicks": 1,
        "run-picked.data": {"kind": "transfer", "id": moved.id},
        "run.data": {"id": 1, "step": 0, "kind": "measured"},
        "run-show.value": "measured",
    }
    for wrong in ("", None, 0, -1, 1e300):
        said = call(app, "run-earlier-go.n_clicks", pressed | {"run-earlier-ms.value": wrong})
        assert said == {"run-earlier-ms.error": "write how many ms"}
    went = call(app, "run-earlier-go.n_clicks", pressed | {"run-earlier-ms.value": 1.5})
    assert went["address.href"].startswith("/tune/1?earlier=") and went["address.href"].endswith("1500000")


def test_two_applications_in_one_process_keep_their_databases(filled: Path, tmp_path: Path) -> None:
    apps: list[dash.Dash] = [create_app(filled), create_app(tmp_path / "other.db")]
    shown = []
    for app in apps:
        with app.server.app_context():
            shown.append(rendered(runs.layout()))
    assert "No runs yet" not in shown[0]
    assert "No runs yet" in shown[1]


def test_an_empty_database_offers_the_demo(database: Path) -> None:
    app = create_app(database)
    with app.server.app_context():
        assert "hyperoffload demo" in rendered(runs.layout())
        assert "hyperoffload demo" in rendered(compare.layout())


def test_the_list_shows_every_run(ask: Callable[..., str]) -> None:
    assert "runs-grid" in ask(runs.layout)


@pytest.mark.parametrize("run_id", ["99", "abc", "-1", "1e9", "<b>"])
def test_an_unknown_run_says_so(ask: Callable[..., str], run_id: str) -> None:
    assert "There is no run" in ask(run.layout, run_id=run_id)
    assert "There is no run" in ask(tune.layout, run_id=run_id)


def test_a_run_that_failed_or_is_incomplete_says_why(ask: Callable[..., str]) -> None:
    failed = ask(run.layout, run_id="3")
    assert "This run failed: the worker was killed by signal 9." in failed
    assert "No step was recorded" in failed
    assert "holds no step to tune" in ask(tune.layout, run_id="3")
    part = ask(run.layout, run_id="4")
    assert "This run is incomplete: the recording process (pid 7) ended." in part
    assert "run-timeline" in part


def test_numbers_say_whether_they_were_measured(ask: Callable[..., str]) -> None:
    def below(run_id: int) -> list[Any]:
        return run.below(current_state().step(run_id), "", "")

    assert "Every number measured." in ask(below, run_id=1)
    assert "Every number predicted." in ask(below, run_id=2)


def test_the_step_in_the_address_is_shown_and_a_wrong_one_is_the_median(ask: Callable[..., str]) -> None:
    assert '"step": 2' in ask(run.layout, run_id="1", step="2")
    assert '"step": 1' in ask(run.layout, run_id="1", step="77")


def test_a_frozen_part_is_plain_html_and_holds_nothing_that_acts() -> None:
    part = frozen(html.Div(["a", None, html.B(HOSTILE, title="t")], className="c"))
    assert part.tree == ["div", {"className": "c"}, "a", ["b", {"title": "t"}, HOSTILE]]
    for acting in (html.Div(id="x"), dcc.Link("x", href="/")):
        with pytest.raises(TypeError, match="is not plain HTML"):
            frozen([html.P("text"), acting])


def test_a_step_is_read_once_however_many_ask_and_before_its_page_does(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def counted(*asked: Any) -> Any:
        read.append(asked[1:])
        time.sleep(0.2)
        return load_profile(*asked)

    monkeypatch.setattr("app.dashboard.state.load_profile", counted)
    app = create_app(filled)
    state = app.server.config["HYPEROFFLOAD"]
    with ThreadPoolExecutor() as pool:
        views = list(pool.map(lambda _: state.step(2, 0), range(4)))
    assert len({id(view) for view in views}) == 1
    assert read == [(2, 0)]
    state.database.close()


def test_an_address_restores_what_was_shown(ask: Callable[..., str]) -> None:
    shown = ask(run.layout, run_id="1", by="tier", window="1000000-5000000", picked="op:3", selected="2000000-3000000")
    assert '"range": [1.0, 5.0]' in shown
    assert '{"kind": "op", "id": 3}' in shown
    assert "In flight out" in shown
    wrong = ask(run.layout, run_id="1", by="shape", window="9-1", picked="layer:3", at="-1", selected="x")
    assert "Activations" in wrong and '"id": "run-window"' in wrong


def test_all_steps_are_one_page_of_their_own(ask: Callable[..., str]) -> None:
    shown = ask(run.layout, run_id="1", step="all")
    assert "All recorded steps" in shown and "step 3" in shown
    assert "run-transfers" not in shown
    # A run of one step has nothing to put on one axis.
    assert "All recorded steps" not in ask(run.layout, run_id="2", step="all")


def test_a_comparison_without_two_runs_says_what_to_do(ask: Callable[..., str]) -> None:
    assert "Choose two runs or more" in ask(compare.layout)
    assert "Choose one more run" in ask(compare.layout, runs="1")
    assert "There is no run 42; it is left out." in ask(compare.layout, runs="1,2,42")
    assert "compare-verdict" in ask(compare.layout, runs="1,2", baseline="2")


def test_other_pages_render(ask: Callable[..., str]) -> None:
    assert "FILE.py:FUNCTION" in ask(new.layout)
    assert "There is no such page" in ask(missing.layout)


def test_a_damaged_database_says_so_on_the_page(filled: Path) -> None:
    app = create_app(filled)
    database = app.server.config["HYPEROFFLOAD"].database
    database.close()
    for suffix in ("-wal", "-shm"):
        filled.with_name(filled.name + suffix).unlink(missing_ok=True)
    filled.write_bytes(b"no database any more" * 100)
    with app.server.app_context():
        # The layout that the application has registered, which is what a browser gets.
        shown = rendered(dash.page_registry["app.dashboard.pages.runs"]["layout"]())
    assert "This page cannot be shown" in shown
    assert "is not a database" in shown


def test_hostile_names_are_text(ask: Callable[..., str]) -> None:
    for page in (ask(runs.layout), ask(run.layout, run_id="5"), ask(tune.layout, run_id="5")):
        assert "dangerously" not in page.replace('"dangerously_allow_code": false', "")
        assert json.dumps(HOSTILE)[1:-1].split("\\")[0] in page
    assert "\\u202e" not in ask(run.layout, run_id="5"), "what turns the direction of writing is shown, not obeyed"


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/run/1", "step=1&step=2&window=1-2&window=3-4&picked=op:1&picked=op:2&q=a&q=b&show=both&show=both"),
        ("/run/1", "run_id=1&run_id=2"),
        ("/run/" + "9" * 5000, ""),
        ("/graph/1", "op=1&op=2&picked=op:1&picked=op:2&hops=1&hops=2"),
        ("/graph/" + "9" * 5000, ""),
        ("/tune/1", "keep=a&keep=b&limit=1&limit=2&policy=" + "9" * 5000),
        ("/tune/1", "earlier=layer0.hidden:" + "9" * 5000),
        ("/tune/" + "9" * 5000, ""),
        ("/new", "model=a&model=b&hardware=none&link=x&keep=a&keep=b&policy=" + "9" * 5000),
        ("/new", "model=a&hardware=none&limit=x&strategy=y"),
        ("/compare", "runs=1&runs=2&tab=x&tab=y"),
        ("/compare", "runs=" + "9" * 5000),
        ("/experiments", "strategies=a&strategies=b&show=x&show=y"),
        ("/sql", "q=select+1&q=select+2&run=1&run=2"),
        ("/", "q=a&q=b&sort=id&sort=step&show=deleted&show=x"),
    ],
)
def test_an_address_that_somebody_made_up_shows_a_page(filled: Path, path: str, query: str) -> None:
    app = create_app(filled)
    name = "..{}..".format("...".join(f"_pages_{of}" for of in ("content.children", "store.data")))
    asked = {
        "output": name,
        "outputs": [{"id": "_pages_content", "property": "children"}, {"id": "_pages_store", "property": "data"}],
        "inputs": [
            {"id": "_pages_location", "property": "pathname", "value": path},
            {"id": "_pages_location", "property": "search", "value": f"?{query}" if query else ""},
        ],
        "changedPropIds": ["_pages_location.pathname", "_pages_location.search"],
        "state": [],
    }
    client = app.server.test_client()
    answer = client.post("/_dash-update-component", json=asked, headers={"Host": "127.0.0.1"})
    opened = client.get(f"/_dash-layout?page={quote(path + '?' + query)}", headers={"Host": "127.0.0.1"})
    app.server.config["HYPEROFFLOAD"].database.close()
    assert answer.status_code == opened.status_code == 200
    assert "_pages_content" in answer.get_json()["response"]
    assert '"pathname"' in opened.get_data(as_text=True)


def job(**values: Any) -> JobView:
    known = {
        "id": 4,
        "kind": "compile",
        "state": "running",
        "done": 3,
        "total": 10,
        "message": "placing transfers",
        "run_ids": (),
        "elapsed_s": 1.5,
        "cancel_requested": False,
        "log": "",
        "request": {"model": "run:2"},
    }
    return JobView(**{**known, **values})


def test_a_job_says_how_far_it_is_and_what_came_of_it() -> None:
    assert "placing transfers" in rendered(job_words(job()))
    assert "cancelling" in rendered(job_words(job(cancel_requested=True)))
    failed = rendered(job_words(job(state="failed", message="the limit cannot be met", log="line")))
    assert "the limit cannot be met" in failed and "line" in failed
    done = rendered(job_words(job(state="done", run_ids=(7,))))
    assert "/run/7" in done and "/compare?runs=2,7" in done
    assert "Cancelled; nothing was recorded before." in rendered(job_words(job(state="cancelled")))
    assert "what was recorded before" in rendered(job_words(job(state="cancelled", run_ids=(7,))))


def test_steps_are_kept_and_the_least_used_forgotten(filled: Path) -> None:
    state = State(filled)
    first = state.step(1)
    assert state.step(1) is first
    assert state.step(1, 0) is not state.step(1, 2)
    assert state.prediction(1).kind == "predicted"
    for number in range(3):
        state.step(1, number)
    assert len(state._steps) <= 8
    state.database.close()


def test_the_documentation_shows_pictures_that_exist_and_names_every_page() -> None:
    docs = Path(__file__).parent.parent / "docs"
    text = (docs / "dashboard.md").read_text()
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(pictures) >= 5
    assert all((docs / picture).is_file() for picture in pictures)
    for path in ("/run/ID", "/tune/ID", "/compare"):
        assert path in text
