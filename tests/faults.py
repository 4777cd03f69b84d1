"""One deliberate fault per way in which a schedule can be wrong, put into a valid one.

Unlike the random damage of `tests.mutations`, each is certain to break its rule: by construction, or, for edges that
others may imply, because `tests.slow_events` shows a timing that breaks it. A damage returns None for a schedule in
which it finds no place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Literal, TypeVar

from hyperoffload_core.schedule import OpTime, Residency, Schedule, Transfer
from hyperoffload_core.verifier import Rule
from tests.slow_events import may_start_before, users
from tests.valid_schedules import SOURCES

Damage = Callable[[Random, Schedule], Schedule | None]
T = TypeVar("T")
MOVING = tuple(s for s in SOURCES if s != "none")
PARTS = ("naive in parts",)


@dataclass(frozen=True)
class Fault:
    """``damage`` breaks ``rule``; with form "events" the planned times stay right (but for deadlocks).

    ``invariant`` is the rule's number in the design's list, 0 for what the list takes for granted; ``sources`` make
    schedules with a place for the fault.
    """

    damage: Damage
    rule: Rule
    invariant: int
    form: Literal["timed", "events"] = "timed"
    sources: Sequence[str] = SOURCES

    def __str__(self) -> str:
        return self.damage.__name__


# --- taking a schedule apart -----------------------------------------------------------------------------------------


def _shuffled(random: Random, items: Iterable[T]) -> list[T]:
    found = list(items)
    random.shuffle(found)
    return found


def _pick(random: Random, items: Iterable[T]) -> T | None:
    found = list(items)
    return random.choice(found) if found else None


def _times(s: Schedule) -> dict[int, OpTime]:
    return {t.op: t for t in s.op_times}


def _moves_in(s: Schedule, stay: Residency, kind: str) -> list[Transfer]:
    rows = [t for t in s.transfers if t.storage == stay.storage and t.kind == kind]
    found = [t for t in rows if stay.start_ns <= t.start_ns and t.end_ns <= stay.end_ns]
    return sorted(found, key=lambda t: t.start_ns)


def _writers(s: Schedule, stay: Residency) -> list[int]:
    return [o for o in users(s, stay) if stay.storage in s.graph.ops[o].writes]


def _next_stay(s: Schedule, stay: Residency) -> Residency | None:
    later = [r for r in s.residencies if r.storage == stay.storage and r.start_ns >= stay.end_ns and r is not stay]
    return min(later, key=lambda r: r.start_ns, default=None)


def _with_op(s: Schedule, op: int, **changes: object) -> Schedule:
    rows = [replace(t, **changes) if t.op == op else t for t in s.op_times]  # type: ignore[arg-type]
    return replace(s, op_times=tuple(rows))


def _with_transfers(s: Schedule, changed: Iterable[Transfer]) -> Schedule:
    by_id = {t.id: t for t in changed}
    return replace(s, transfers=tuple(by_id.get(t.id, t) for t in s.transfers))


def _with_stay(s: Schedule, stay: Residency, changed: Residency | None) -> Schedule:
    rows = [changed if r is stay else r for r in s.residencies]
    return replace(s, residencies=tuple(r for r in rows if r is not None))


def _without(s: Schedule, gone: Iterable[Transfer]) -> Schedule:
    ids = {t.id for t in gone}
    return replace(
        s,
        transfers=tuple(
            replace(t, after_transfers=tuple(o for o in t.after_transfers if o not in ids))
            for t in s.transfers
            if t.id not in ids
        ),
        op_times=tuple(replace(t, waits=tuple(w for w in t.waits if w not in ids)) for t in s.op_times),
    )


def _shifted(t: Transfer, start_ns: int) -> Transfer:
    return replace(t, start_ns=start_ns, end_ns=start_ns + t.end_ns - t.start_ns)


def _new_id(s: Schedule) -> int:
    return 1 + max((t.id for t in s.transfers), default=-1)


# --- 1: order --------------------------------------------------------------------------------------------------------


def _moved_ahead(s: Schedule, op: int, ahead_of: int) -> Schedule:
    """``op`` runs just ahead of an op that it ran behind; the ops in between share the time as the order now says."""
    first, last = s.order.index(ahead_of), s.order.index(op)
    order = (*s.order[:first], op, *s.order[first:last], *s.order[last + 1 :])
    time = _times(s)
    at = time[ahead_of].start_ns
    for moved in order[first : last + 1]:
        time[moved] = replace(time[moved], start_ns=at, end_ns=at + s.durations_ns[moved])
        at += s.durations_ns[moved]
    return replace(s, order=order, op_times=tuple(time[o] for o in order))


def run_before_what_it_depends_on(random: Random, s: Schedule) -> Schedule | None:
    found = _pick(random, ((op.id, earlier) for op in s.graph.ops for earlier in op.after))
    return None if found is None else _moved_ahead(s, *found)


def write_in_place_before_an_earlier_reader(random: Random, s: Schedule) -> Schedule | None:
    """The graph does not even say that the writer depends on the reader: their accesses do."""
    pairs = []
    for rows in s.graph.accesses:
        for place, access in enumerate(rows):
            if access.writes:
                pairs += [(access.op, earlier.op) for earlier in rows[:place] if not earlier.writes]
    found = _pick(random, pairs)
    if found is None:
        return None
    writer, reader = found
    ops = list(s.graph.ops)
    ops[writer] = replace(ops[writer], after=tuple(o for o in ops[writer].after if o != reader))
    return _moved_ahead(replace(s, graph=replace(s.graph, ops=tuple(ops))), writer, reader)


# --- 2: residency ----------------------------------------------------------------------------------------------------


def stay_ends_before_its_last_user(random: Random, s: Schedule) -> Schedule | None:
    time = _times(s)
    stay = _pick(random, (r for r in s.residencies if users(s, r)))
    if stay is None:
        return None
    end_ns = random.randint(stay.start_ns, time[users(s, stay)[-1]].end_ns - 1)
    return _with_stay(s, stay, replace(stay, end_ns=end_ns))


def have_no_place_for_an_operand(random: Random, s: Schedule) -> Schedule | None:
    stay = _pick(random, (r for r in s.residencies if users(s, r)))
    return None if stay is None else _with_stay(s, stay, None)


def run_before_the_operand_has_arrived(random: Random, s: Schedule) -> Schedule | None:
    """The last part comes so late that it ends just after the op has started."""
    stay = _pick(random, (r for r in s.residencies if users(s, r) and _moves_in(s, r, "prefetch")))
    if stay is None:
        return None
    time, parts = _times(s), _moves_in(s, stay, "prefetch")
    late = parts[-1]
    late = _shifted(late, time[users(s, stay)[0]].start_ns + 1 - (late.end_ns - late.start_ns))
    damaged = _with_transfers(s, [late])
    if len(parts) > 1:
        return damaged
    return _with_stay(damaged, stay, replace(stay, start_ns=late.start_ns))


def wait_for_too_little_of_the_operand(random: Random, s: Schedule) -> Schedule | None:
    """The op does not wait for the last part (where there is one: for the prefetch)."""
    for stay in _shuffled(random, s.residencies):
        parts, ops = _moves_in(s, stay, "prefetch"), users(s, stay)
        if parts and ops:
            kept = tuple(w for w in _times(s)[ops[0]].waits if w != parts[-1].id)
            damaged = _with_op(s, ops[0], waits=kept)
            if may_start_before(damaged, ("op", ops[0]), ("transfer", parts[-1].id)):
                return damaged
    return None


# --- 3: stores and detaches ------------------------------------------------------------------------------------------


def _stored_stays(s: Schedule) -> Iterator[tuple[Residency, list[Transfer]]]:
    for stay in s.residencies:
        parts = _moves_in(s, stay, "store")
        if parts:
            yield stay, parts


def store_while_it_is_written(random: Random, s: Schedule) -> Schedule | None:
    found = _pick(random, ((stay, parts) for stay, parts in _stored_stays(s) if _writers(s, stay)))
    if found is None:
        return None
    stay, parts = found
    return _with_transfers(s, [_shifted(parts[0], _times(s)[_writers(s, stay)[-1]].start_ns)])


def store_without_waiting_for_the_writer(random: Random, s: Schedule) -> Schedule | None:
    for stay, parts in _shuffled(random, _stored_stays(s)):
        writers = _writers(s, stay)
        if writers:
            damaged = _with_transfers(s, [replace(t, after_ops=()) for t in parts])
            if may_start_before(damaged, ("transfer", parts[0].id), ("op", writers[-1])):
                return damaged
    return None


def leave_without_a_valid_copy(random: Random, s: Schedule) -> Schedule | None:
    """The store before a stay that begins with a prefetch is gone, with all its parts."""
    for stay, parts in _shuffled(random, _stored_stays(s)):
        following = _next_stay(s, stay)
        if following is not None and _moves_in(s, following, "prefetch"):
            return _without(s, parts)
    return None


# --- 4: prefetches ---------------------------------------------------------------------------------------------------


def _returns(s: Schedule) -> Iterator[tuple[list[Transfer], list[Transfer]]]:
    """Stores, with all their parts, and the prefetch that next brings the storage back."""
    for stay, stores in _stored_stays(s):
        following = _next_stay(s, stay)
        prefetches = _moves_in(s, following, "prefetch") if following is not None else []
        if prefetches:
            yield stores, prefetches


def come_back_while_it_leaves(random: Random, s: Schedule) -> Schedule | None:
    found = _pick(random, _returns(s))
    if found is None:
        return None
    stores, prefetches = found
    return _with_transfers(s, [_shifted(prefetches[0], stores[-1].end_ns - 1)])


def come_back_without_waiting_for_the_store(random: Random, s: Schedule) -> Schedule | None:
    for stores, prefetches in _shuffled(random, _returns(s)):
        damaged = _with_transfers(s, [replace(t, after_transfers=()) for t in prefetches])
        if may_start_before(damaged, ("transfer", prefetches[0].id), ("transfer", stores[-1].id)):
            return damaged
    return None


def come_back_once_a_part_is_stored(random: Random, s: Schedule) -> Schedule | None:
    """The prefetch waits for the first part of the store and not for the last."""
    for stores, prefetches in _shuffled(random, _returns(s)):
        own = {t.id for t in s.transfers if t.storage == stores[0].storage}
        damaged = _with_transfers(
            s,
            [
                replace(t, after_transfers=(*(o for o in t.after_transfers if o not in own), stores[0].id))
                for t in prefetches
            ],
        )
        if may_start_before(damaged, ("transfer", prefetches[0].id), ("transfer", stores[-1].id)):
            return damaged
    return None


# --- 5: links --------------------------------------------------------------------------------------------------------


def two_transfers_at_once(random: Random, s: Schedule) -> Schedule | None:
    found = _pick(random, (pair for link in s.link_transfers() for pair in pairwise(link)))
    if found is None:
        return None
    before, after = found
    return _with_transfers(s, [_shifted(after, before.end_ns - 1)])


def both_directions_of_a_half_duplex_link(_random: Random, s: Schedule) -> Schedule | None:
    if s.hardware.duplex == "half":
        return None
    out, back = s.link_transfers()
    together = any(a.start_ns < b.end_ns and b.start_ns < a.end_ns for a in out for b in back)
    return replace(s, hardware=replace(s.hardware, duplex="half")) if together else None


# --- 6: limit and addresses ------------------------------------------------------------------------------------------


def hold_more_than_the_limit(random: Random, s: Schedule) -> Schedule | None:
    if s.metrics.peak_live_bytes < 2:
        return None
    return replace(s, memory_limit_bytes=random.randint(1, s.metrics.peak_live_bytes - 1))


def reserve_more_than_the_limit(_random: Random, s: Schedule) -> Schedule | None:
    """Live bytes as planned are within the limit, the address space is not."""
    limit = max(s.metrics.peak_live_bytes, s.metrics.reserved_bytes - 1)
    return replace(s, memory_limit_bytes=limit) if limit < s.metrics.reserved_bytes else None


def a_workspace_above_the_limit(random: Random, s: Schedule) -> Schedule | None:
    ops, op = list(s.graph.ops), random.randrange(len(s.graph.ops))
    ops[op] = replace(ops[op], workspace_bytes=s.memory_limit_bytes + 1)
    return replace(s, graph=replace(s.graph, ops=tuple(ops)))


def share_bytes_while_both_are_there(random: Random, s: Schedule) -> Schedule | None:
    pairs = [
        (one, other)
        for one in s.residencies
        for other in s.residencies
        if one.storage != other.storage and max(one.start_ns, other.start_ns) < min(one.end_ns, other.end_ns)
    ]
    found = _pick(random, pairs)
    if found is None:
        return None
    one, other = found
    low = max(0, other.offset - s.graph.storages[one.storage].bytes + 1)
    return _with_stay(
        s, one, replace(one, offset=random.randint(low, other.offset + s.graph.storages[other.storage].bytes - 1))
    )


def take_bytes_without_waiting(random: Random, s: Schedule) -> Schedule | None:
    """A stay begins without waiting for whoever had its bytes before: for its store, or for its last reader."""
    size = {r: s.graph.storages[r.storage].bytes for r in s.residencies}
    for later in _shuffled(random, s.residencies):
        arrival, ops = _moves_in(s, later, "prefetch"), users(s, later)
        if arrival and arrival[0].start_ns == later.start_ns:
            begin, damaged = ("transfer", arrival[0].id), [replace(arrival[0], after_ops=(), after_transfers=())]
            tried = _with_transfers(s, damaged)
        elif (
            ops and later.start_ns == _times(s)[ops[0]].start_ns and s.graph.ops[ops[0]].reads.count(later.storage) == 0
        ):
            begin, tried = ("op", ops[0]), _with_op(s, ops[0], waits=())
        else:
            continue
        for earlier in s.residencies:
            shared = earlier.offset < later.offset + size[later] and later.offset < earlier.offset + size[earlier]
            if not shared or earlier.end_ns > later.start_ns or earlier is later:
                continue
            ends = [("op", o) for o in users(s, earlier)[-1:]]
            ends += [("transfer", t.id) for t in (*_moves_in(s, earlier, "store"), *_moves_in(s, earlier, "prefetch"))]
            if any(may_start_before(tried, begin, end) for end in ends):  # type: ignore[arg-type]
                return tried
    return None


# --- 7: homes --------------------------------------------------------------------------------------------------------


def _home_stays(s: Schedule) -> Iterator[Residency]:
    """Last stays of storages that must end the step on the device."""
    for storage in s.graph.storages:
        if s.graph.lives_to_end(storage.id) and s.homes[storage.id] == "device":
            yield from sorted((r for r in s.residencies if r.storage == storage.id), key=lambda r: r.start_ns)[-1:]


def leave_home_before_the_step_ends(random: Random, s: Schedule) -> Schedule | None:
    stay = _pick(random, _home_stays(s))
    return None if stay is None else _with_stay(s, stay, replace(stay, end_ns=s.metrics.step_ns - 1))


def come_home_to_another_address(random: Random, s: Schedule) -> Schedule | None:
    """The next step would look for it in the wrong place."""
    stays = [
        stay
        for stay in _home_stays(s)
        if s.graph.exists_at_start(stay.storage) and sum(r.storage == stay.storage for r in s.residencies) > 1
    ]
    stay = _pick(random, stays)
    return None if stay is None else _with_stay(s, stay, replace(stay, offset=s.metrics.reserved_bytes))


def keep_the_newest_value_from_the_pool(random: Random, s: Schedule) -> Schedule | None:
    """A storage at home in the pool is written, and never stored after that."""
    found = []
    for stay, parts in _stored_stays(s):
        kept = s.graph.lives_to_end(stay.storage) and s.homes[stay.storage] == "pool"
        if kept and _next_stay(s, stay) is None and _writers(s, stay):
            found.append(parts)
    parts = _pick(random, found)
    return None if parts is None else _without(s, parts)


def call_the_pool_home_of_what_never_goes_there(random: Random, s: Schedule) -> Schedule | None:
    moved, written = {t.storage for t in s.transfers}, {w for op in s.graph.ops for w in op.writes}
    found = [x.id for x in s.graph.storages if x.persistent and x.id in written and x.id not in moved]
    storage = _pick(random, (x for x in found if s.homes[x] == "device"))
    if storage is None:
        return None
    return replace(s, homes=(*s.homes[:storage], "pool", *s.homes[storage + 1 :]))


def call_the_device_home_of_what_comes_from_the_pool(random: Random, s: Schedule) -> Schedule | None:
    moved = {t.storage for t in s.transfers}
    storage = _pick(random, (x.id for x in s.graph.storages if x.persistent and x.id in moved))
    if storage is None or s.homes[storage] == "device":
        return None
    return replace(s, homes=(*s.homes[:storage], "device", *s.homes[storage + 1 :]))


# --- 8: one transfer per storage -------------------------------------------------------------------------------------


def move_twice(random: Random, s: Schedule) -> Schedule | None:
    """As if a second view of the storage had a transfer of its own."""
    t = _pick(random, s.transfers)
    return None if t is None else replace(s, transfers=(*s.transfers, replace(t, id=_new_id(s))))


def bring_what_is_there(random: Random, s: Schedule) -> Schedule | None:
    time = _times(s)
    found = [r for r in s.residencies if users(s, r) and not _moves_in(s, r, "prefetch")]
    stay = _pick(random, (r for r in found if r.end_ns > time[users(s, r)[0]].end_ns))
    if stay is None:
        return None
    start_ns, size = time[users(s, stay)[0]].end_ns, s.graph.storages[stay.storage].bytes
    extra = Transfer(_new_id(s), "prefetch", stay.storage, size, start_ns, stay.end_ns)
    return replace(s, transfers=(*s.transfers, extra))


def move_a_byte_too_few(random: Random, s: Schedule) -> Schedule | None:
    t = _pick(random, s.transfers)
    return None if t is None else _with_transfers(s, [replace(t, bytes=t.bytes - 1, end_ns=t.end_ns - 1)])


def move_a_part_beside_its_place(random: Random, s: Schedule) -> Schedule | None:
    t = _pick(random, s.transfers)
    return None if t is None else _with_transfers(s, [replace(t, offset_bytes=t.offset_bytes + random.choice([-1, 1]))])


def lose_a_part(random: Random, s: Schedule) -> Schedule | None:
    t = _pick(random, (t for move in s.moves if len(move) > 1 for t in move))
    return None if t is None else _without(s, [t])


# --- 9: deadlocks ----------------------------------------------------------------------------------------------------


def wait_in_a_circle(random: Random, s: Schedule) -> Schedule | None:
    """A transfer waits for an op that waits for it."""
    found = _pick(random, ((t.op, w) for t in s.op_times for w in t.waits))
    if found is None:
        return None
    op, wait = found
    t = next(t for t in s.transfers if t.id == wait)
    return _with_transfers(s, [replace(t, after_ops=(*t.after_ops, op))])


def wait_for_what_the_link_does_later(random: Random, s: Schedule) -> Schedule | None:
    found = _pick(random, (pair for link in s.link_transfers() for pair in pairwise(link)))
    if found is None:
        return None
    before, after = found
    return _with_transfers(s, [replace(before, after_transfers=(*before.after_transfers, after.id))])


# --- what the list takes for granted: durations, numbers, ids --------------------------------------------------------


def take_another_time_than_the_op_does(random: Random, s: Schedule) -> Schedule | None:
    op = random.randrange(len(s.durations_ns))
    return replace(s, durations_ns=(*s.durations_ns[:op], s.durations_ns[op] + 1, *s.durations_ns[op + 1 :]))


def take_less_time_than_the_link_does(random: Random, s: Schedule) -> Schedule | None:
    t = _pick(random, s.transfers)
    return None if t is None else _with_transfers(s, [replace(t, end_ns=t.end_ns - 1)])


def start_before_the_op_before_has_ended(random: Random, s: Schedule) -> Schedule | None:
    time = _times(s)
    found = _pick(random, ((a, b) for a, b in pairwise(s.order) if time[a].end_ns == time[b].start_ns))
    if found is None:
        return None
    at = time[found[1]]
    return _with_op(s, at.op, start_ns=at.start_ns - 1, end_ns=at.end_ns - 1)


def start_before_a_wait_has_ended(random: Random, s: Schedule) -> Schedule | None:
    found = _pick(random, ((time, t) for time in s.op_times for t in s.transfers if t.end_ns > time.start_ns))
    if found is None:
        return None
    time, t = found
    return _with_op(s, time.op, waits=(*time.waits, t.id))


def transfer_before_what_it_waits_for(random: Random, s: Schedule) -> Schedule | None:
    found = _pick(random, ((t, time) for time in s.op_times for t in s.transfers if t.start_ns < time.end_ns))
    if found is None:
        return None
    t, time = found
    return _with_transfers(s, [replace(t, after_ops=(*t.after_ops, time.op))])


def tell_a_wrong_number(random: Random, s: Schedule) -> Schedule | None:
    metrics = s.metrics
    name = random.choice(list(type(metrics).__slots__))
    beyond = {
        "reserved_bytes": metrics.reserved_bytes + max(o.workspace_bytes for o in s.graph.ops) + 1,
        "lower_bound_ns": metrics.step_ns + 1,
    }
    wrong = replace(metrics, **{name: beyond.get(name, getattr(metrics, name) + 1)})
    return replace(s, metrics=wrong, memory_limit_bytes=max(s.memory_limit_bytes, wrong.reserved_bytes))


def run_an_op_twice(random: Random, s: Schedule) -> Schedule | None:
    return replace(s, order=(*s.order, random.choice(s.order)))


def leave_an_op_out(random: Random, s: Schedule) -> Schedule | None:
    gone = random.choice(s.order)
    return replace(s, order=tuple(o for o in s.order if o != gone))


def name_what_does_not_exist(random: Random, s: Schedule) -> Schedule | None:
    stay = random.choice(s.residencies)
    damages = [
        _with_stay(s, stay, replace(stay, storage=len(s.graph.storages))),
        _with_op(s, random.choice(s.order), waits=(_new_id(s),)),
    ]
    if s.transfers:
        damages.append(_with_transfers(s, [replace(random.choice(s.transfers), after_ops=(len(s.graph.ops),))]))
    return random.choice(damages)


FAULTS = (
    Fault(run_before_what_it_depends_on, "order", 1),
    Fault(write_in_place_before_an_earlier_reader, "order", 1),
    Fault(run_an_op_twice, "structure", 1),
    Fault(leave_an_op_out, "structure", 1),
    Fault(stay_ends_before_its_last_user, "residency", 2),
    Fault(have_no_place_for_an_operand, "residency", 2),
    Fault(run_before_the_operand_has_arrived, "residency", 2, sources=MOVING),
    Fault(wait_for_too_little_of_the_operand, "residency", 2, "events", MOVING),
    Fault(store_while_it_is_written, "store", 3, sources=MOVING),
    Fault(store_without_waiting_for_the_writer, "store", 3, "events", MOVING),
    Fault(leave_without_a_valid_copy, "detach", 3, sources=MOVING),
    Fault(leave_without_a_valid_copy, "prefetch", 4, sources=MOVING),
    Fault(come_back_while_it_leaves, "prefetch", 4, sources=MOVING),
    Fault(come_back_without_waiting_for_the_store, "prefetch", 4, "events", MOVING),
    Fault(come_back_once_a_part_is_stored, "prefetch", 4, "events", PARTS),
    Fault(two_transfers_at_once, "link", 5, sources=MOVING),
    Fault(both_directions_of_a_half_duplex_link, "link", 5, sources=MOVING),
    Fault(hold_more_than_the_limit, "limit", 6),
    Fault(reserve_more_than_the_limit, "limit", 6, "events", MOVING),
    Fault(a_workspace_above_the_limit, "limit", 6),
    Fault(share_bytes_while_both_are_there, "address", 6),
    Fault(take_bytes_without_waiting, "address", 6, "events", MOVING),
    Fault(leave_home_before_the_step_ends, "home", 7),
    Fault(come_home_to_another_address, "home", 7, sources=MOVING),
    Fault(keep_the_newest_value_from_the_pool, "home", 7, sources=MOVING),
    Fault(call_the_pool_home_of_what_never_goes_there, "home", 7),
    Fault(call_the_device_home_of_what_comes_from_the_pool, "home", 7, sources=MOVING),
    Fault(move_twice, "transfer", 8, sources=MOVING),
    Fault(bring_what_is_there, "transfer", 8),
    Fault(move_a_byte_too_few, "transfer", 8, sources=MOVING),
    Fault(move_a_part_beside_its_place, "transfer", 8, sources=MOVING),
    Fault(lose_a_part, "transfer", 8, sources=PARTS),
    Fault(wait_in_a_circle, "deadlock", 9, "events", MOVING),
    Fault(wait_for_what_the_link_does_later, "deadlock", 9, "events", MOVING),
    Fault(take_another_time_than_the_op_does, "time", 0),
    Fault(take_less_time_than_the_link_does, "time", 0, sources=MOVING),
    Fault(start_before_the_op_before_has_ended, "time", 0),
    Fault(start_before_a_wait_has_ended, "time", 0, sources=MOVING),
    Fault(transfer_before_what_it_waits_for, "time", 0, sources=MOVING),
    Fault(tell_a_wrong_number, "metrics", 0),
    Fault(name_what_does_not_exist, "structure", 0),
)
