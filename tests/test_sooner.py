"""Rules that start prefetches earlier: done as far as it is possible, verified, and said in the notes."""

from __future__ import annotations

import pytest

from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.policy import Policy, PolicyError, Rule, policy_from_toml, policy_to_toml, prefetches_earlier
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import SizeError, parse_ns
from hyperoffload_core.sooner import MOST, with_earlier_prefetches
from hyperoffload_core.verifier import violations
from tests.graphs import TINY, training

GRAPH = training(6)
DURATIONS = Durations((100,) * len(GRAPH.ops), "made up for tests")


def compiled(*rules: Rule, limit: str = "80%", strategy: str = "reactive") -> Schedule:
    return compile_schedule(GRAPH, DURATIONS, TINY, Policy(memory_limit=limit, strategy=strategy, rules=rules))


def started(schedule: Schedule, name: str) -> list[int]:
    return [
        move[0].start_ns
        for move in schedule.moves
        if move[0].kind == "prefetch" and schedule.graph.storages[move[0].storage].name == name
    ]


def prefetched(schedule: Schedule) -> list[str]:
    return [schedule.graph.storages[m[0].storage].name for m in schedule.moves if m[0].kind == "prefetch"]


def test_a_prefetch_starts_earlier_where_a_rule_says_so_and_the_schedule_stays_valid() -> None:
    plain = compiled()
    moved = []
    for name in prefetched(plain):
        changed = compiled(Rule(name=name, action="auto", prefetch_earlier="60ns"))
        assert violations(changed) == []
        assert changed.metrics.reserved_bytes <= changed.memory_limit_bytes
        assert started(changed, name) <= started(plain, name)
        assert any(repr(name) in note for note in changed.notes)
        moved.append(started(changed, name) < started(plain, name))
    assert any(moved)


def test_what_is_not_possible_is_said_and_changes_nothing() -> None:
    plain = compiled()
    first = next(m[0] for m in plain.moves if m[0].kind == "prefetch" and m[0].start_ns == 0)
    same = with_earlier_prefetches(plain, {first.storage: 10**15})
    assert same.transfers == plain.transfers
    assert same.notes[-1].endswith(" starts no earlier: it starts with the step")


def test_a_storage_without_a_prefetch_is_named() -> None:
    plain = compiled()
    still = next(s for s in GRAPH.storages if s.name not in prefetched(plain))
    changed = compiled(Rule(name=still.name, action="auto", prefetch_earlier="1us"))
    assert changed.transfers == plain.transfers
    assert f"changes nothing for {still.name!r}" in changed.notes[-1]


def test_very_many_prefetches_are_moved_in_part_and_that_is_said() -> None:
    graph = training(40)
    policy = Policy(
        memory_limit="60%", strategy="reactive", rules=(Rule(min_size="1B", action="auto", prefetch_earlier="1ns"),)
    )
    schedule = compile_schedule(graph, Durations((100,) * len(graph.ops), "made up for tests"), TINY, policy)
    assert sum(m[0].kind == "prefetch" for m in schedule.moves) > MOST
    assert any(f"the first {MOST} were moved" in note for note in schedule.notes)


def test_the_first_rule_that_matches_decides_how_much_earlier() -> None:
    policy = Policy(
        rules=(
            Rule(name="w0", action="offload"),
            Rule(tensor_class="weight", action="auto", prefetch_earlier="2us"),
        )
    )
    weights = [s for s in GRAPH.storages if s.tensor_class == "weight"]
    found = prefetches_earlier(GRAPH, policy)
    assert set(found) == {s.id for s in weights if s.name != "w0"}
    assert set(found.values()) == {2000}
    assert prefetches_earlier(GRAPH, Policy()) == {}


def test_the_rule_is_text_like_all_others() -> None:
    policy = Policy(rules=(Rule(name="w", action="auto", prefetch_earlier="2.5 ms"),))
    assert policy_from_toml(policy_to_toml(policy)) == policy
    assert policy.rules[0].text == "name = 'w': auto, prefetch 2.5 ms earlier"
    with pytest.raises(PolicyError, match="is no time; write a number above 0"):
        policy_from_toml('[[rules]]\nname = "w"\naction = "auto"\nprefetch_earlier = "soon"\n')
    with pytest.raises(PolicyError, match="no Prefetch that prefetch_earlier could move"):
        policy_from_toml('[[rules]]\nname = "w"\naction = "keep"\nprefetch_earlier = "2ms"\n')


def test_times_are_read_in_the_units_people_write() -> None:
    assert [parse_ns(text) for text in ("5ms", "1.5 s", "250us", "250 µs", "7 ns")] == [
        5_000_000,
        1_500_000_000,
        250_000,
        250_000,
        7,
    ]
    with pytest.raises(SizeError, match="is no time"):
        parse_ns("0ms")
