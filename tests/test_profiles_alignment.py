"""Ops of several runs come together by what they are: in any order, recomputed or not, slow or fast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import GRAPH, keep_schedule, offload_schedule, profile_of

from hyperoffload_core.ir import Graph
from hyperoffload_core.recording import OpEvents, Profile
from profiles.alignment import align_ops, identities
from profiles.by_op import by_op
from profiles.figures_by_op import thinned
from profiles.series import memory_curve

# Some ops share a name, as they may in a graph from elsewhere.
NAMES = [f"op{i // 2 if i > 5 else i}" for i in range(9)]
orders = st.permutations(range(len(NAMES)))


def run_of(order: list[int], names: list[str] = NAMES, again: dict[int, int] | None = None) -> Profile:
    """A profile whose graph has an op per name and which runs them in an order, each for 10 ns; ``again`` says which
    op some others recompute."""
    ops = tuple(
        replace(GRAPH.ops[0], id=i, name=name, after=(), recompute_of=(again or {}).get(i))
        for i, name in enumerate(names)
    )
    graph = Graph("any", ops, GRAPH.storages)
    profile = profile_of(replace(keep_schedule(), graph=graph))
    start = np.arange(len(order), dtype=np.int64) * 10
    op = np.array(order, dtype=np.int64)
    return replace(profile, ops=OpEvents(op * 0, op, start, start + 10, op * 0))


def longest_common(a: list[object], b: list[object]) -> int:
    """By the textbook table."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(st.lists(orders, min_size=2, max_size=4), st.data())
@settings(deadline=None, max_examples=60)
def test_every_run_goes_along_the_axis_and_keeps_what_is_in_order(runs: list[list[int]], data: st.DataObject) -> None:
    baseline = data.draw(st.integers(0, len(runs) - 1))
    profiles = [run_of(order) for order in runs]
    names = identities(profiles[0].schedule.graph.ops)
    aligned = align_ops(profiles, baseline)
    for order, places in zip(runs, aligned.places, strict=True):
        assert np.all(np.diff(places) > 0)
        assert [aligned.order[p] for p in places.tolist()] == [names[op] for op in order]
    # The axis is as short as two runs allow: every op in common order stands at one place.
    first = next(n for n in range(len(runs)) if n != baseline)
    own, other = ([names[op] for op in runs[n]] for n in (baseline, first))
    shared = np.isin(aligned.places[first], aligned.places[baseline]).sum()
    assert shared == longest_common(own, other)
    assert aligned.reordered(first, baseline) == (own != other)


@given(st.sets(st.integers(0, len(NAMES) - 1)), orders)
@settings(deadline=None, max_examples=40)
def test_a_recomputed_op_is_a_second_run_of_its_own_op(recomputed: set[int], order: list[int]) -> None:
    """A run that recomputes some ops keeps all its first runs over those of a run that does not."""
    names = [*NAMES, *(f"{NAMES[op]} (recomputed)" for op in sorted(recomputed))]
    again = {len(NAMES) + k: op for k, op in enumerate(sorted(recomputed))}
    plain, recomputing = run_of(order), run_of([*order, *again], names, again)
    aligned = align_ops([plain, recomputing])
    assert aligned.places[1][: len(order)].tolist() == aligned.places[0].tolist()
    second = [aligned.order[p] for p in aligned.places[1][len(order) :].tolist()]
    first = dict(enumerate(identities(plain.schedule.graph.ops)))
    assert second == [first[op]._replace(run=1) for op in again.values()]
    assert not aligned.reordered(1, 0)


def test_ops_of_one_name_are_told_apart_by_their_number() -> None:
    assert [tuple(i) for i in identities(run_of([0], ["a", "b", "a"]).schedule.graph.ops)] == [
        ("a", 0, 0),
        ("b", 0, 0),
        ("a", 1, 0),
    ]


def test_a_slow_and_a_fast_run_lie_over_each_other() -> None:
    fast, slow = profile_of(keep_schedule()), profile_of(offload_schedule())
    aligned = by_op([fast, slow])
    assert [course.place.tolist() for course in aligned.courses] == [[0, 1, 2, 3]] * 2
    assert [i.name for i in aligned.order] == ["embed", "mix", "relu", "head"]
    assert aligned.courses[0].behind_ns.tolist() == [0, 0, 0, 0]
    assert aligned.courses[1].behind_ns.tolist() == [0, 0, 0, 20]
    # What is held until the next op begins: "act" is on its way back while "relu" runs.
    assert [c.bytes.tolist() for c in aligned.courses] == [[1500, 1750, 1700, 1704], [1500, 1750, 1700, 1704]]
    for profile, course in zip((fast, slow), aligned.courses, strict=True):
        assert course.bytes.max() == memory_curve(profile).peak[1]


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=400), st.integers(1, 20))
@settings(deadline=None, max_examples=40)
def test_a_thinned_line_keeps_its_extremes(values: list[int], bins: int) -> None:
    column = np.array(values, dtype=np.int64)
    place, kept = thinned(np.arange(len(values), dtype=np.int64), column, bins)
    assert len(kept) <= 2 * bins + 2
    assert (kept.min(), kept.max()) == (column.min(), column.max())
    assert kept.tolist() == column[place].tolist()
