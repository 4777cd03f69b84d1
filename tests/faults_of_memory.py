"""Faults of where things are: links, the limit, addresses and homes (invariants 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random

from hyperoffload_core.schedule import Residency, Schedule
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
from tests.slow_events import Event, may_start_before, users

# --- 5: links --------------------------------------------------------------------------------------------------------


def two_transfers_at_once(random: Random, s: Schedule) -> Schedule | None:
    found = pick(random, (pair for link in s.link_transfers() for pair in pairwise(link)))
    if found is None:
        return None
    before, after = found
    return with_transfers(s, [shifted(after, before.end_ns - 1)])


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
    found = pick(random, pairs)
    if found is None:
        return None
    one, other = found
    low = max(0, other.offset - s.graph.storages[one.storage].bytes + 1)
    return with_stay(
        s, one, replace(one, offset=random.randint(low, other.offset + s.graph.storages[other.storage].bytes - 1))
    )


def take_bytes_without_waiting(random: Random, s: Schedule) -> Schedule | None:
    """A stay begins without waiting for whoever had its bytes before: for its store, or for its last reader."""
    size = {r: s.graph.storages[r.storage].bytes for r in s.residencies}
    for later in shuffled(random, s.residencies):
        arrival, ops = moves_in(s, later, "prefetch"), users(s, later)
        begin: Event
        if arrival and arrival[0].start_ns == later.start_ns:
            begin = ("transfer", arrival[0].id)
            tried = with_transfers(s, [replace(arrival[0], after_ops=(), after_transfers=())])
        elif ops and later.start_ns == times_of(s)[ops[0]].start_ns and later.storage not in s.graph.ops[ops[0]].reads:
            begin, tried = ("op", ops[0]), with_op(s, ops[0], waits=())
        else:
            continue
        for earlier in s.residencies:
            shared = earlier.offset < later.offset + size[later] and later.offset < earlier.offset + size[earlier]
            if not shared or earlier.end_ns > later.start_ns or earlier is later:
                continue
            ends: list[Event] = [("op", o) for o in users(s, earlier)[-1:]]
            ends += [("transfer", t.id) for t in (*moves_in(s, earlier, "store"), *moves_in(s, earlier, "prefetch"))]
            if any(may_start_before(tried, begin, end) for end in ends):
                return tried
    return None


# --- 7: homes --------------------------------------------------------------------------------------------------------


def _home_stays(s: Schedule) -> Iterator[Residency]:
    """Last stays of storages that must end the step on the device."""
    for storage in s.graph.storages:
        if s.graph.lives_to_end(storage.id) and s.homes[storage.id] == "device":
            yield from sorted((r for r in s.residencies if r.storage == storage.id), key=lambda r: r.start_ns)[-1:]


def leave_home_before_the_step_ends(random: Random, s: Schedule) -> Schedule | None:
    stay = pick(random, _home_stays(s))
    return None if stay is None else with_stay(s, stay, replace(stay, end_ns=s.metrics.step_ns - 1))


def come_home_to_another_address(random: Random, s: Schedule) -> Schedule | None:
    """The next step would look for it in the wrong place."""
    stays = [
        stay
        for stay in _home_stays(s)
        if s.graph.exists_at_start(stay.storage) and sum(r.storage == stay.storage for r in s.residencies) > 1
    ]
    stay = pick(random, stays)
    return None if stay is None else with_stay(s, stay, replace(stay, offset=s.metrics.reserved_bytes))


def keep_the_newest_value_from_the_pool(random: Random, s: Schedule) -> Schedule | None:
    """A storage at home in the pool is written, and never stored after that."""
    found = []
    for stay, parts in stored_stays(s):
        kept = s.graph.lives_to_end(stay.storage) and s.homes[stay.storage] == "pool"
        if kept and next_stay(s, stay) is None and writers(s, stay):
            found.append(parts)
    parts = pick(random, found)
    return None if parts is None else without(s, parts)


def call_the_pool_home_of_what_never_goes_there(random: Random, s: Schedule) -> Schedule | None:
    moved, written = {t.storage for t in s.transfers}, {w for op in s.graph.ops for w in op.writes}
    found = [x.id for x in s.graph.storages if x.persistent and x.id in written and x.id not in moved]
    storage = pick(random, (x for x in found if s.homes[x] == "device"))
    if storage is None:
        return None
    return replace(s, homes=(*s.homes[:storage], "pool", *s.homes[storage + 1 :]))


def call_the_device_home_of_what_comes_from_the_pool(random: Random, s: Schedule) -> Schedule | None:
    moved = {t.storage for t in s.transfers}
    storage = pick(random, (x.id for x in s.graph.storages if x.persistent and x.id in moved))
    if storage is None or s.homes[storage] == "device":
        return None
    return replace(s, homes=(*s.homes[:storage], "device", *s.homes[storage + 1 :]))
