"""Prefetches that start earlier than planned because a rule of the policy says so (``prefetch_earlier``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from hyperoffload_core.explain.earlier import NotPossibleError, started_earlier
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import format_ns

MOST = 24
"""Prefetches moved for one policy: each is simulated and verified anew."""
_PARTS = (1.0, 0.5, 0.25, 0.125)
"""Parts of the wished time that are tried, one after the other."""


def with_earlier_prefetches(
    schedule: Schedule, earlier_ns: Mapping[int, int], check: Callable[[], None] = lambda: None
) -> Schedule:
    """The schedule with the Prefetches of some storages started earlier, one after the other in order of start.

    ``earlier_ns`` is by storage id of the graph without recomputed storages. Where the whole of it is not possible, a
    half, a quarter or an eighth is tried; notes say what came of each. ``check`` is called between them and may raise.
    """
    originals = [s.id for s in schedule.graph.storages if s.recompute_of is None]
    wanted = {originals[storage]: by_ns for storage, by_ns in earlier_ns.items()}
    moves = [move[0] for move in schedule.moves if move[0].kind == "prefetch" and move[0].storage in wanted]
    notes: list[str] = []
    for first in moves[:MOST]:
        check()
        schedule, note = _started(schedule, first.id, wanted[first.storage])
        notes.append(note)
    if len(moves) > MOST:
        notes.append(f"prefetch_earlier holds for {len(moves)} prefetches; the first {MOST} were moved")
    if without := set(wanted) - {move.storage for move in moves}:
        names = ", ".join(repr(schedule.graph.storages[s].name) for s in sorted(without)[:3])
        more = f" and {len(without) - 3} more" if len(without) > 3 else ""
        notes.append(f"prefetch_earlier changes nothing for {names}{more}: there is no prefetch in this schedule")
    return replace(schedule, notes=(*schedule.notes, *notes))


def _started(schedule: Schedule, transfer: int, by_ns: int) -> tuple[Schedule, str]:
    """The schedule after as much of the move as is possible, and what came of it in words."""
    before = next(t for t in schedule.transfers if t.id == transfer)
    name = schedule.graph.storages[before.storage].name
    reason = ""
    for part in _PARTS:
        try:
            changed = started_earlier(schedule, transfer, max(1, round(by_ns * part)))
        except NotPossibleError as error:
            reason = reason or str(error)
            continue
        gained = before.start_ns - next(t for t in changed.transfers if t.id == transfer).start_ns
        if gained <= 0:
            continue
        less = ""
        if gained < by_ns:
            less = f" instead of {format_ns(by_ns)}: {reason or 'its link and the ops before it allow no more'}"
        return changed, f"the prefetch of {name!r} starts {format_ns(gained)} earlier{less}"
    if before.start_ns == 0:
        reason = "it starts with the step"
    return schedule, f"the prefetch of {name!r} starts no earlier: {reason or 'its link is busy before'}"
