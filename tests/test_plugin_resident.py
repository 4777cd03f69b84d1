"""Pages that dead tensors give back: only the dead ones', only where the process would hold too much."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.mindspore_plugin.chain import Chain, Done, Release, RunOp, Start, build_chain
from hyperoffload_core.mindspore_plugin.insertion import last_readers
from hyperoffload_core.mindspore_plugin.resident import with_releases
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule
from tests.graphs import TINY, training

MB = 1 << 20


def scheduled(layers: int, limit: str) -> Schedule:
    graph = training(layers, MB)
    policy = Policy(strategy="lookahead", memory_limit=limit)
    return compile_schedule(graph, Durations((2_000_000,) * len(graph.ops), "given"), TINY, policy)


def released(schedule: Schedule, releasable: set[int] | None = None) -> tuple[Chain, dict[int, int]]:
    readers = last_readers(schedule)
    moved = {t.storage for t in schedule.transfers}
    movable = {s for s in moved if s in readers or schedule.graph.storages[s].persistent}
    chain = build_chain(schedule, movable, readers)
    return with_releases(chain, schedule, readers, readers if releasable is None else releasable), readers


def test_a_schedule_without_moves_releases_nothing() -> None:
    chain, _ = released(scheduled(6, "100%"))
    assert not [i for i in chain.items if isinstance(i, Release)]


def test_parameters_that_come_back_make_dead_tensors_release() -> None:
    chain, _ = released(scheduled(8, "60%"))
    assert [i for i in chain.items if isinstance(i, Release)]


def test_what_cannot_release_does_not() -> None:
    chain, _ = released(scheduled(8, "60%"), set())
    assert not [i for i in chain.items if isinstance(i, Release)]


@given(st.integers(5, 9), st.sampled_from(("90%", "75%", "60%")))
@settings(max_examples=30, deadline=None)
def test_only_a_value_that_nobody_reads_any_more_is_released(layers: int, limit: str) -> None:
    schedule = scheduled(layers, limit)
    chain, readers = released(schedule)
    position = -1
    there: Counter[int] = Counter()
    stored: set[int] = set()
    for item in chain.items:
        match item:
            case RunOp(op):
                position += 1
                there.update(s for s in schedule.graph.ops[op].writes if not there[s])
                # Nothing reads a value after its pages went.
                assert all(there[s] for s in schedule.graph.ops[op].reads if s in readers)
            case Start(move) if move.kind == "prefetch":
                there[move.storage] = 1
            case Done(move) if move.kind == "store":
                stored.add(move.storage)
            case Release(storage):
                assert there[storage]
                assert position >= readers[storage] or storage in stored
                assert not schedule.graph.lives_to_end(storage)
                there[storage] = 0
