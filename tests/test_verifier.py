"""The verifier accepts safe schedules and names the broken rule of every other one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.ir import Op, Storage
from hyperoffload_core.passes.recomputation import Recomputation, recompute
from hyperoffload_core.schedule import Schedule, Transfer
from hyperoffload_core.verifier import ScheduleViolation, verify, violations
from tests.byte_machine import Corruption, run_bytes
from tests.graphs import TINY_HALF, GraphBuilder, chain, race, training
from tests.mutations import MUTATIONS, RECOMPUTE_MUTATIONS
from tests.naive_schedule import naive_schedule, random_durations, random_schedule
from tests.recomputations import random_recomputed_schedule
from tests.slow_events import breaks

Damage = Callable[[Schedule], Schedule]


def step() -> Schedule:
    """A step in which every kind of stay occurs.

    ``w`` lives in the pool, is dropped clean and fetched again, updated and stored; ``m`` lives on the device, leaves
    at once, comes back for its update, leaves and comes home; ``a`` is offloaded between its two readers.
    """
    b = GraphBuilder("step")
    x, w, m = (
        b.storage("x", 5, "input"),
        b.storage("w", 40, "weight", True),
        b.storage("m", 40, "optimizer_state", True),
    )
    a, y, g, out = b.storage("a", 30), b.storage("y", 20), b.storage("g", 40, "gradient"), b.storage("out", 4, "output")
    b.op("forward", [x, w], [a])
    b.op("other:0", [x], [y])
    b.op("other:1", [y], [y], workspace=7)
    b.op("backward", [a, y], [g], "backward")
    b.op("adam", [g, w, m], [w, m], "optimizer")
    b.op("finish", [y], [out])
    return naive_schedule(b.graph(), gaps=[(w, 0), (m, -1), (m, 0), (a, 0)], homes={w: "pool"}, durations_ns=[90] * 6)


def moved(schedule: Schedule, kind: str, storage: str, which: int = 0) -> Transfer:
    names = [s.name for s in schedule.graph.storages]
    return [t for t in schedule.transfers if t.kind == kind and names[t.storage] == storage][which]


def with_transfer(schedule: Schedule, transfer: Transfer, **changes: object) -> Schedule:
    rows = [replace(t, **changes) if t.id == transfer.id else t for t in schedule.transfers]  # type: ignore[arg-type]
    return replace(schedule, transfers=tuple(rows))


def without_transfer(schedule: Schedule, transfer: Transfer) -> Schedule:
    return replace(
        schedule,
        transfers=tuple(
            replace(t, after_transfers=tuple(o for o in t.after_transfers if o != transfer.id))
            for t in schedule.transfers
            if t.id != transfer.id
        ),
        op_times=tuple(replace(t, waits=tuple(w for w in t.waits if w != transfer.id)) for t in schedule.op_times),
    )


def with_op(schedule: Schedule, op: int, **changes: object) -> Schedule:
    rows = [replace(t, **changes) if t.op == op else t for t in schedule.op_times]  # type: ignore[arg-type]
    return replace(schedule, op_times=tuple(rows))


def with_stay(schedule: Schedule, storage: str, which: int, **changes: object) -> Schedule:
    names = [s.name for s in schedule.graph.storages]
    rows = [i for i, r in enumerate(schedule.residencies) if names[r.storage] == storage]
    stays = list(schedule.residencies)
    stays[rows[which]] = replace(stays[rows[which]], **changes)  # type: ignore[arg-type]
    return replace(schedule, residencies=tuple(stays))


def stay_of(schedule: Schedule, storage: str, which: int) -> tuple[int, int, int]:
    names = [s.name for s in schedule.graph.storages]
    r = [r for r in schedule.residencies if names[r.storage] == storage][which]
    return r.offset, r.start_ns, r.end_ns


def shifted(schedule: Schedule, transfer: Transfer, start_ns: int) -> Schedule:
    """A prefetch, and the stay it begins, moved to another time."""
    name = schedule.graph.storages[transfer.storage].name
    stays = [r for r in schedule.residencies if r.storage == transfer.storage]
    which = [r.start_ns for r in stays].index(transfer.start_ns)
    end_ns = start_ns + transfer.end_ns - transfer.start_ns
    return with_stay(
        with_transfer(schedule, transfer, start_ns=start_ns, end_ns=end_ns), name, which, start_ns=start_ns
    )


def damaged(damage: Damage) -> list[ScheduleViolation]:
    return violations(damage(step()))


def test_a_valid_schedule_passes() -> None:
    verify(step())
    verify(naive_schedule(training(3)))
    verify(naive_schedule(chain(4), gaps=[(1, 0), (2, 0)], parts=3))


# --- faults of the planned times -------------------------------------------------------------------------------------


def swap_dependent_ops(s: Schedule) -> Schedule:
    return MUTATIONS[-1](_Fixed(2), s)  # other:1 and backward, which reads what it wrote


class _Fixed(Random):
    def __init__(self, value: int) -> None:
        super().__init__()
        self._value = value

    def randrange(self, *_: int) -> int:  # type: ignore[override]
        return self._value


def start_prefetch_before_its_store_ended(s: Schedule) -> Schedule:
    return shifted(s, moved(s, "prefetch", "a"), moved(s, "store", "a").end_ns - 1)


def prefetch_what_was_written_since(s: Schedule) -> Schedule:
    """adam writes m; its store is gone, so the last prefetch brings the value from before."""
    return without_transfer(s, moved(s, "store", "m", 1))


def store_while_written(s: Schedule) -> Schedule:
    t = moved(s, "store", "w")
    return with_transfer(s, t, start_ns=t.start_ns - 1, end_ns=t.end_ns - 1, after_ops=())


def double_book_the_link(s: Schedule) -> Schedule:
    return shifted(s, moved(s, "prefetch", "m", 0), moved(s, "prefetch", "w", 1).end_ns - 1)


def drop_last_prefetch_home(s: Schedule) -> Schedule:
    t = moved(s, "prefetch", "m", 1)
    s = without_transfer(s, t)
    stays = tuple(r for r in s.residencies if (r.storage, r.start_ns) != (t.storage, t.start_ns))
    return replace(s, residencies=stays)


def never_store_the_updated_weight(s: Schedule) -> Schedule:
    return without_transfer(s, moved(s, "store", "w"))


def come_home_to_another_address(s: Schedule) -> Schedule:
    top = s.metrics.reserved_bytes
    return replace(with_stay(s, "m", 2, offset=top), memory_limit_bytes=0)


def not_there_at_start(s: Schedule) -> Schedule:
    """w comes from the pool, yet calls the device its home."""
    return replace(s, homes=(s.homes[0], "device", *s.homes[2:]))


def stay_ends_before_its_last_reader(s: Schedule) -> Schedule:
    return with_stay(s, "y", 0, end_ns=stay_of(s, "y", 0)[2] - 1)


def op_starts_before_the_data_arrived(s: Schedule) -> Schedule:
    t = moved(s, "prefetch", "w")
    return with_op(s, 0, start_ns=t.end_ns - 1, end_ns=t.end_ns + 89, waits=())


def nothing_brings_the_weight(s: Schedule) -> Schedule:
    return without_transfer(s, moved(s, "prefetch", "w"))


def room_reserved_too_early(s: Schedule) -> Schedule:
    return with_stay(s, "a", 1, start_ns=stay_of(s, "a", 1)[1] - 1)


def swap_addresses(s: Schedule) -> Schedule:
    return with_stay(s, "a", 0, offset=stay_of(s, "w", 0)[0])


def move_less_than_the_storage(s: Schedule) -> Schedule:
    t = moved(s, "store", "a")
    return with_transfer(s, t, bytes=t.bytes - 1, end_ns=t.end_ns - 1)


def prefetch_what_is_there(s: Schedule) -> Schedule:
    """y is on the device all along, and the link is free."""
    start = moved(s, "prefetch", "a").end_ns
    return replace(s, transfers=(*s.transfers, Transfer(99, "prefetch", 4, 20, start, start + 23)))


def wrong_op_duration(s: Schedule) -> Schedule:
    return replace(s, durations_ns=(*s.durations_ns[:-1], 91))


def wrong_transfer_duration(s: Schedule) -> Schedule:
    t = moved(s, "prefetch", "m", 1)
    return with_stay(with_transfer(s, t, end_ns=t.end_ns + 1), "m", 2, end_ns=t.end_ns + 1)


def op_before_its_predecessor_ended(s: Schedule) -> Schedule:
    start = s.op_times[-1].start_ns - 1
    s = with_stay(s, "out", 0, start_ns=start)
    return with_op(s, 5, start_ns=start, end_ns=start + 90)


def transfer_before_what_it_waits_for(s: Schedule) -> Schedule:
    """Its data is long there, but the op it names is not done."""
    return with_transfer(s, moved(s, "store", "m"), after_ops=(0,))


def lower_limit_than_live(s: Schedule) -> Schedule:
    return replace(s, memory_limit_bytes=s.metrics.peak_live_bytes - 1)


TIMED: list[tuple[Damage, str]] = [
    (swap_dependent_ops, "order"),
    (start_prefetch_before_its_store_ended, "prefetch"),
    (prefetch_what_was_written_since, "detach"),
    (store_while_written, "store"),
    (double_book_the_link, "link"),
    (drop_last_prefetch_home, "home"),
    (never_store_the_updated_weight, "home"),
    (come_home_to_another_address, "home"),
    (not_there_at_start, "home"),
    (stay_ends_before_its_last_reader, "residency"),
    (op_starts_before_the_data_arrived, "residency"),
    (nothing_brings_the_weight, "residency"),
    (room_reserved_too_early, "residency"),
    (swap_addresses, "address"),
    (move_less_than_the_storage, "transfer"),
    (prefetch_what_is_there, "transfer"),
    (wrong_op_duration, "time"),
    (wrong_transfer_duration, "time"),
    (op_before_its_predecessor_ended, "time"),
    (transfer_before_what_it_waits_for, "time"),
    (lower_limit_than_live, "limit"),
]


@pytest.mark.parametrize(("damage", "rule"), TIMED, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_fault_in_the_planned_times_is_named_by_its_rule(damage: Damage, rule: str) -> None:
    found = damaged(damage)
    assert found
    timed = [v for v in found if v.form == "timed"]
    assert timed[0].rule == rule, [f"{v.rule} {v.form}: {v}" for v in found]
    with pytest.raises(ScheduleViolation, match=r"at \S+ ms"):
        verify(damage(step()))


# --- faults that only other durations show ---------------------------------------------------------------------------


def op_does_not_wait_for_its_prefetch(s: Schedule) -> Schedule:
    return with_op(s, 0, waits=())


def store_does_not_wait_for_the_writer(s: Schedule) -> Schedule:
    return with_transfer(s, moved(s, "store", "w"), after_ops=())


def reload_does_not_wait_for_the_offload(s: Schedule) -> Schedule:
    t = moved(s, "prefetch", "a")
    return with_transfer(s, t, after_transfers=())


def stay_does_not_wait_for_the_last_reader(s: Schedule) -> Schedule:
    """The place of m at home is used by others in between; its last prefetch forgets them."""
    t = moved(s, "prefetch", "m", 1)
    return with_transfer(s, t, after_ops=(), after_transfers=())


def limit_between_live_and_reserved(s: Schedule) -> Schedule:
    assert s.metrics.peak_live_bytes < s.metrics.reserved_bytes
    return replace(s, memory_limit_bytes=s.metrics.peak_live_bytes)


def wait_in_a_circle(s: Schedule) -> Schedule:
    t = moved(s, "prefetch", "w")
    return with_transfer(s, t, after_ops=(0,))


EVENTS: list[tuple[Damage, str]] = [
    (op_does_not_wait_for_its_prefetch, "residency"),
    (store_does_not_wait_for_the_writer, "store"),
    (reload_does_not_wait_for_the_offload, "prefetch"),
    (stay_does_not_wait_for_the_last_reader, "prefetch"),
    (limit_between_live_and_reserved, "limit"),
    (wait_in_a_circle, "deadlock"),
]


@pytest.mark.parametrize(("damage", "rule"), EVENTS, ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_missing_edge_is_found_although_the_times_are_fine(damage: Damage, rule: str) -> None:
    found = damaged(damage)
    assert rule in [v.rule for v in found if v.form == "events"], [f"{v.rule} {v.form}: {v}" for v in found]
    if rule != "deadlock":
        assert all(v.form == "events" for v in found)


def test_bytes_are_reused_only_after_the_store_that_frees_them() -> None:
    """GIVEN b takes the bytes of a, which a store still reads THEN its writer must wait for that store."""
    b = GraphBuilder("reuse")
    first, second, out = b.storage("a", 50), b.storage("b", 50), b.storage("out", 1, "output")
    b.op("make a", [], [first])
    b.op("make b", [], [second])
    b.op("use b", [second], [out])
    b.op("use a", [first], [out])
    schedule = naive_schedule(b.graph(), gaps=[(first, 0)])
    verify(schedule)
    found = violations(with_op(schedule, 1, waits=()))
    assert [(v.rule, v.form, v.op, v.storage) for v in found] == [("address", "events", 1, second)]


def test_a_reload_that_races_its_own_offload_is_told_with_the_earliest_safe_start() -> None:
    """The public case: copy-out and copy-in on two streams and no dependency between them."""
    schedule = naive_schedule(race(), gaps=[(1, 0)], durations_ns=[50] * 4)
    store, prefetch = moved(schedule, "store", "a"), moved(schedule, "prefetch", "a")
    raced = with_transfer(schedule, prefetch, after_transfers=())
    with pytest.raises(ScheduleViolation) as caught:
        verify(raced)
    assert (caught.value.rule, caught.value.form, caught.value.storage) == ("prefetch", "events", 1)
    assert f"earliest safe start is {store.end_ns / 1e6:.6g} ms" in str(caught.value)
    assert "prefetch" in str(caught.value) and "before store" in str(caught.value)


def test_a_half_duplex_link_carries_one_transfer_in_either_direction() -> None:
    schedule = naive_schedule(training(3), gaps=[(s, k) for s in range(9) for k in range(-1, 4)])
    directions = [
        [(t.start_ns, t.end_ns) for t in schedule.transfers if t.kind == kind] for kind in ("store", "prefetch")
    ]
    assert any(a < d and c < b for a, b in directions[0] for c, d in directions[1])
    verify(schedule)
    found = violations(replace(schedule, hardware=TINY_HALF))
    assert "link" in {v.rule for v in found}


def test_parts_of_a_transfer_must_cover_the_storage_once() -> None:
    schedule = naive_schedule(race(), gaps=[(1, 0)], parts=4)
    verify(schedule)
    part = moved(schedule, "store", "a", 2)
    for offset in (part.offset_bytes - 1, part.offset_bytes + 1):
        found = violations(with_transfer(schedule, part, offset_bytes=offset))
        assert found[0].rule == "transfer" and found[0].storage == 1


def test_a_workspace_must_fit_beside_whatever_is_there() -> None:
    """The workspace is placed beside the residencies, not above them: allowed while the bytes suffice at any time."""
    b = GraphBuilder("workspace")
    first, second, out = b.storage("a", 50), b.storage("b", 60), b.storage("out", 10, "output")
    b.op("one", [], [first], workspace=5)
    b.op("two", [first], [second])
    b.op("three", [second], [out], workspace=60)
    schedule = naive_schedule(b.graph())
    top = max(r.offset + schedule.graph.storages[r.storage].bytes for r in schedule.residencies)
    assert top == 110
    tight = replace(schedule, memory_limit_bytes=130, metrics=replace(schedule.metrics, reserved_bytes=110))
    verify(tight)
    found = violations(replace(tight, memory_limit_bytes=125))
    assert (found[0].rule, found[0].op) == ("limit", 2)


@pytest.mark.parametrize(
    "name",
    [
        "step_ns",
        "compute_ns",
        "peak_live_bytes",
        "reserved_bytes",
        "bytes_out",
        "bytes_in",
        "exposed_ns",
        "blocking_ns",
    ],
)
def test_metrics_must_follow_from_the_timeline(name: str) -> None:
    schedule = step()
    wrong = replace(
        schedule.metrics, **{name: getattr(schedule.metrics, name) + (100 if name == "reserved_bytes" else 1)}
    )
    found = violations(replace(schedule, metrics=wrong, memory_limit_bytes=0))
    assert {v.rule for v in found} == {"metrics"} and name in str(found[0])


def test_a_bound_above_the_step_is_no_bound() -> None:
    schedule = step()
    wrong = replace(schedule.metrics, lower_bound_ns=schedule.metrics.step_ns + 1)
    assert violations(replace(schedule, metrics=wrong))[0].rule == "metrics"


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: replace(s, order=s.order[:-1]),
        lambda s: replace(s, order=(0, *s.order)),
        lambda s: replace(s, op_times=s.op_times[1:]),
        lambda s: with_op(s, 0, waits=(77,)),
        lambda s: with_transfer(s, s.transfers[0], storage=77),
        lambda s: with_transfer(s, s.transfers[0], after_ops=(77,)),
        lambda s: replace(s, transfers=(*s.transfers, s.transfers[0])),
        lambda s: with_stay(s, "a", 0, offset=-1),
        lambda s: replace(s, homes=s.homes[1:]),
        lambda s: replace(s, durations_ns=s.durations_ns[1:]),
    ],
)
def test_a_document_that_contradicts_itself_is_told_as_such(damage: Damage) -> None:
    assert {v.rule for v in damaged(damage)} == {"structure"}


# --- recomputed ops ---------------------------------------------------------------------------------------------------


def recomputed_step() -> Schedule:
    """Training over two layers; forward:0 runs again (op 3) for backward:1 (op 4), into the last storage."""
    return naive_schedule(recompute(training(2), [Recomputation((0,), 3, (3,))]))


def with_graph_op(s: Schedule, op: int, **changes: object) -> Schedule:
    ops: list[Op] = list(s.graph.ops)
    ops[op] = replace(ops[op], **changes)  # type: ignore[arg-type]
    return replace(s, graph=replace(s.graph, ops=tuple(ops)))


def with_storage(s: Schedule, storage: int, **changes: object) -> Schedule:
    storages: list[Storage] = list(s.graph.storages)
    storages[storage] = replace(storages[storage], **changes)  # type: ignore[arg-type]
    return replace(s, graph=replace(s.graph, storages=tuple(storages)))


COPY = 13
RECOMPUTE: dict[str, tuple[Damage, str]] = {
    "another primitive": (lambda s: with_graph_op(s, 3, primitive="other"), "is another call"),
    "another workspace": (lambda s: with_graph_op(s, 3, workspace_bytes=9), "is another call"),
    "another duration": (lambda s: replace(s, durations_ns=(10, 10, 10, 9, 10, 10, 10, 10)), "takes 9 ns"),
    "another op": (lambda s: with_graph_op(s, 3, recompute_of=1), "does not hold what 'forward:1' read there"),
    "itself": (lambda s: with_graph_op(s, 3, recompute_of=3), "no original op before it"),
    "a later op": (lambda s: with_graph_op(s, 3, recompute_of=5), "no original op before it"),
    "other values": (lambda s: with_graph_op(s, 3, reads=(4, 1)), "does not hold what 'forward:0' read there"),
    "values in another place": (lambda s: with_graph_op(s, 3, reads=(0, 4)), "does not hold what 'forward:0' read"),
    "fewer values": (lambda s: with_graph_op(s, 3, reads=(4,)), "reads 1 storages, 'forward:0' read 2"),
    "random": (lambda s: with_graph_op(s, 0, stateful=True), "it has hidden state"),
    "in place": (lambda s: with_graph_op(s, 0, writes=(5, 0)), "it updates 'w0' in place"),
    "the original's storage": (lambda s: with_graph_op(s, 3, writes=(5,)), "which is no copy of 'a0'"),
    "a copy of something else": (lambda s: with_storage(s, COPY, recompute_of=6), "which is no copy of 'a0'"),
    "a copy of another size": (lambda s: with_storage(s, COPY, bytes=9), "differs in size from 'a0'"),
    "a copy that stays": (lambda s: with_storage(s, COPY, tensor_class="output"), "a copy that outlives the step"),
    "a copy filled by others": (lambda s: with_graph_op(s, 2, writes=(7, 8, COPY)), "only a recomputed op may write"),
    "a copy read too early": (lambda s: with_graph_op(s, 1, reads=(COPY, 1)), "does not hold the value 'a0' has"),
    "an update of the original": (lambda s: with_graph_op(s, 4, writes=(9, 10, 5)), "in place, yet reads a copy"),
}  # fmt: skip


def test_a_recomputed_step_passes() -> None:
    s = recomputed_step()
    verify(s, training(2))
    assert s.graph.storages[COPY].name == "a0 (recomputed)" and COPY in s.graph.ops[4].reads


@pytest.mark.parametrize("damage", RECOMPUTE, ids=str)
def test_a_second_run_that_does_not_repeat_the_first_is_told(damage: str) -> None:
    change, message = RECOMPUTE[damage]
    found = [v for v in violations(change(recomputed_step())) if v.rule == "recompute"]
    assert any(message in str(v) for v in found), [str(v) for v in violations(change(recomputed_step()))]
    assert all(v.op is not None for v in found)


def test_a_weight_updated_before_the_second_run_is_another_value() -> None:
    """GIVEN the second run moves behind the update of its weight THEN its value is not the one that is needed."""
    b = GraphBuilder("updated")
    w, a, g, out = (
        b.storage("w", 8, "weight", True),
        b.storage("a", 8),
        b.storage("g", 8),
        b.storage("out", 8, "output"),
    )
    b.op("forward", [w], [a])
    b.op("make g", [], [g])
    b.op("update", [w, g], [w], "optimizer")
    b.op("backward", [a], [out], "backward")
    graph = b.graph()
    verify(naive_schedule(recompute(graph, [Recomputation((0,), 2, (3,))])), graph)
    again = naive_schedule(graph).graph
    second = replace(again.ops[0], id=3, name="again", reads=(w,), writes=(4,), after=(0, 2), recompute_of=0)
    reader = replace(again.ops[3], id=4, reads=(4,), after=(0, 3))
    copy = replace(again.storages[a], id=4, name="copy", recompute_of=a)
    late = naive_schedule(
        replace(again, ops=(*again.ops[:3], second, reader), storages=(*again.storages, copy)),
    )
    found = violations(late)
    assert [(v.rule, v.op, v.storage) for v in found] == [("recompute", 3, w)]
    assert "reads 'w', which does not hold what 'forward' read there" in str(found[0])


def test_recompute_of_must_name_what_the_graph_has() -> None:
    assert {v.rule for v in violations(with_graph_op(recomputed_step(), 3, recompute_of=77))} == {"structure"}
    assert {v.rule for v in violations(with_storage(recomputed_step(), COPY, recompute_of=COPY))} == {"structure"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: with_graph_op(s, 3, recompute_of=None),
        lambda s: with_graph_op(s, 2, recompute_of=0),
        lambda s: with_graph_op(s, 2, name="other"),
        lambda s: with_graph_op(s, 2, reads=(5,)),
        lambda s: with_graph_op(s, 4, reads=(8, 6, 1)),
        lambda s: with_graph_op(s, 7, after=(4,)),
        lambda s: with_storage(s, 3, bytes=7),
        lambda s: with_storage(s, COPY, recompute_of=None),
    ],
    ids=["one op more", "one op less", "another op", "another input", "another input beside a copy",
         "a dependency less", "another size", "one storage more"],
)  # fmt: skip
def test_a_schedule_must_run_the_ops_of_the_graph_that_was_asked_for(damage: Damage) -> None:
    found = violations(damage(recomputed_step()), training(2))
    assert any(v.rule == "recompute" and v.time_ns == 0 for v in found), [str(v) for v in found]


# --- against simulated memory ----------------------------------------------------------------------------------------


def corrupts(schedule: Schedule, random: Random, runs: int) -> bool:
    for _ in range(runs):
        try:
            run_bytes(schedule, *random_durations(random, schedule))
        except Corruption:
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 1 << 32))
def test_naive_schedules_are_accepted_and_keep_every_byte_under_any_timing(random: Random, seed: int) -> None:
    schedule = random_schedule(random)
    verify(schedule)
    assert not corrupts(schedule, Random(seed), 3)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_what_the_verifier_accepts_never_loses_a_byte(mutation: Callable[[Random, Schedule], Schedule]) -> None:
    """Random damage: whatever corrupts simulated memory under some timing has been rejected, whatever was accepted
    keeps every byte under many timings; and the damage does both, so that the test says something."""
    random = Random(mutation.__name__)
    rejected = 0
    for _ in range(60):
        schedule = mutation(random, random_schedule(random, 10))
        if [v for v in violations(schedule) if v.rule != "metrics"]:
            rejected += 1
        else:
            assert not corrupts(schedule, random, 12)
    assert rejected > 5


@pytest.mark.parametrize("mutation", RECOMPUTE_MUTATIONS, ids=lambda m: m.__name__)
def test_what_the_verifier_accepts_of_recomputed_ops_never_loses_a_byte(
    mutation: Callable[[Random, Schedule], Schedule],
) -> None:
    random = Random(mutation.__name__)
    rejected = 0
    for _ in range(60):
        schedule = mutation(random, random_recomputed_schedule(random, 10)[1])
        if [v for v in violations(schedule) if v.rule != "metrics"]:
            rejected += 1
        else:
            assert not corrupts(schedule, random, 4)
    assert rejected > 5


@pytest.mark.parametrize("mutation", MUTATIONS[:4], ids=lambda m: m.__name__)
def test_an_edge_is_missed_only_where_something_can_go_wrong(mutation: Callable[[Random, Schedule], Schedule]) -> None:
    """Dropping an edge that others imply is no fault: with every rejected schedule something goes wrong when a certain
    op or transfer is slow, and nothing with any accepted one."""
    random = Random(mutation.__name__)
    rejected = 0
    for _ in range(60):
        valid = random_schedule(random, 7)
        schedule = mutation(random, valid)
        if schedule is not valid and len(schedule.transfers) < 30:
            refused = bool(violations(schedule))
            assert breaks(schedule) == refused
            rejected += refused
    assert rejected > 4
