"""`hyperoffload explain --find`, `--at` and `--between`: what the dashboard finds, the command line finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from dashboard_example import MIB, example_profile, example_schedule

from app.cli.main import run
from db.database import open_database
from db.queries import get_run
from db.recordings import RunDescription, record_profile


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("find") / "find.db"
    opened = open_database(path)
    schedule = example_schedule()
    record_profile(opened, RunDescription("measured", schedule, "example"), example_profile(schedule, "measured", 3))
    opened.close()
    return path


@pytest.fixture
def explain(database: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What `hyperoffload explain 1` prints, of the given arguments."""

    def explained(*arguments: str, code: int = 0) -> str:
        assert run(["explain", "1", *arguments, "--database", str(database)]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return explained


def test_things_of_a_step_are_found_by_name_and_fields(explain: Callable[..., str]) -> None:
    text = explain("--find", "class:activation size>1MiB in:storages", "--find", "op:adamw", "--json")
    first, second = json.loads(text)["find"]
    assert first["counts"] == {"storage": 8}
    assert {row["size_bytes"] for row in first["found"]} == {40 * MIB}
    assert second["text"].startswith("8 ops, ")
    assert [row["kind"] for row in second["found"]] == ["op"] * 8


def test_who_holds_memory_is_said_for_a_time_and_for_the_peak(explain: Callable[..., str]) -> None:
    peak = json.loads(explain("--at", "peak", "--by", "layer", "--top", "2", "--json"))["at"]
    assert peak["needed_bytes"] <= peak["live_bytes"] <= peak["reserved_bytes"]
    assert sum(group["bytes"] for group in peak["groups"]) == peak["live_bytes"]
    assert max(len(group["largest"]) for group in peak["groups"]) == 2
    early = json.loads(explain("--at", "1ms", "--json"))["at"]
    assert early["time_ns"] == 1_000_000 and early["live_bytes"] < peak["live_bytes"]


def test_a_stretch_of_time_has_the_numbers_of_the_step_where_it_is_all_of_it(
    explain: Callable[..., str], database: Path
) -> None:
    opened = open_database(database)
    run = get_run(opened, 1)
    opened.close()
    whole = json.loads(explain("--between", "0ms-10s", "--json"))["between"]
    assert (whole["start_ns"], whole["end_ns"]) == (0, run.step_median_ns)
    assert (whole["exposed_ns"], whole["computing_ns"]) == (run.exposed_ns, run.compute_ns)
    assert (whole["bytes_in"], whole["bytes_out"], whole["peak_bytes"]) == (run.bytes_in, run.bytes_out, run.peak_bytes)
    part = json.loads(explain("--between", "10ms-40ms", "--json"))["between"]
    assert part["length_ns"] == 30_000_000 == part["computing_ns"] + part["exposed_ns"] + part["idle_ns"]
    assert "Compute busy" in explain("--between", "10ms-40ms")


def test_a_step_starts_at_0_in_any_unit(explain: Callable[..., str]) -> None:
    for zero in ("0", "0ms", "0 us", "0.0 s"):
        assert json.loads(explain("--at", zero, "--json"))["at"]["time_ns"] == 0
        assert json.loads(explain("--between", f"{zero} - 1 ms", "--json"))["between"]["start_ns"] == 0


def test_people_read_tables(explain: Callable[..., str]) -> None:
    text = explain("--find", "blocking>0", "--at", "90ms", "--by", "name")
    assert "blocking>0: 6 storages of 240 MiB" in text
    assert "layer0.hidden" in text
    assert "idle, could leave and come back" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--find", "colour:red"], "there is no field 'colour'"),
        (["--at", "soon"], "'soon' is no time"),
        (["--at", "5s"], "the step ends at"),
        (["--between", "10ms"], "write its start and its end, such as 10ms-40ms"),
        (["--between", "20ms-10ms"], "write its start and its end"),
        (["--between", "-20ms"], "write its start and its end"),
        (["--between", "5s-6s"], "the step ends at"),
        (["--at", "peak", "--by", "colour"], "write one of class, layer, op, name"),
    ],
)
def test_what_cannot_be_understood_is_one_sentence(
    explain: Callable[..., str], arguments: list[str], words: str
) -> None:
    said = explain(*arguments, code=2).strip()
    assert words in said and "\n" not in said
