"""`hyperoffload compare`: any of the runs as baseline, every format by the name of the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from dashboard_example import example_profile, example_schedule

from db.database import open_database
from db.recordings import RunDescription, record_profile
from tests.command import hyperoffload


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a database of three runs, one of them slow."""
    folder = tmp_path_factory.mktemp("compare")
    database = open_database(folder / "hyperoffload.db")
    for op_ns, label in ((12_000_000, "usual"), (25_000_000, "slow"), (9_000_000, "quick")):
        schedule = example_schedule(8, op_ns)
        record_profile(
            database, RunDescription("predicted", schedule, "example", label=label), example_profile(schedule)
        )
    database.close()
    return folder


def test_the_table_is_against_the_baseline_that_is_named(folder: Path) -> None:
    shown = hyperoffload("compare", "usual", "slow", "--baseline", "slow", folder=folder)
    assert shown.returncode == 0, shown.stderr
    assert "against slow (predicted): usual (predicted) takes 0." in " ".join(shown.stdout.split())
    assert "usual - baseline" in shown.stdout


def test_the_file_says_the_format(folder: Path) -> None:
    begins = {
        "html": "<!doctype html>",
        "md": "# example: 3 profiles",
        "csv": "table,item",
        "json": "{",
        "svg": "<svg ",
    }
    for suffix, start in begins.items():
        done = hyperoffload("compare", "1", "2", "3", "--output", f"report.{suffix}", folder=folder)
        assert done.returncode == 0, done.stderr
        assert (folder / f"report.{suffix}").read_text().startswith(start)


def test_what_cannot_be_compared_is_a_sentence(folder: Path) -> None:
    other = hyperoffload("compare", "1", "2", "--baseline", "quick", folder=folder)
    assert (other.returncode, "--baseline quick is run 3, which is none of the compared ones" in other.stderr) == (
        2,
        True,
    )
