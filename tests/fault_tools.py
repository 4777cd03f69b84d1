"""Taking a schedule apart and putting it together with something changed: what the faults of `tests.faults` use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import TypeVar

from hyperoffload_core.schedule import OpTime, Residency, Schedule, Transfer
from tests.slow_events import users

T = TypeVar("T")


def shuffled(random: Random, items: Iterable[T]) -> list[T]:
    found = list(items)
    random.shuffle(found)
    return found


def pick(random: Random, items: Iterable[T]) -> T | None:
    found = list(items)
    return random.choice(found) if found else None


def times_of(s: Schedule) -> dict[int, OpTime]:
    return {t.op: t for t in s.op_times}


def moves_in(s: Schedule, stay: Residency, kind: str) -> list[Transfer]:
    rows = [t for t in s.transfers if t.storage == stay.storage and t.kind == kind]
    found = [t for t in rows if stay.start_ns <= t.start_ns and t.end_ns <= stay.end_ns]
    return sorted(found, key=lambda t: t.start_ns)


def writers(s: Schedule, stay: Residency) -> list[int]:
    return [o for o in users(s, stay) if stay.storage in s.graph.ops[o].writes]


def next_stay(s: Schedule, stay: Residency) -> Residency | None:
    later = [r for r in s.residencies if r.storage == stay.storage and r.start_ns >= stay.end_ns and r is not stay]
    return min(later, key=lambda r: r.start_ns, default=None)


def with_op(s: Schedule, op: int, **changes: object) -> Schedule:
    rows = [replace(t, **changes) if t.op == op else t for t in s.op_times]  # type: ignore[arg-type]
    return replace(s, op_times=tuple(rows))


def with_transfers(s: Schedule, changed: Iterable[Transfer]) -> Schedule:
    by_id = {t.id: t for t in changed}
    return replace(s, transfers=tuple(by_id.get(t.id, t) for t in s.transfers))


def with_stay(s: Schedule, stay: Residency, changed: Residency | None) -> Schedule:
    rows = [changed if r is stay else r for r in s.residencies]
    return replace(s, residencies=tuple(r for r in rows if r is not None))


def without(s: Schedule, gone: Iterable[Transfer]) -> Schedule:
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


def shifted(t: Transfer, start_ns: int) -> Transfer:
    return replace(t, start_ns=start_ns, end_ns=start_ns + t.end_ns - t.start_ns)


def new_id(s: Schedule) -> int:
    return 1 + max((t.id for t in s.transfers), default=-1)


def stored_stays(s: Schedule) -> Iterator[tuple[Residency, list[Transfer]]]:
    for stay in s.residencies:
        parts = moves_in(s, stay, "store")
        if parts:
            yield stay, parts
