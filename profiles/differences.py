"""Ops, storages and transfers in which profiles differ, aligned by identity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.explain.moves import WORKED_OUT, MoveVerdict, best_remedy, move_verdicts
from hyperoffload_core.explain.remedies import Replays
from hyperoffload_core.explain.step import Step, step_of
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
from profiles.lanes import lanes
from profiles.series import memory_curve

# A storage held for this part of a step more or less is held differently.
HELD_OTHERWISE = 0.05
TAIL = "(after the last op)"
_T = TypeVar("_T")
Column = NDArray[np.int64]


def op_differences(
    profiles: Sequence[Profile], names: Sequence[Sequence[Identity]], baseline: int
) -> tuple[OpDifference, ...]:
    """Every op of any profile, largest difference first, and a row for what waits behind the last op.

    ``names`` are the identities of each profile's ops.
    """
    known = _known(names, [p.schedule.graph.ops for p in profiles])
    waits = [_op_waits(p) for p in profiles]
    took: list[list[int | None]] = []
    waited: list[list[int | None]] = []
    for profile, own, waits_of in zip(profiles, names, waits, strict=True):
        ids, durations = {identity: op for op, identity in enumerate(own)}, _op_medians(profile)
        there = [ids.get(identity) for identity in known]
        ran = [None if op is None else durations.get(op) for op in there]
        took.append(ran)
        waited.append([None if d is None else waits_of.get(op, 0) for op, d in zip(there, ran, strict=True)])
    more = _differences(took, waited, baseline)
    rows = [
        OpDifference(op.name, op.primitive, op.scope, op.phase, durations, own_waits, differ)
        for op, durations, own_waits, differ in zip(
            known.values(), zip(*took, strict=True), zip(*waited, strict=True), more, strict=True
        )
    ]
    tails = [[each.get(None, 0)] for each in waits]
    if any(tail for (tail,) in tails):
        nothing = [[0] for _ in profiles]
        (differ,) = _differences(nothing, tails, baseline)
        rows.append(OpDifference(TAIL, "", "", "", (0,) * len(profiles), tuple(t for (t,) in tails), differ))
    return tuple(sorted(rows, key=lambda r: (-r.largest_ns, r.name)))


def _differences(
    took: Sequence[Sequence[int | None]], waited: Sequence[Sequence[int | None]], baseline: int
) -> list[tuple[int | None, ...]]:
    """Row by row, what each profile's durations and waits together differ by from the baseline's."""
    both = [
        [None if a is None or b is None else a + b for a, b in zip(*columns, strict=True)]
        for columns in zip(took, waited, strict=True)
    ]
    by_profile = [
        [None if v is None or r is None else v - r for v, r in zip(column, both[baseline], strict=True)]
        for column in both
    ]
    return list(zip(*by_profile, strict=True))


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
    rows_of = [{identity: row for row, identity in enumerate(own)} for own in names]
    there = np.array([[each.get(identity, -1) for identity in known] for each in rows_of], dtype=np.int64)
    placed = [_placements(p) for p in profiles]
    held = [_residencies(p) for p in profiles]
    differ = _differ([p.codes for p in placed], there) | _held_otherwise(held, there)
    storages = list(known.values())
    found = []
    for at in np.flatnonzero(differ).tolist():
        rows = there[:, at].tolist()
        placements = tuple(None if row < 0 else own.at(row) for own, row in zip(placed, rows, strict=True))
        residencies = tuple(None if row < 0 else own.at(row) for own, row in zip(held, rows, strict=True))
        of = storages[at]
        found.append(StorageDifference(of.name, of.tensor_class, of.bytes, placements, residencies))
    return tuple(sorted(found, key=lambda r: (-r.bytes, r.name)))


@dataclass(frozen=True)
class _Placed:
    """Where a profile has each storage: ``codes[0]`` whether its home is the pool, then how often it is stored and
    prefetched."""

    codes: Column

    def at(self, storage: int) -> Placement:
        pool, stores, prefetches = self.codes[:, storage].tolist()
        return Placement("pool" if pool else "device", stores, prefetches)


@dataclass(frozen=True)
class _Held:
    """The part of the step for which a profile has each storage on the device, and its part of the peak."""

    resident: NDArray[np.float64]
    peak_share: NDArray[np.float64]

    def at(self, storage: int) -> Residency:
        return Residency(float(self.resident[storage]), float(self.peak_share[storage]))


def _differ(codes: Sequence[Column], there: Column) -> NDArray[np.bool_]:
    """Which storages (columns of ``there``: their ids in each profile, -1 where it has none) have other codes, or are
    not there, in some profile."""
    first = None
    differ = np.zeros(there.shape[1], dtype=np.bool_)
    for own, rows in zip(codes, there, strict=True):
        # A column more, for what is not there.
        here = np.concatenate([own, np.full((len(own), 1), -1, np.int64)], axis=1)[:, rows]
        first = here if first is None else first
        differ |= (here != first).any(axis=0)
    return differ


def _held_otherwise(held: Sequence[_Held], there: Column) -> NDArray[np.bool_]:
    """Which storages are at the peak, or on the device for much longer, in some profile and not in another."""
    least, most = np.full(there.shape[1], np.inf), np.full(there.shape[1], -np.inf)
    at_peak, off_peak = np.zeros((2, there.shape[1]), dtype=np.bool_)
    for own, rows in zip(held, there, strict=True):
        has = rows >= 0
        resident, peak = own.resident[rows[has]], own.peak_share[rows[has]] > 0
        least[has], most[has] = np.minimum(least[has], resident), np.maximum(most[has], resident)
        at_peak[has] |= peak
        off_peak[has] |= ~peak
    return (most - least >= HELD_OTHERWISE) | (at_peak & off_peak)


def _placements(profile: Profile) -> _Placed:
    moved, schedule = profile.transfers, profile.schedule
    codes = np.zeros((3, len(schedule.graph.storages)), dtype=np.int64)
    codes[0] = [home == "pool" for home in schedule.homes]
    ran = set(moved.transfer[moved.step == profile.median_step].tolist())
    for move in schedule.moves:
        if move[0].id in ran:
            codes[1 if move[0].kind == "store" else 2, move[0].storage] += 1
    return _Placed(codes)


def _residencies(profile: Profile) -> _Held:
    stays, step = profile.lifetimes, profile.median_step
    count = len(profile.schedule.graph.storages)
    end = max(int(profile.steps.step_ns[step]), 1)
    rows = stays.step == step
    storage, first, last = stays.storage[rows], stays.start_ns[rows], stays.end_ns[rows]
    there = np.bincount(storage, np.clip(last, 0, end) - np.clip(first, 0, end), count) / end
    peak_ns, peak = memory_curve(profile, step).peak
    at = (first <= peak_ns) & (last > peak_ns)
    share: NDArray[np.float64] = np.bincount(storage[at], stays.bytes[rows][at], count) / max(peak, 1)
    return _Held(np.minimum(there, 1.0), share)


def transfer_differences(
    profiles: Sequence[Profile], names: Sequence[Sequence[Identity]]
) -> tuple[TransferDifference, ...]:
    """Storages and directions that differ in number, parts, bytes or blocking time of moves; most bytes first."""
    steps = [step_of(p, p.median_step) for p in profiles]
    moved = [_moves(step, own) for step, own in zip(steps, names, strict=True)]
    sums = [{key: _sum(together) for key, together in own.items()} for own in moved]
    known = _known(names, [p.schedule.graph.storages for p in profiles])
    nothing = TransferSum(0, 0, 0, 0, 0, 0)
    found = []
    for key in dict.fromkeys(key for each in sums for key in each):
        moves = [each.get(key, nothing) for each in sums]
        if len({(m.count, m.parts, m.bytes, m.blocking_ns) for m in moves}) > 1:
            found.append((key, moves))
    # What would help is worked out for what is shown, and of that for the moves that cost most.
    helped = [_helped(step, own, [key for key, _ in found]) for step, own in zip(steps, moved, strict=True)]
    rows = []
    for (identity, direction), moves in found:
        storage = known[identity]
        told = tuple(
            replace(m, remedy=own[identity, direction]) if (identity, direction) in own else m
            for m, own in zip(moves, helped, strict=True)
        )
        rows.append(TransferDifference(storage.name, storage.tensor_class, direction, told))
    return tuple(sorted(rows, key=lambda r: (-max(m.bytes for m in r.moves), r.storage, r.direction)))


def _moves(step: Step, names: Sequence[Identity]) -> dict[tuple[Identity, str], list[MoveVerdict]]:
    """The moves of each storage and direction; what would help them is not tried."""
    moves: dict[tuple[Identity, str], list[MoveVerdict]] = {}
    for m in move_verdicts(step, worked_out=0):
        moves.setdefault((names[m.storage], "out" if m.kind == "store" else "in"), []).append(m)
    return moves


def _helped(
    step: Step, moves: Mapping[tuple[Identity, str], Sequence[MoveVerdict]], keys: Sequence[tuple[Identity, str]]
) -> dict[tuple[Identity, str], str]:
    """What would help the dearest move of each key, for the `WORKED_OUT` that block most."""
    dearest = [(key, _dearest(moves[key])) for key in keys if key in moves]
    costly = sorted((d for d in dearest if d[1].blocking_ns), key=lambda d: -d[1].blocking_ns)[:WORKED_OUT]
    replays = Replays(step)
    return {key: best_remedy(replays, m.parts[-1]).kind for key, m in costly}


def _dearest(moves: Sequence[MoveVerdict]) -> MoveVerdict:
    return max(moves, key=lambda m: (m.blocking_ns, m.exposed_ns))


def _sum(moves: Sequence[MoveVerdict]) -> TransferSum:
    dearest = _dearest(moves)
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
