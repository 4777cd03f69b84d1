"""`hyperoffload jobs`: what the browser started, seen and cancelled from a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import run as command
from db.database import Database, open_database
from db.jobs import claim, enqueue, fail_job, finish_job, get_job, report_progress

Answer = Callable[..., tuple[int, str]]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Job 1 is done, job 2 failed, job 3 works in this process, job 4 waits."""
    opened = open_database(tmp_path / "runs.db")
    for kind, model in (
        ("run", "demo"),
        ("compile", "run:1"),
        ("run", "[red]mine.py:build\x1b[2J"),
        ("compile", "tiny"),
    ):
        enqueue(opened, kind, {"model": model})
    for _ in range(3):
        claim(opened)
    finish_job(opened, 1, "compiled and run", [1, 2])
    fail_job(opened, 2, "the limit is too small")
    report_progress(opened, 3, done=1, total=4, message="executing", log="captured\n", run_id=3)
    return opened


@pytest.fixture
def ask(database: Database, capsys: pytest.CaptureFixture[str]) -> Answer:
    """The exit code of ``hyperoffload jobs ...`` and all that it printed."""

    def asked(*arguments: str) -> tuple[int, str]:
        code = command(["jobs", *arguments, "--database", str(database.path)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return asked


def test_jobs_are_listed_newest_first_with_what_came_of_them(ask: Answer) -> None:
    code, text = ask()
    heading, *rows = text.splitlines()
    assert (code, heading.split()) == (0, ["job", "kind", "model", "state", "done", "for", "runs", "message"])
    assert [(row.split()[0], row.split()[3]) for row in rows] == [
        ("4", "queued"),
        ("3", "running"),
        ("2", "failed"),
        ("1", "done"),
    ]
    assert "25%" in rows[1] and "[red]mine.py:build\ufffd[2J" in rows[1] and "executing" in rows[1]
    assert "the limit is too small" in rows[2]
    assert "1, 2" in rows[3]


def test_the_document_has_the_log_and_the_request(ask: Answer) -> None:
    (newest,) = json.loads(ask("--last", "1", "--json")[1])
    assert (newest["id"], newest["state"], newest["request"]) == (4, "queued", {"model": "tiny"})
    third = json.loads(ask("--json")[1])[1]
    assert (third["log"], third["run_ids"], third["done"], third["total"]) == ("captured\n", [3], 1, 4)


def test_the_log_of_a_job_is_printed_as_it_was_written(ask: Answer) -> None:
    assert ask("--log", "3") == (0, "captured\n")
    assert ask("--log", "4") == (0, "")


def test_a_job_that_waits_is_cancelled_at_once(ask: Answer, database: Database) -> None:
    assert ask("--cancel", "4") == (0, "job 4 cancelled\n")
    assert get_job(database, 4).state == "cancelled"
    assert ask("--cancel", "4") == (2, "hyperoffload: job 4 has ended (cancelled); there is nothing to cancel\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cancel", "1"], "job 1 has ended (done); there is nothing to cancel"),
        (["--log", "9"], "there is no job 9"),
        (["--log", "3", "--cancel", "3"], "--log goes without --cancel and --json"),
        (["--cancel", "9"], "there is no job 9"),
        (["--cancel", str(10**30)], f"there is no job {10**30}"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(ask: Answer, arguments: list[str], says: str) -> None:
    assert ask(*arguments) == (2, f"hyperoffload: {says}\n")


def test_without_jobs_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.db"
    open_database(path).close()
    assert command(["jobs", "--database", str(path)]) == 0
    assert capsys.readouterr().out == f"{path} holds no job\n"
