"""paged-kv: least recent use on caches small enough to follow by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.strategies.base import OptionValue
from hyperoffload_core.strategies.paged_kv import Eviction, steady_evictions
from tests.graphs import TINY, GraphBuilder, training

BLOCK = 1000


def decode(layers: int) -> Graph:
    """One token through ``layers``: each writes its cache in place, and two more ops until the next one's turn."""
    b = GraphBuilder(f"decode{layers}")
    x = b.storage("x", 1, "input")
    for i in range(layers):
        cache = b.storage(f"kv{i}", BLOCK, "kv_cache", True)
        for name in ("attend", "project", "mlp"):
            out = b.storage(f"{name}{i}", 1, "output" if (i, name) == (layers - 1, "mlp") else "activation")
            b.op(
                f"{name}:{i}",
                [x, *([cache] if name == "attend" else [])],
                [out, *([cache] if name == "attend" else [])],
            )
            x = out
    return b.graph()


def compiled(graph: Graph, limit: str, rules: tuple[Rule, ...] = (), **options: OptionValue) -> Schedule:
    policy = Policy(memory_limit=limit, strategy="paged-kv", rules=rules, options=options)
    return compile_schedule(graph, Durations((2000,) * len(graph.ops), "made up"), TINY, policy)


def moved(schedule: Schedule) -> set[str]:
    return {schedule.graph.storages[t.storage].name for t in schedule.transfers}


def test_a_cache_that_fits_stays() -> None:
    assert compiled(decode(4), "100%").transfers == ()


def test_without_a_cache_nothing_moves_and_the_schedule_says_so() -> None:
    schedule = compiled(training(2), "100%")
    assert schedule.transfers == ()
    assert "this graph has no KV cache, so nothing moves" in schedule.notes


def test_one_block_too_many_makes_a_repeating_step_reload_all_of_them() -> None:
    # 0 1 2 0 1 2 ...: the least recently used block is always the one needed next.
    touched = [[0], [], [1], [], [2], []]
    room = np.full(6, 8)
    found = steady_evictions({0: 4, 1: 4, 2: 4}, touched, room)
    # Room is made at the op ahead of the one that needs the block.
    assert found == [Eviction(2, 1), Eviction(0, 3), Eviction(1, 5)]


def test_blocks_that_stay_in_use_are_not_evicted() -> None:
    touched = [[0], [1], [0], [2]]
    assert steady_evictions({0: 4, 1: 4, 2: 4}, touched, np.full(4, 12)) == []
    assert {e.storage for e in steady_evictions({0: 4, 1: 4, 2: 4}, touched, np.full(4, 8))} == {1, 2}


def test_kept_blocks_and_a_full_host_are_respected() -> None:
    touched = [[0], [], [1], [], [2], []]
    blocks, room = {0: 4, 1: 4, 2: 4}, np.full(6, 8)
    assert 0 not in {e.storage for e in steady_evictions(blocks, touched, room, {0})}
    assert len({e.storage for e in steady_evictions(blocks, touched, room, (), 8)}) == 2


@pytest.mark.parametrize("blocks", [2, 3, 5])
def test_what_does_not_fit_lives_in_the_pool_and_the_limit_holds(blocks: int) -> None:
    graph = decode(6)
    schedule = compiled(graph, f"{blocks * BLOCK + 10}B")
    assert schedule.metrics.reserved_bytes <= schedule.memory_limit_bytes
    assert moved(schedule) == {f"kv{i}" for i in range(6)}
    assert {home for s, home in zip(graph.storages, schedule.homes, strict=True) if s.tensor_class == "kv_cache"} == {
        "pool"
    }


def test_a_written_block_is_copied_out_at_once_and_loads_start_with_the_step() -> None:
    schedule = compiled(decode(6), f"{5 * BLOCK + 10}B")
    cache = {s.name: s.id for s in schedule.graph.storages}
    stores = {t.storage: t for t in schedule.transfers if t.kind == "store"}
    assert [stores[cache[f"kv{i}"]].after_ops for i in range(6)] == [(3 * i,) for i in range(6)]
    early = [t for t in schedule.transfers if t.kind == "prefetch" and not t.after_ops]
    assert len(early) >= 3
    assert [t.storage for t in sorted(early, key=lambda t: t.start_ns)] == sorted(t.storage for t in early)


def test_a_kept_block_stays() -> None:
    schedule = compiled(decode(6), f"{4 * BLOCK}B", (Rule(name="kv2", action="keep"),))
    assert "kv2" not in moved(schedule)
    assert moved(schedule)


def test_host_memory_bounds_what_leaves() -> None:
    graph = decode(6)
    one_block = BLOCK / (1 << 30)
    assert len(moved(compiled(graph, f"{3 * BLOCK}B", kv_offloading_size=2 * one_block))) == 2
