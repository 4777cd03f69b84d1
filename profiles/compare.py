"""Two or more profiles side by side, as plain data: numbers, ops, storages and transfers with their differences.

Ops, storages and transfers are aligned by name, never by time. Times are those of each profile's median step, except
op durations, which are medians over all its steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hyperoffload_core.errors import UserError
from hyperoffload_core.explain.moves import MoveVerdict
from hyperoffload_core.recording import Profile
from profiles.explained import move_values
from profiles.series import memory_curve, overlap
from profiles.verdict import verdict_sentence

Unit = Literal["ns", "bytes", "fraction", "number"]
Value = int | float | None


@dataclass(frozen=True)
class LabelledProfile:
    """A profile under the name it has in the comparison; ``run_id`` where it comes from a database."""

    label: str
    profile: Profile
    run_id: int | None = None


@dataclass(frozen=True)
class Side:
    """What a compared profile is: every number of it was predicted or measured (``kind``) under ``conditions``."""

    label: str
    kind: str
    model: str
    strategy: str
    hardware: str
    conditions: str
    duration_source: str
    memory_limit_bytes: int
    step_count: int
    run_id: int | None

    @property
    def name(self) -> str:
        """The label with the kind, which it may already say."""
        return self.label if self.kind in self.label else f"{self.label} ({self.kind})"


@dataclass(frozen=True)
class Number:
    """One row of the table: a value per profile and its difference to the baseline's; None where there is none."""

    name: str
    unit: Unit
    lower_is_better: bool | None
    values: tuple[Value, ...]
    differences: tuple[Value, ...]


@dataclass(frozen=True)
class OpDifference:
    """An op's median duration in each profile; None where the profile's graph has no such op."""

    name: str
    primitive: str
    scope: str
    durations_ns: tuple[int | None, ...]
    differences_ns: tuple[int | None, ...]

    @property
    def largest_ns(self) -> int:
        return max((abs(d) for d in self.differences_ns if d is not None), default=0)


@dataclass(frozen=True)
class Placement:
    """Where a profile has a storage: ``home`` device or pool, and how often it leaves and comes back in a step.

    A storage that moves in parts leaves once when all its parts have.
    """

    home: str
    stores: int
    prefetches: int

    @property
    def text(self) -> str:
        if not self.stores and not self.prefetches:
            return "kept" if self.home == "device" else "stays in the pool"
        times = max(self.stores, self.prefetches)
        moved = "fetched from the pool" if self.home == "pool" else "offloaded"
        return f"{moved} {times} time{'s' if times != 1 else ''}"


@dataclass(frozen=True)
class StorageDifference:
    """A storage that is not treated the same in all profiles; None where the profile's graph lacks it."""

    name: str
    tensor_class: str
    bytes: int
    placements: tuple[Placement | None, ...]


@dataclass(frozen=True)
class TransferSum:
    """All moves of one storage in one direction in the median step; ``parts`` counts the transfers they are made of.

    ``slack_ns`` is the least of them, ``cause`` and ``remedy`` (`explain.moves.MoveVerdict`) are those of the move that
    blocks, or else is exposed, most; None where nothing moves.
    """

    count: int
    parts: int
    bytes: int
    duration_ns: int
    exposed_ns: int
    blocking_ns: int
    hidden_ns: int = 0
    slack_ns: int | None = None
    cause: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class TransferDifference:
    """One storage and direction (``out`` or ``in``) that does not move alike in all profiles."""

    storage: str
    tensor_class: str
    direction: str
    moves: tuple[TransferSum, ...]


@dataclass(frozen=True)
class Comparison:
    """Everything that is said about the profiles; ``sides[baseline]`` is what differences refer to."""

    verdict: str
    baseline: int
    sides: tuple[Side, ...]
    numbers: tuple[Number, ...]
    ops: tuple[OpDifference, ...]
    storages: tuple[StorageDifference, ...]
    transfers: tuple[TransferDifference, ...]


def compare(profiles: Sequence[LabelledProfile], baseline: int = 0) -> Comparison:
    """Compare at least two profiles with one of them. Raises `UserError` for fewer, or a baseline that is not there."""
    if len(profiles) < 2:
        raise UserError("a comparison needs at least two profiles")
    if not 0 <= baseline < len(profiles):
        raise UserError(f"the baseline is profile {baseline}, but there are {len(profiles)}, counted from 0")
    for item in profiles:
        if not item.profile.step_count:
            raise UserError(f"{item.label} has no recorded step to compare")
    numbers = _numbers(profiles, baseline)
    sides = tuple(_side(item) for item in profiles)
    return Comparison(
        verdict=verdict_sentence(sides, numbers, baseline),
        baseline=baseline,
        sides=sides,
        numbers=numbers,
        ops=_ops(profiles, baseline),
        storages=_storages(profiles),
        transfers=_transfers(profiles),
    )


def _side(item: LabelledProfile) -> Side:
    schedule = item.profile.schedule
    return Side(
        label=item.label,
        kind=item.profile.kind,
        model=schedule.graph.name,
        strategy=schedule.strategy,
        hardware=schedule.hardware.title,
        conditions=item.profile.conditions,
        duration_source=schedule.duration_source,
        memory_limit_bytes=schedule.memory_limit_bytes,
        step_count=item.profile.step_count,
        run_id=item.run_id,
    )


def _numbers(profiles: Sequence[LabelledProfile], baseline: int) -> tuple[Number, ...]:
    rows: list[tuple[str, Unit, bool | None, list[Value]]] = [
        ("step time", "ns", True, []),
        ("compute", "ns", True, []),
        ("exposed transfer time", "ns", True, []),
        ("blocking time", "ns", True, []),
        ("overlap", "fraction", False, []),
        ("peak live memory", "bytes", True, []),
        ("device memory used", "bytes", True, []),
        ("memory limit", "bytes", None, []),
        ("bytes out", "bytes", True, []),
        ("bytes in", "bytes", True, []),
        ("last loss", "number", None, []),
    ]
    for item in profiles:
        profile, steps, at = item.profile, item.profile.steps, item.profile.median_step
        values: list[Value] = [
            int(steps.step_ns[at]),
            int(steps.compute_ns[at]),
            int(steps.exposed_ns[at]),
            int(steps.blocking_ns[at]),
            overlap(profile, at).fraction,
            max(memory_curve(profile, step).peak[1] for step in range(profile.step_count)),
            _used_bytes(profile),
            profile.schedule.memory_limit_bytes,
            int(steps.bytes_out[at]),
            int(steps.bytes_in[at]),
            profile.losses[-1] if profile.losses else None,
        ]
        for row, value in zip(rows, values, strict=True):
            row[3].append(value)
    return tuple(
        Number(name, unit, lower, tuple(values), tuple(_minus(value, values[baseline]) for value in values))
        for name, unit, lower, values in rows
    )


def _used_bytes(profile: Profile) -> int:
    """Device memory with the gaps between storages: what a measured run needed, what a prediction reserves."""
    if profile.kind == "measured":
        return int(profile.steps.peak_bytes.max())
    return profile.schedule.metrics.reserved_bytes


def _minus(value: Value, reference: Value) -> Value:
    return None if value is None or reference is None else value - reference


def _ops(profiles: Sequence[LabelledProfile], baseline: int) -> tuple[OpDifference, ...]:
    """Every op of any profile, largest difference first."""
    durations = [_op_medians(item.profile) for item in profiles]
    known = {name: op for item in reversed(profiles) for name, op in _named_ops(item.profile).items()}
    rows = []
    for name, (primitive, scope) in known.items():
        values = tuple(d.get(name) for d in durations)
        reference = values[baseline]
        differences = tuple(None if v is None or reference is None else v - reference for v in values)
        rows.append(OpDifference(name, primitive, scope, values, differences))
    return tuple(sorted(rows, key=lambda r: (-r.largest_ns, r.name)))


def _named_ops(profile: Profile) -> dict[str, tuple[str, str]]:
    return {op.name: (op.primitive, op.scope) for op in profile.schedule.graph.ops}


def _op_medians(profile: Profile) -> dict[str, int]:
    """(Lower) median duration of each op that ran, by name."""
    ops, names = profile.ops, [op.name for op in profile.schedule.graph.ops]
    duration = ops.end_ns - ops.start_ns
    order = np.lexsort((duration, ops.op))
    op, duration = ops.op[order], duration[order]
    found, first, count = np.unique(op, return_index=True, return_counts=True)
    median = duration[first + (count - 1) // 2]
    return {names[o]: int(d) for o, d in zip(found.tolist(), median.tolist(), strict=True)}


def _storages(profiles: Sequence[LabelledProfile]) -> tuple[StorageDifference, ...]:
    """Storages treated differently, largest first."""
    placements = [_placements(item.profile) for item in profiles]
    known = {s.name: s for item in reversed(profiles) for s in item.profile.schedule.graph.storages}
    rows = []
    for name, storage in known.items():
        values = tuple(p.get(name) for p in placements)
        if len(set(values)) > 1:
            rows.append(StorageDifference(name, storage.tensor_class, storage.bytes, values))
    return tuple(sorted(rows, key=lambda r: (-r.bytes, r.name)))


def _placements(profile: Profile) -> dict[str, Placement]:
    moved, schedule = profile.transfers, profile.schedule
    ran = set(moved.transfer[moved.step == profile.median_step].tolist())
    count = Counter((move[0].storage, move[0].kind) for move in schedule.moves if move[0].id in ran)
    return {
        s.name: Placement(schedule.homes[s.id], count[s.id, "store"], count[s.id, "prefetch"])
        for s in schedule.graph.storages
    }


def _transfers(profiles: Sequence[LabelledProfile]) -> tuple[TransferDifference, ...]:
    """Storages and directions that differ in number, parts, bytes or blocking time of moves; most bytes first."""
    sums = [_transfer_sums(item.profile) for item in profiles]
    classes = {s.name: s.tensor_class for item in profiles for s in item.profile.schedule.graph.storages}
    nothing = TransferSum(0, 0, 0, 0, 0, 0)
    rows = []
    for key in dict.fromkeys(key for each in sums for key in each):
        moves = tuple(each.get(key, nothing) for each in sums)
        if len({(m.count, m.parts, m.bytes, m.blocking_ns) for m in moves}) > 1:
            rows.append(TransferDifference(key[0], classes[key[0]], key[1], moves))
    return tuple(sorted(rows, key=lambda r: (-max(m.bytes for m in r.moves), r.storage, r.direction)))


def _transfer_sums(profile: Profile) -> dict[tuple[str, str], TransferSum]:
    storages = profile.schedule.graph.storages
    moves: dict[tuple[str, str], list[MoveVerdict]] = {}
    for m in move_values(profile, profile.median_step).values():
        moves.setdefault((storages[m.storage].name, "out" if m.kind == "store" else "in"), []).append(m)
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
