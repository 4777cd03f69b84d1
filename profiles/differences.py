"""Ops, storages and transfers in which profiles differ, aligned by identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.explain.moves import MoveVerdict
from hyperoffload_core.recording import Profile
from profiles.alignment import Identity
from profiles.comparison import (
    OpDifference,
    Placement,
    Residency,
    StorageDifference,
    TransferDifference,
    TransferSum,
)
from profiles.explained import move_values
from profiles.lanes import lanes
from profiles.series import memory_curve

# A storage held for this part of a step more or less is held differently.
HELD_OTHERWISE = 0.05
TAIL = "(after the last op)"
_T = TypeVar("_T")


def op_differences(
    profiles: Sequence[Profile], names: Sequence[Sequence[Identity]], baseline: int
) -> tuple[OpDifference, ...]:
    """Every op of any profile, largest difference first, and a row for what waits behind the last op.

    ``names`` are the identities of each profile's ops.
    """
    known = _known(names, [p.schedule.graph.ops for p in profiles])
    durations = [_op_medians(p) for p in profiles]
    waits = [_op_waits(p) for p in profiles]
    ids = [{identity: op for op, identity in enumerate(own)} for own in names]
    rows = []
    for identity, op in known.items():
        own = [each.get(identity) for each in ids]
        took = tuple(None if o is None else durations[side].get(o) for side, o in enumerate(own))
        waited = tuple(None if o is None or took[side] is None else waits[side].get(o, 0) for side, o in enumerate(own))
        rows.append(
            OpDifference(op.name, op.primitive, op.scope, op.phase, took, waited, _differences(took, waited, baseline))
        )
    tails = tuple(each.get(None, 0) for each in waits)
    if any(tails):
        nothing = (0,) * len(profiles)
        rows.append(OpDifference(TAIL, "", "", "", nothing, tails, _differences(nothing, tails, baseline)))
    return tuple(sorted(rows, key=lambda r: (-r.largest_ns, r.name)))


def _differences(took: Sequence[int | None], waited: Sequence[int | None], baseline: int) -> tuple[int | None, ...]:
    both = [None if a is None or b is None else a + b for a, b in zip(took, waited, strict=True)]
    reference = both[baseline]
    return tuple(None if v is None or reference is None else v - reference for v in both)


def _known(names: Sequence[Sequence[Identity]], items: Sequence[Sequence[_T]]) -> dict[Identity, _T]:
    """What every identity is in the first profile that has it, in the order of the profiles."""
    found: dict[Identity, _T] = {}
    for own, of in zip(names, items, strict=True):
        for identity, item in zip(own, of, strict=True):
            found.setdefault(identity, item)
    return found


def _op_medians(profile: Profile) -> dict[int, int]:
    """(Lower) median duration over all steps of each op that ran, by id."""
    ops = profile.ops
    duration = ops.end_ns - ops.start_ns
    order = np.lexsort((duration, ops.op))
    op, duration = ops.op[order], duration[order]
    found, first, count = np.unique(op, return_index=True, return_counts=True)
    return dict(zip(found.tolist(), duration[first + (count - 1) // 2].tolist(), strict=True))


def _op_waits(profile: Profile) -> dict[int | None, int]:
    """How long each op of the median step waited for a transfer, by id; behind the last op under None."""
    drawn = lanes(profile, profile.median_step)
    rows = np.searchsorted(drawn.compute.start_ns, drawn.waiting.start_ns, side="left")
    waited: Counter[int | None] = Counter()
    ops = [*drawn.compute.item.tolist(), None]
    for row, length in zip(rows.tolist(), (drawn.waiting.end_ns - drawn.waiting.start_ns).tolist(), strict=True):
        waited[ops[row]] += length
    return dict(waited)


def storage_differences(
    profiles: Sequence[Profile], names: Sequence[Sequence[Identity]]
) -> tuple[StorageDifference, ...]:
    """Storages placed or held differently, largest first. ``names`` are the identities of each profile's storages."""
    known = _known(names, [p.schedule.graph.storages for p in profiles])
    placed = [_by_identity(own, _placements(p)) for own, p in zip(names, profiles, strict=True)]
    held = [_by_identity(own, _residencies(p)) for own, p in zip(names, profiles, strict=True)]
    rows = []
    for identity, storage in known.items():
        placements = tuple(each.get(identity) for each in placed)
        residencies = tuple(each.get(identity) for each in held)
        if len(set(placements)) > 1 or _held_otherwise(residencies):
            rows.append(StorageDifference(storage.name, storage.tensor_class, storage.bytes, placements, residencies))
    return tuple(sorted(rows, key=lambda r: (-r.bytes, r.name)))


def _by_identity(names: Sequence[Identity], values: Sequence[_T]) -> dict[Identity, _T]:
    return dict(zip(names, values, strict=True))


def _held_otherwise(residencies: Sequence[Residency | None]) -> bool:
    resident = [r.resident for r in residencies if r]
    at_peak = {r.peak_share > 0 for r in residencies if r}
    return len(at_peak) > 1 or max(resident) - min(resident) >= HELD_OTHERWISE


def _placements(profile: Profile) -> list[Placement]:
    moved, schedule = profile.transfers, profile.schedule
    ran = set(moved.transfer[moved.step == profile.median_step].tolist())
    count = Counter((move[0].storage, move[0].kind) for move in schedule.moves if move[0].id in ran)
    return [
        Placement(schedule.homes[s.id], count[s.id, "store"], count[s.id, "prefetch"]) for s in schedule.graph.storages
    ]


def _residencies(profile: Profile) -> list[Residency]:
    stays, step = profile.lifetimes, profile.median_step
    count = len(profile.schedule.graph.storages)
    end = max(int(profile.steps.step_ns[step]), 1)
    rows = stays.step == step
    storage, first, last = stays.storage[rows], stays.start_ns[rows], stays.end_ns[rows]
    there = np.bincount(storage, np.clip(last, 0, end) - np.clip(first, 0, end), count) / end
    peak_ns, peak = memory_curve(profile, step).peak
    at = (first <= peak_ns) & (last > peak_ns)
    share: NDArray[np.float64] = np.bincount(storage[at], stays.bytes[rows][at], count) / max(peak, 1)
    return [Residency(min(r, 1.0), s) for r, s in zip(there.tolist(), share.tolist(), strict=True)]


def transfer_differences(
    profiles: Sequence[Profile], names: Sequence[Sequence[Identity]]
) -> tuple[TransferDifference, ...]:
    """Storages and directions that differ in number, parts, bytes or blocking time of moves; most bytes first."""
    sums = [_transfer_sums(p, own) for p, own in zip(profiles, names, strict=True)]
    known = _known(names, [p.schedule.graph.storages for p in profiles])
    nothing = TransferSum(0, 0, 0, 0, 0, 0)
    rows = []
    for identity, direction in dict.fromkeys(key for each in sums for key in each):
        moves = tuple(each.get((identity, direction), nothing) for each in sums)
        if len({(m.count, m.parts, m.bytes, m.blocking_ns) for m in moves}) > 1:
            storage = known[identity]
            rows.append(TransferDifference(storage.name, storage.tensor_class, direction, moves))
    return tuple(sorted(rows, key=lambda r: (-max(m.bytes for m in r.moves), r.storage, r.direction)))


def _transfer_sums(profile: Profile, names: Sequence[Identity]) -> Mapping[tuple[Identity, str], TransferSum]:
    moves: dict[tuple[Identity, str], list[MoveVerdict]] = {}
    for m in move_values(profile, profile.median_step).values():
        moves.setdefault((names[m.storage], "out" if m.kind == "store" else "in"), []).append(m)
    return {key: _sum(together) for key, together in moves.items()}


def _sum(moves: Sequence[MoveVerdict]) -> TransferSum:
    dearest = max(moves, key=lambda m: (m.blocking_ns, m.exposed_ns))
    return TransferSum(
        count=len(moves),
        parts=sum(len(m.parts) for m in moves),
        bytes=sum(m.bytes for m in moves),
        duration_ns=sum(m.hidden_ns + m.exposed_ns for m in moves),
        exposed_ns=sum(m.exposed_ns for m in moves),
        blocking_ns=sum(m.blocking_ns for m in moves),
        hidden_ns=sum(m.hidden_ns for m in moves),
        slack_ns=min(m.slack_ns for m in moves),
        cause=dearest.cause,
        remedy=dearest.remedy.kind,
    )
