"""Explanations: what each transfer, stall and storage of a step is about, on schedules whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.explain.explanation import explain, explanation_document
from hyperoffload_core.explain.moves import move_verdicts
from hyperoffload_core.explain.remedies import Remedy, Replays, remedies_of
from hyperoffload_core.explain.stalls import Stall, lost_time
from hyperoffload_core.explain.step import step_of
from hyperoffload_core.explain.storages import StorageDecision, storage_decisions
from hyperoffload_core.explain.verdicts import verdicts_of
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.recomputation import Recomputation, recompute
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate
from tests.graphs import TINY_HALF, GraphBuilder, adjacent_layers, chain, training
from tests.naive_schedule import naive_schedule, random_schedule
from tests.random_times import simulate_random

schedules = st.randoms(use_true_random=False).map(random_schedule)


def one_stall(schedule: Schedule) -> Stall:
    stalls = lost_time(step_of(schedule)).stalls
    assert len(stalls) == 1
    return stalls[0]


def weights(*sizes: int) -> Graph:
    """Ops one after the other, each with a weight of its own, if its size is not 0."""
    b = GraphBuilder("weights")
    x = b.storage("x", 1, "input")
    for i, size in enumerate(sizes):
        out = b.storage(f"a{i}", 1, "output" if i == len(sizes) - 1 else "activation")
        b.op(f"layer:{i}", [x, *([b.storage(f"w{i}", size, "weight", True)] if size else [])], [out])
        x = out
    return b.graph()


def from_pool(graph: Graph, ahead: dict[str, int], durations: list[int], limit: int | None = None) -> Schedule:
    """The named weights live in the pool and are asked for so many ops ahead."""
    ids = {s.name: s.id for s in graph.storages}
    schedule = naive_schedule(
        graph,
        homes={ids[name]: "pool" for name in ahead},
        ahead={ids[name]: ops for name, ops in ahead.items()},
        durations_ns=durations,
    )
    return schedule if limit is None else replace(schedule, memory_limit_bytes=limit)


# --- stalls whose cause is known ------------------------------------------------------------------------------------


def test_a_stall_of_a_prefetch_asked_for_too_late_is_the_orders() -> None:
    """w3 (103 ns) is asked for when layer 2 has ended; there is room and a free link from the start."""
    schedule = from_pool(weights(0, 0, 0, 100), {"w3": 0}, [60] * 4, limit=1000)
    stall = one_stall(schedule)
    assert (stall.op, stall.lost_ns, stall.cause) == (3, 103, "order")
    best = stall.remedies[0]
    assert (best.kind, best.gain_ns, best.bytes_over) == ("start earlier", 103, 0)
    assert "op 'layer:3' waited 103 ns for the Prefetch of 'w3', which is placed behind op 'layer:2'" in stall.text


def test_a_stall_for_want_of_room_is_the_memory_limits() -> None:
    """w3 goes where w2 was: the limit has no room for both. A limit 99 bytes higher would have."""
    schedule = from_pool(weights(0, 0, 100, 100), {"w2": 2, "w3": 0}, [60] * 4, limit=103)
    stall = one_stall(schedule)
    assert (stall.op, stall.lost_ns, stall.cause) == (3, 103, "memory")
    higher = next(r for r in stall.remedies if r.kind == "higher limit")
    # w2 arrives at 103 ns; then w3 could come and be there at 206, 26 ns after layer 2
    assert higher.gain_ns == 103 - 26
    assert higher.bytes_over == 100 + 100 + 2 - 103
    assert all(r.bytes_over for r in stall.remedies if r.kind != "faster link")


def test_a_stall_behind_a_busy_link_is_the_links() -> None:
    """Three weights of 103 ns each are asked for at the start; the ops before them take 60 ns."""
    schedule = from_pool(weights(0, 100, 100, 100), {"w1": 9, "w2": 9, "w3": 9}, [60] * 4, limit=1000)
    lost = lost_time(step_of(schedule))
    assert [(s.op, s.lost_ns, s.cause) for s in lost.stalls] == [
        (1, 43, "dependency"),
        (2, 43, "link"),
        (3, 43, "link"),
    ]
    last = lost.stalls[-1]
    assert (last.chain[0].run_count, last.chain[0].run_bytes, last.chain[0].since_ns) == (3, 300, 0)
    assert {r.kind for r in last.remedies} == {"keep resident", "faster link"}
    assert lost.by_cause == {"link": 86, "dependency": 43}


def test_a_stall_of_data_that_was_just_made_is_the_dependencys() -> None:
    """An activation leaves after its producer and is back for the next but one op: 206 ns of copies beside 60."""
    b = GraphBuilder("short gap")
    x, a, y, z = b.storage("x", 1, "input"), b.storage("a", 100), b.storage("y", 1), b.storage("z", 1, "output")
    b.op("make", [x], [a])
    b.op("between", [x], [y])
    b.op("use", [a, y], [z])
    schedule = naive_schedule(b.graph(), gaps=[(a, 0)], ahead=9, durations_ns=[60] * 3)
    stall = one_stall(schedule)
    assert (stall.op, stall.lost_ns, stall.cause) == (2, 146, "dependency")
    assert [link.cause for link in stall.chain] == ["dependency", "dependency"]
    assert stall.remedies[0].kind == "keep resident"
    assert stall.remedies[0].gain_ns == 146


def test_an_op_that_waits_for_the_bytes_of_a_store_waits_for_memory() -> None:
    b = GraphBuilder("full")
    x, a, c, z = b.storage("x", 1, "input"), b.storage("a", 100), b.storage("c", 100), b.storage("z", 1, "output")
    b.op("make", [x], [a])
    b.op("fill", [x], [c])
    b.op("rest", [c], [x])
    b.op("use", [a, x], [z])
    schedule = naive_schedule(b.graph(), gaps=[(a, 0)], durations_ns=[60] * 4)
    waiting = next(s for s in lost_time(step_of(schedule)).stalls if s.op == 1)
    assert (waiting.lost_ns, waiting.cause) == (103, "memory")
    assert "for the bytes of the Store of 'a'" in waiting.text
    assert waiting.remedies[0].kind in ("higher limit", "keep resident")
    roomy = replace(schedule, memory_limit_bytes=1000)
    waiting = next(s for s in lost_time(step_of(roomy)).stalls if s.op == 1)
    assert waiting.cause == "order"
    assert "other address" in {r.kind for r in waiting.remedies}


def test_what_is_needed_first_is_told_to_go_first() -> None:
    """Both are asked for at the start, and the one that is needed two ops later goes first."""
    b = GraphBuilder("wrong order")
    later, sooner = b.storage("later", 100, "weight", True), b.storage("sooner", 100, "weight", True)
    x, z = b.storage("x", 1, "input"), b.storage("z", 1, "output")
    b.op("begin", [x], [x])
    b.op("first", [x, sooner], [x])
    b.op("long", [x], [x])
    b.op("second", [x, later], [z])
    schedule = from_pool(b.graph(), {"later": 9, "sooner": 9}, [60, 60, 200, 60], limit=1000)
    stall = one_stall(schedule)
    assert (stall.op, stall.lost_ns, stall.cause) == (1, 206 - 60, "link")
    assert (stall.remedies[0].kind, stall.remedies[0].gain_ns) == ("reorder", 103)
    assert "let the Prefetch of 'sooner' go before the Prefetch of 'later'" in stall.remedies[0].text


def test_adjacent_layers_are_told_to_be_asked_for_earlier() -> None:
    graph = adjacent_layers(8, 100)
    schedule = from_pool(graph, {"w2": 2, "w3": 0, "w6": 2, "w7": 0}, [60] * 8, limit=1000)
    stalls = lost_time(step_of(schedule)).stalls
    assert {(s.op, s.lost_ns, s.cause) for s in stalls} == {(3, 103, "order"), (7, 103, "order")}
    assert {s.remedies[0].kind for s in stalls} == {"start earlier"}
    assert {s.remedies[0].gain_ns for s in stalls} == {77}


# --- moves, parts, values -------------------------------------------------------------------------------------------


def test_the_parts_of_a_move_are_one_move() -> None:
    graph = chain(4, 90)
    whole, parts = (naive_schedule(graph, gaps=[(1, 0)], parts=n) for n in (1, 3))
    moves = move_verdicts(step_of(parts))
    assert [(m.kind, m.bytes, len(m.parts)) for m in moves] == [("store", 90, 3), ("prefetch", 90, 3)]
    assert [m.cause for m in moves] == [m.cause for m in move_verdicts(step_of(whole))]
    for m in moves:
        assert m.hidden_ns + m.exposed_ns == 3 * 33


def test_a_hidden_transfer_needs_no_remedy() -> None:
    schedule = from_pool(weights(0, 0, 0, 100), {"w3": 9}, [60] * 4)
    (move,) = move_verdicts(step_of(schedule))
    assert (move.blocking_ns, move.exposed_ns, move.slack_ns) == (0, 0, 180 - 103)
    assert move.remedy == Remedy("nothing", 0, "it is hidden already")


@settings(max_examples=80, deadline=None)
@given(schedules)
def test_times_add_up(schedule: Schedule) -> None:
    found = explain(schedule)
    assert found.lost.total_ns == found.step_ns - found.compute_ns == sum(m.blocking_ns for m in found.moves)
    assert sum(found.lost.by_cause.values()) == found.lost.total_ns
    for m in found.moves:
        assert m.hidden_ns + m.exposed_ns == sum(t.end_ns - t.start_ns for t in schedule.transfers if t.id in m.parts)
    assert sorted(p for m in found.moves for p in m.parts) == sorted(t.id for t in schedule.transfers)
    assert [d.storage for d in found.storages] == list(range(len(schedule.graph.storages)))
    assert explanation_document(found)["lost_ns"] == found.lost.total_ns


@settings(max_examples=60, deadline=None)
@given(schedules, st.integers(0, 1 << 32))
def test_a_move_may_really_end_later_by_its_slack(schedule: Schedule, seed: int) -> None:
    """All its parts late by that much at once: no op starts later and the step is as long."""
    moves = move_verdicts(step_of(schedule))
    if not moves:
        return
    move = Random(seed).choice(moves)
    delayed = [t.end_ns - t.start_ns for t in schedule.transfers]
    late = next(i for i, t in enumerate(schedule.transfers) if t.id == move.parts[0])
    delayed[late] += move.slack_ns
    profile = simulate(schedule, transfer_ns=delayed)
    planned = simulate(schedule)
    assert profile.ops.start_ns.tolist() == planned.ops.start_ns.tolist()
    assert int(profile.steps.step_ns[0]) == int(planned.steps.step_ns[0])


@settings(max_examples=60, deadline=None)
@given(schedules, st.integers(0, 1 << 32))
def test_a_transfer_that_blocks_has_no_slack_however_long_the_program_takes_to_wake_up(
    schedule: Schedule, seed: int
) -> None:
    """As in a measured step, ops and transfers start a little after the last thing they waited for has ended."""
    rng, step = Random(seed), step_of(schedule)
    late = replace(
        step,
        op_start=[rng.randrange(start, end) for start, end in zip(step.op_start, step.op_end, strict=True)],
        start={t: rng.randrange(start, step.end[t]) for t, start in step.start.items()},
    )
    for verdict in verdicts_of(late):
        assert verdict.slack_ns >= 0
        assert not (verdict.blocking_ns and verdict.slack_ns)


@settings(max_examples=60, deadline=None)
@given(schedules, st.integers(0, 1 << 32))
def test_a_step_with_other_times_than_planned_is_explained_as_well(schedule: Schedule, seed: int) -> None:
    import numpy as np

    profile = simulate_random(schedule, np.random.default_rng(seed))
    found = explain(profile)
    assert found.step_ns == int(profile.steps.step_ns[0])
    assert found.lost.total_ns == int(profile.steps.blocking_ns[0]) == sum(m.blocking_ns for m in found.moves)


@settings(max_examples=60, deadline=None)
@given(schedules)
def test_no_remedy_promises_more_than_all_lost_time(schedule: Schedule) -> None:
    step = step_of(schedule)
    replays = Replays(step)
    assert replays.base_ns == step.end_ns
    for t in schedule.transfers:
        for remedy in remedies_of(replays, t.id):
            assert remedy.gain_ns is not None
            assert 0 < remedy.gain_ns <= step.end_ns - schedule.metrics.compute_ns


# --- storages -------------------------------------------------------------------------------------------------------


def decisions(schedule: Schedule) -> dict[str, StorageDecision]:
    names = [s.name for s in schedule.graph.storages]
    return {names[d.storage]: d for d in storage_decisions(step_of(schedule))}


def test_what_leaves_says_which_op_would_otherwise_be_over_the_limit() -> None:
    """a (100) is away while the big op needs 150; with it that would be 251 bytes under a limit of 200."""
    b = GraphBuilder("peak")
    x, a, big, z = b.storage("x", 1, "input"), b.storage("a", 100), b.storage("big", 150), b.storage("z", 1, "output")
    b.op("make", [x], [a])
    b.op("large", [x], [big])
    b.op("small", [big], [x])
    b.op("use", [a, x], [z])
    schedule = replace(naive_schedule(b.graph(), gaps=[(a, 0)], durations_ns=[500] * 4), memory_limit_bytes=200)
    found = decisions(schedule)["a"]
    assert (found.stays, found.reason) == (False, "the limit")
    assert [(a.op, a.over_bytes) for a in found.absences] == [(1, 51)]
    assert (found.keep_over_bytes, found.keep_peak_bytes, found.saved_bytes) == (51, 251, 251 - 151)
    assert (found.bytes_out, found.bytes_in, found.link_ns) == (100, 100, 206)
    assert "with it, memory at op 'large' would be 51 B over the limit of 200 B" in found.text
    assert decisions(schedule)["big"].reason == "no gap"
    (gain,) = (d.keep_gain_ns for d in storage_decisions(step_of(schedule), [a]) if d.storage == a)
    assert gain == schedule.metrics.step_ns - schedule.metrics.compute_ns


def test_what_stays_says_why() -> None:
    graph = training(3, 50)
    plain = naive_schedule(graph)
    assert {d.reason for d in decisions(plain).values() if not d.stays} == set()
    assert decisions(plain)["w0"].reason == "never over the limit"
    tight = replace(plain, memory_limit_bytes=100)
    assert decisions(tight)["w0"].reason == "gaps too short"
    slow = replace(naive_schedule(graph, durations_ns=[5000] * len(graph.ops)), memory_limit_bytes=100)
    assert decisions(slow)["w0"].reason == "nothing leaves"


def test_what_is_computed_again_leaves_without_a_copy() -> None:
    """a (100) is made again for the last op; meanwhile the op between needs y (150) and the input (10)."""
    b = GraphBuilder("again")
    x, a, y, z = b.storage("x", 10, "input"), b.storage("a", 100), b.storage("y", 150), b.storage("z", 10, "output")
    b.op("make", [x], [a])
    b.op("use", [a], [y])
    b.op("between", [y], [y])
    b.op("last", [a, y, x], [z])
    graph = recompute(b.graph(), [Recomputation((0,), 3, (3,))])
    schedule = replace(naive_schedule(graph, durations_ns=[50] * 5), memory_limit_bytes=200)
    found = decisions(schedule)
    assert set(found) == {"x", "a", "y", "z"}
    assert (found["a"].reason, found["a"].stays) == ("recomputed", False)
    assert [(gap.start_ns, gap.end_ns, gap.over_bytes) for gap in found["a"].absences] == [(100, 150, 60)]
    assert "computing it again takes 50 ns" in found["a"].text


def test_rules_are_named() -> None:
    graph = training(2, 50)
    ids = {s.name: s.id for s in graph.storages}
    policy = {
        "rules": [{"class": "weight", "action": "keep"}, {"class": "optimizer_state", "action": "offload"}],
    }
    schedule = replace(naive_schedule(graph, homes={ids["m0"]: "pool"}), policy=policy)
    found = decisions(schedule)
    assert (found["w0"].reason, found["w0"].rule) == ("kept by a rule", 1)
    assert (found["m0"].reason, found["m0"].rule) == ("offloaded by a rule", 2)
    assert "rule 1 of the policy keeps it" in found["w0"].text
    assert found["dw0"].rule is None


def test_a_policy_of_another_program_names_no_rule() -> None:
    schedule = replace(naive_schedule(training(2)), policy={"knobs": 3})
    assert {d.rule for d in decisions(schedule).values()} == {None}


@pytest.mark.parametrize("half", [False, True])
def test_a_half_duplex_link_is_one_link(half: bool) -> None:
    hardware = {"hardware": TINY_HALF} if half else {}
    schedule = naive_schedule(training(3, 200), gaps=[(s, k) for s in range(9) for k in range(-1, 3)], **hardware)
    found = explain(schedule)
    assert found.lost.total_ns == schedule.metrics.blocking_ns
    assert found.lost.by_cause
