"""What a search finds in a step, held against each thing looked at on its own."""

from __future__ import annotations

import pytest
from dashboard_example import MIB, example_profile, example_schedule

from hyperoffload_core.explain.verdicts import transfer_verdicts
from hyperoffload_core.recording import Profile
from profiles.filtering import Kind, parse_query
from profiles.searching import Searchable, find, searchable
from profiles.series import memory_curve


@pytest.fixture(scope="module")
def profile() -> Profile:
    return example_profile(example_schedule(), "measured", 2)


@pytest.fixture(scope="module")
def step(profile: Profile) -> Searchable:
    return searchable(profile, 1, memory_curve(profile, 1).peak[0])


def names(step: Searchable, text: str, kind: Kind) -> list[str]:
    hits = find(step, parse_query(text)).hits
    return [hits[kind].things.names[row] for row in hits[kind].rows.tolist()] if kind in hits else []


def test_words_fields_and_kinds_narrow_the_search(step: Searchable) -> None:
    assert set(names(step, "hidden", "storage")) == {f"layer{i}.hidden" for i in range(8)}
    assert names(step, "layer?.hidden -layer0 -layer1 layer:1", "storage") == []
    assert set(names(step, "class:weight,gradient layer3", "storage")) == {"layer3.weight", "layer3.gradient"}
    assert names(step, "op:matmulgrad layer:3", "op") == ["backward3"]
    assert names(step, "scope:gradients/3 phase:backward", "op") == ["backward3"]
    assert set(find(step, parse_query("layer3")).hits) == {"storage", "transfer"}
    assert set(find(step, parse_query("layer3 in:storages")).hits) == {"storage"}


def test_nothing_typed_finds_everything_the_heaviest_first(step: Searchable, profile: Profile) -> None:
    found = find(step, parse_query(""))
    graph = profile.schedule.graph
    assert {kind: h.count for kind, h in found.hits.items()} == {
        "op": len(graph.ops),
        "storage": len(graph.storages),
        "transfer": len(profile.schedule.transfers),
    }
    assert found.hits["storage"].total("size") == sum(s.bytes for s in graph.storages)
    sizes = [graph.storages[row].bytes for row in found.hits["storage"].rows.tolist()]
    assert sizes == sorted(sizes, reverse=True)


def test_quantities_of_transfers_are_those_of_their_verdicts(step: Searchable, profile: Profile) -> None:
    verdicts = {v.transfer: v for v in transfer_verdicts(profile, 1)}
    hits = find(step, parse_query("blocking>5ms slack<1ms")).hits["transfer"]
    expected = {t for t, v in verdicts.items() if v.blocking_ns > 5_000_000 and v.slack_ns < 1_000_000}
    assert expected
    assert set(hits.things.ids[hits.rows].tolist()) == expected
    assert hits.total("blocking") == sum(verdicts[t].blocking_ns for t in expected)
    causes = {c: len(names(step, f"cause:{c}", "transfer")) for c in ("dependency", "link", "memory", "order")}
    assert causes == {c: sum(v.cause == c for v in verdicts.values()) for c in causes}
    assert len(names(step, "way:in", "transfer")) == len(names(step, "way:out", "transfer")) == 6


def test_blocking_is_the_same_time_for_transfers_storages_and_the_ops_that_wait(step: Searchable) -> None:
    hits = find(step, parse_query("blocking>0")).hits
    totals = {kind: h.total("blocking") for kind, h in hits.items()}
    assert totals["transfer"] == totals["storage"] == totals["op"] > 0
    assert all(name.startswith("backward") for name in names(step, "blocking>0", "op"))


def test_at_a_time_finds_what_runs_and_what_is_there(step: Searchable, profile: Profile) -> None:
    life = profile.lifetimes
    time = memory_curve(profile, 1).peak[0]
    rows = (life.step == 1) & (life.start_ns <= time) & (life.end_ns > time)
    graph = profile.schedule.graph
    assert set(names(step, "at:peak", "storage")) == {graph.storages[s].name for s in life.storage[rows].tolist()}
    assert names(step, "at:20ms", "op") == ["forward1"]
    assert names(step, "start<13ms end>12ms", "op") == ["forward0", "forward1"]


def test_a_storage_moves_or_stays(step: Searchable) -> None:
    moved, stays = names(step, "is:moved", "storage"), names(step, "is:resident", "storage")
    assert set(moved) == {f"layer{i}.hidden" for i in range(6)}
    assert not set(moved) & set(stays)
    assert all("weight" in n or "adam" in n for n in names(step, "is:persistent", "storage"))
    assert names(step, f"size={40 * MIB}B is:resident", "storage") == ["layer6.hidden", "layer7.hidden"]
    assert set(names(step, "phase:optimizer", "storage")) >= {"layer0.adam", "layer0.gradient"}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("op:MatMull", "no op here is 'matmull'; there are for instance MatMul"),
        ("layer:99", "no layer here is '99'"),
        ("attention", "no name has 'attention' in it"),
        ("blocking>9s", "nothing here meets blocking alone"),
        ("class:weight is:moved", "each term alone finds something"),
    ],
)
def test_nothing_found_says_which_term_is_to_blame(step: Searchable, text: str, hint: str) -> None:
    found = find(step, parse_query(text))
    assert found.count == 0
    assert hint in found.hint
