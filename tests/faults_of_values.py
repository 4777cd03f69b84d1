"""Faults of what ops and copies find: order, residency, stores, detaches and prefetches (invariants 1 to 4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from hyperoffload_core.schedule import Schedule, Transfer
from tests.fault_tools import (
    moves_in,
    next_stay,
    pick,
    shifted,
    shuffled,
    stored_stays,
    times_of,
    with_op,
    with_stay,
    with_transfers,
    without,
    writers,
)
from tests.slow_events import may_start_before, users

# --- 1: order --------------------------------------------------------------------------------------------------------


def _moved_ahead(s: Schedule, op: int, ahead_of: int) -> Schedule:
    """``op`` runs just ahead of an op that it ran behind; the ops in between share the time as the order now says."""
    first, last = s.order.index(ahead_of), s.order.index(op)
    order = (*s.order[:first], op, *s.order[first:last], *s.order[last + 1 :])
    time = times_of(s)
    at = time[ahead_of].start_ns
    for moved in order[first : last + 1]:
        time[moved] = replace(time[moved], start_ns=at, end_ns=at + s.durations_ns[moved])
        at += s.durations_ns[moved]
    return replace(s, order=order, op_times=tuple(time[o] for o in order))


def run_before_what_it_depends_on(random: Random, s: Schedule) -> Schedule | None:
    found = pick(random, ((op.id, earlier) for op in s.graph.ops for earlier in op.after))
    return None if found is None else _moved_ahead(s, *found)


def write_in_place_before_an_earlier_reader(random: Random, s: Schedule) -> Schedule | None:
    """The graph does not even say that the writer depends on the reader: their accesses do."""
    pairs = []
    for rows in s.graph.accesses:
        for place, access in enumerate(rows):
            if access.writes:
                pairs += [(access.op, earlier.op) for earlier in rows[:place] if not earlier.writes]
    found = pick(random, pairs)
    if found is None:
        return None
    writer, reader = found
    ops = list(s.graph.ops)
    ops[writer] = replace(ops[writer], after=tuple(o for o in ops[writer].after if o != reader))
    return _moved_ahead(replace(s, graph=replace(s.graph, ops=tuple(ops))), writer, reader)


# --- 2: residency ----------------------------------------------------------------------------------------------------


def stay_ends_before_its_last_user(random: Random, s: Schedule) -> Schedule | None:
    time = times_of(s)
    stay = pick(random, (r for r in s.residencies if users(s, r)))
    if stay is None:
        return None
    end_ns = random.randint(stay.start_ns, time[users(s, stay)[-1]].end_ns - 1)
    return with_stay(s, stay, replace(stay, end_ns=end_ns))


def have_no_place_for_an_operand(random: Random, s: Schedule) -> Schedule | None:
    stay = pick(random, (r for r in s.residencies if users(s, r)))
    return None if stay is None else with_stay(s, stay, None)


def run_before_the_operand_has_arrived(random: Random, s: Schedule) -> Schedule | None:
    """The last part comes so late that it ends just after the op has started."""
    stay = pick(random, (r for r in s.residencies if users(s, r) and moves_in(s, r, "prefetch")))
    if stay is None:
        return None
    time, parts = times_of(s), moves_in(s, stay, "prefetch")
    late = parts[-1]
    late = shifted(late, time[users(s, stay)[0]].start_ns + 1 - (late.end_ns - late.start_ns))
    damaged = with_transfers(s, [late])
    if len(parts) > 1:
        return damaged
    return with_stay(damaged, stay, replace(stay, start_ns=late.start_ns))


def wait_for_too_little_of_the_operand(random: Random, s: Schedule) -> Schedule | None:
    """The op does not wait for the last part (where there is one: for the prefetch)."""
    for stay in shuffled(random, s.residencies):
        parts, ops = moves_in(s, stay, "prefetch"), users(s, stay)
        if parts and ops:
            kept = tuple(w for w in times_of(s)[ops[0]].waits if w != parts[-1].id)
            damaged = with_op(s, ops[0], waits=kept)
            if may_start_before(damaged, ("op", ops[0]), ("transfer", parts[-1].id)):
                return damaged
    return None


# --- 3: stores and detaches ------------------------------------------------------------------------------------------


def store_while_it_is_written(random: Random, s: Schedule) -> Schedule | None:
    found = pick(random, ((stay, parts) for stay, parts in stored_stays(s) if writers(s, stay)))
    if found is None:
        return None
    stay, parts = found
    return with_transfers(s, [shifted(parts[0], times_of(s)[writers(s, stay)[-1]].start_ns)])


def store_without_waiting_for_the_writer(random: Random, s: Schedule) -> Schedule | None:
    for stay, parts in shuffled(random, stored_stays(s)):
        written = writers(s, stay)
        if written:
            damaged = with_transfers(s, [replace(t, after_ops=()) for t in parts])
            if may_start_before(damaged, ("transfer", parts[0].id), ("op", written[-1])):
                return damaged
    return None


def leave_without_a_valid_copy(random: Random, s: Schedule) -> Schedule | None:
    """The store before a stay that begins with a prefetch is gone, with all its parts."""
    for stay, parts in shuffled(random, stored_stays(s)):
        following = next_stay(s, stay)
        if following is not None and moves_in(s, following, "prefetch"):
            return without(s, parts)
    return None


# --- 4: prefetches ---------------------------------------------------------------------------------------------------


def _returns(s: Schedule) -> Iterator[tuple[list[Transfer], list[Transfer]]]:
    """Stores, with all their parts, and the prefetch that next brings the storage back."""
    for stay, stores in stored_stays(s):
        following = next_stay(s, stay)
        prefetches = moves_in(s, following, "prefetch") if following is not None else []
        if prefetches:
            yield stores, prefetches


def come_back_while_it_leaves(random: Random, s: Schedule) -> Schedule | None:
    found = pick(random, _returns(s))
    if found is None:
        return None
    stores, prefetches = found
    return with_transfers(s, [shifted(prefetches[0], stores[-1].end_ns - 1)])


def come_back_without_waiting_for_the_store(random: Random, s: Schedule) -> Schedule | None:
    for stores, prefetches in shuffled(random, _returns(s)):
        damaged = with_transfers(s, [replace(t, after_transfers=()) for t in prefetches])
        if may_start_before(damaged, ("transfer", prefetches[0].id), ("transfer", stores[-1].id)):
            return damaged
    return None


def come_back_once_a_part_is_stored(random: Random, s: Schedule) -> Schedule | None:
    """The prefetch waits for the first part of the store and not for the last."""
    for stores, prefetches in shuffled(random, _returns(s)):
        own = {t.id for t in s.transfers if t.storage == stores[0].storage}
        damaged = with_transfers(
            s,
            [
                replace(t, after_transfers=(*(o for o in t.after_transfers if o not in own), stores[0].id))
                for t in prefetches
            ],
        )
        if may_start_before(damaged, ("transfer", prefetches[0].id), ("transfer", stores[-1].id)):
            return damaged
    return None
