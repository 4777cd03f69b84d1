"""Faults of the document itself: transfers, deadlocks, durations, numbers and ids (invariants 8 and 9)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from hyperoffload_core.schedule import Schedule, Transfer
from tests.fault_tools import (
    moves_in,
    new_id,
    pick,
    times_of,
    with_op,
    with_stay,
    with_transfers,
    without,
)
from tests.slow_events import users

# --- 8: one transfer per storage -------------------------------------------------------------------------------------


def move_twice(random: Random, s: Schedule) -> Schedule | None:
    """As if a second view of the storage had a transfer of its own."""
    t = pick(random, s.transfers)
    return None if t is None else replace(s, transfers=(*s.transfers, replace(t, id=new_id(s))))


def bring_what_is_there(random: Random, s: Schedule) -> Schedule | None:
    time = times_of(s)
    found = [r for r in s.residencies if users(s, r) and not moves_in(s, r, "prefetch")]
    stay = pick(random, (r for r in found if r.end_ns > time[users(s, r)[0]].end_ns))
    if stay is None:
        return None
    start_ns, size = time[users(s, stay)[0]].end_ns, s.graph.storages[stay.storage].bytes
    extra = Transfer(new_id(s), "prefetch", stay.storage, size, start_ns, stay.end_ns)
    return replace(s, transfers=(*s.transfers, extra))


def move_a_byte_too_few(random: Random, s: Schedule) -> Schedule | None:
    t = pick(random, s.transfers)
    return None if t is None else with_transfers(s, [replace(t, bytes=t.bytes - 1, end_ns=t.end_ns - 1)])


def move_a_part_beside_its_place(random: Random, s: Schedule) -> Schedule | None:
    t = pick(random, s.transfers)
    return None if t is None else with_transfers(s, [replace(t, offset_bytes=t.offset_bytes + random.choice([-1, 1]))])


def lose_a_part(random: Random, s: Schedule) -> Schedule | None:
    t = pick(random, (t for move in s.moves if len(move) > 1 for t in move))
    return None if t is None else without(s, [t])


# --- 9: deadlocks ----------------------------------------------------------------------------------------------------


def wait_in_a_circle(random: Random, s: Schedule) -> Schedule | None:
    """A transfer waits for an op that waits for it."""
    found = pick(random, ((t.op, w) for t in s.op_times for w in t.waits))
    if found is None:
        return None
    op, wait = found
    t = next(t for t in s.transfers if t.id == wait)
    return with_transfers(s, [replace(t, after_ops=(*t.after_ops, op))])


def wait_for_what_the_link_does_later(random: Random, s: Schedule) -> Schedule | None:
    found = pick(random, (pair for link in s.link_transfers() for pair in pairwise(link)))
    if found is None:
        return None
    before, after = found
    return with_transfers(s, [replace(before, after_transfers=(*before.after_transfers, after.id))])


# --- what the list takes for granted: durations, numbers, ids --------------------------------------------------------


def take_another_time_than_the_op_does(random: Random, s: Schedule) -> Schedule | None:
    op = random.randrange(len(s.durations_ns))
    return replace(s, durations_ns=(*s.durations_ns[:op], s.durations_ns[op] + 1, *s.durations_ns[op + 1 :]))


def take_less_time_than_the_link_does(random: Random, s: Schedule) -> Schedule | None:
    t = pick(random, s.transfers)
    return None if t is None else with_transfers(s, [replace(t, end_ns=t.end_ns - 1)])


def start_before_the_op_before_has_ended(random: Random, s: Schedule) -> Schedule | None:
    time = times_of(s)
    found = pick(random, ((a, b) for a, b in pairwise(s.order) if time[a].end_ns == time[b].start_ns))
    if found is None:
        return None
    at = time[found[1]]
    return with_op(s, at.op, start_ns=at.start_ns - 1, end_ns=at.end_ns - 1)


def start_before_a_wait_has_ended(random: Random, s: Schedule) -> Schedule | None:
    found = pick(random, ((time, t) for time in s.op_times for t in s.transfers if t.end_ns > time.start_ns))
    if found is None:
        return None
    time, t = found
    return with_op(s, time.op, waits=(*time.waits, t.id))


def transfer_before_what_it_waits_for(random: Random, s: Schedule) -> Schedule | None:
    found = pick(random, ((t, time) for time in s.op_times for t in s.transfers if t.start_ns < time.end_ns))
    if found is None:
        return None
    t, time = found
    return with_transfers(s, [replace(t, after_ops=(*t.after_ops, time.op))])


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
        with_stay(s, stay, replace(stay, storage=len(s.graph.storages))),
        with_op(s, random.choice(s.order), waits=(new_id(s),)),
    ]
    if s.transfers:
        damages.append(with_transfers(s, [replace(random.choice(s.transfers), after_ops=(len(s.graph.ops),))]))
    return random.choice(damages)
