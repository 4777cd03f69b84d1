"""The schedule file: what is written is read back, and what cannot be read is told in one sentence."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.schedule import ScheduleFileError, from_document, read_schedule, to_document, write_schedule
from hyperoffload_core.verifier import verify
from tests.graphs import TINY_HALF, race, training
from tests.naive_schedule import naive_schedule, random_schedule

EVERYWHERE = [(s, k) for s in range(12) for k in range(-1, 5)]


@pytest.mark.parametrize("name", ["s.json", "s.json.gz"])
def test_a_written_schedule_is_read_back_the_same(tmp_path: Path, name: str) -> None:
    schedule = naive_schedule(training(3), gaps=EVERYWHERE, parts=2, homes={0: "pool"})
    write_schedule(schedule, tmp_path / name)
    again = read_schedule(tmp_path / name)
    assert again == schedule and again.hash == schedule.hash and again.graph.hash == schedule.graph.hash
    verify(again)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    write_schedule(schedule, str(tmp_path / name))
    assert read_schedule(str(tmp_path / name)) == schedule


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False))
def test_any_schedule_survives_the_document(random: Random) -> None:
    schedule = random_schedule(random)
    assert from_document(json.loads(json.dumps(to_document(schedule)))) == schedule


def test_the_document_has_every_field_of_the_format() -> None:
    document = to_document(naive_schedule(race(), gaps=[(1, 0)]))
    assert document["format"] == "hyperoffload.schedule" and document["version"] == 1
    assert {
        "graph", "hardware", "policy", "strategy", "memory_limit_bytes", "order", "op_times", "transfers",
        "residencies", "metrics",
    } <= document.keys()  # fmt: skip
    op, storage = document["graph"]["ops"][0], document["graph"]["storages"][0]
    assert {
        "id", "name", "primitive", "scope", "phase", "duration_ns", "workspace_bytes", "reads", "writes", "after",
    } <= op.keys()  # fmt: skip
    assert {"id", "name", "bytes", "class", "persistent", "home"} <= storage.keys()
    assert {"id", "kind", "storage", "bytes", "start_ns", "end_ns", "after_ops", "after_transfers"} == document[
        "transfers"
    ][0].keys()
    assert document["residencies"][0].keys() == {"storage", "offset", "start_ns", "end_ns"}
    assert document["hardware"]["links"].keys() == {"out", "in", "duplex"}
    assert document["metrics"].keys() == {
        "step_ns", "compute_ns", "peak_live_bytes", "reserved_bytes", "bytes_out", "bytes_in", "exposed_ns",
        "blocking_ns", "lower_bound_ns",
    }  # fmt: skip


def test_only_parts_of_a_storage_say_that_they_are_partial() -> None:
    whole = to_document(naive_schedule(race(), gaps=[(1, 0)]))["transfers"]
    parts = to_document(naive_schedule(race(), gaps=[(1, 0)], parts=2))["transfers"]
    assert not any("partial" in t or "offset_bytes" in t for t in whole)
    assert [(t["partial"], t["offset_bytes"], t["bytes"]) for t in parts[:2]] == [(True, 0, 20), (True, 20, 20)]


def test_more_fields_do_not_hinder_reading() -> None:
    schedule = naive_schedule(race())
    document = to_document(schedule)
    document["extra"] = document["graph"]["ops"][0]["extra"] = document["metrics"]["extra"] = 1
    assert from_document(document) == schedule


def test_the_hash_changes_with_the_content_and_the_graph_hash_does_not_know_names() -> None:
    schedule = naive_schedule(race(), gaps=[(1, 0)])
    assert replace(schedule, strategy="other").hash != schedule.hash
    assert replace(schedule.graph, name="other").hash == schedule.graph.hash


def test_links_run_in_order_of_start_times_and_a_half_duplex_device_has_one() -> None:
    full = naive_schedule(training(2), gaps=EVERYWHERE)
    assert [{t.kind for t in link} for link in full.link_transfers()] == [{"store"}, {"prefetch"}]
    half = naive_schedule(training(2), gaps=EVERYWHERE, hardware=TINY_HALF)
    (link,) = half.link_transfers()
    assert [t.start_ns for t in link] == sorted(t.start_ns for t in half.transfers)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("format"), '"format" is None; a schedule file says "hyperoffload.schedule"'),
        (lambda d: d.update(version=2), '"version" is 2; this program reads version 1'),
        (lambda d: d.pop("order"), "the field 'order' is missing"),
        (lambda d: d["transfers"][0].pop("kind"), "the field 'kind' is missing"),
        (lambda d: d.update(op_times=3), "a field has the wrong type"),
    ],
)
def test_a_wrong_document_is_told_by_file_and_field(tmp_path: Path, change, message: str) -> None:  # type: ignore[no-untyped-def]
    document = to_document(naive_schedule(race(), gaps=[(1, 0)]))
    change(document)
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ScheduleFileError) as caught:
        read_schedule(path)
    assert message in str(caught.value) and str(path) in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"not json", b"[1]", gzip.compress(b"{}")[:-9], gzip.compress(b"[]")],
    ids=["empty", "not JSON", "a list", "a cut archive", "a list in an archive"],
)
def test_a_file_that_is_no_schedule_is_told_by_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "wrong.json.gz"
    path.write_bytes(data)
    with pytest.raises(ScheduleFileError, match=r"wrong\.json\.gz: not a schedule file"):
        read_schedule(path)


def test_a_missing_file_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ScheduleFileError, match="nowhere"):
        read_schedule(tmp_path / "nowhere.json")
