"""Two or more profiles side by side: numbers, ops, storages, decisions and transfers with their differences.

Ops, storages and transfers are aligned by identity (`profiles.alignment`), never by time. Times are those of each
profile's median step, except op durations, which are medians over all its steps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hyperoffload_core.collector import collector_paused
from hyperoffload_core.errors import UserError
from hyperoffload_core.recording import Profile
from profiles.alignment import Identity, align_ops, identities_of
from profiles.comparison import Comparison, LabelledProfile, Match, Number, Side, Unit, Value
from profiles.decisions import policy_differences, tier_changes
from profiles.differences import op_differences, storage_differences, transfer_differences
from profiles.series import memory_curve, overlap
from profiles.verdict import comparison_notes, verdict_sentence


def compare(items: Sequence[LabelledProfile], baseline: int = 0) -> Comparison:
    """Compare at least two profiles with one of them. Raises `UserError` for fewer, or a baseline that is not there."""
    if len(items) < 2:
        raise UserError("a comparison needs at least two profiles")
    if not 0 <= baseline < len(items):
        raise UserError(f"the baseline is profile {baseline}, but there are {len(items)}, counted from 0")
    for item in items:
        if not item.profile.step_count:
            raise UserError(f"{item.label} has no recorded step to compare")
    with collector_paused():
        return _compared(items, baseline)


def _compared(items: Sequence[LabelledProfile], baseline: int) -> Comparison:
    profiles = [item.profile for item in items]
    numbers = _numbers(profiles, baseline)
    sides = tuple(_side(item) for item in items)
    ops, held = identities_of(profiles, "ops"), identities_of(profiles, "storages")
    matches = _matches(profiles, ops, held, baseline)
    storages = storage_differences(profiles, held)
    return Comparison(
        verdict=verdict_sentence(sides, matches, numbers, baseline),
        notes=comparison_notes(sides, matches, baseline),
        baseline=baseline,
        sides=sides,
        matches=matches,
        numbers=numbers,
        ops=op_differences(profiles, ops, baseline),
        storages=storages,
        tier_changes=tier_changes(storages, baseline),
        policies=policy_differences([p.schedule.policy for p in profiles]),
        transfers=transfer_differences(profiles, held),
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


def _matches(
    profiles: Sequence[Profile], ops: Sequence[Sequence[Identity]], held: Sequence[Sequence[Identity]], baseline: int
) -> tuple[Match, ...]:
    aligned = align_ops(profiles, baseline, ops)
    reference = profiles[baseline].schedule
    found = []
    for side, profile in enumerate(profiles):
        schedule = profile.schedule
        graph, base = schedule.graph.original, reference.graph.original
        found.append(
            Match(
                same_schedule=schedule == reference,
                same_graph=graph.ops == base.ops and graph.storages == base.storages,
                reordered=aligned.reordered(side, baseline),
                ops=len(set(ops[baseline]).intersection(ops[side])),
                op_count=len(schedule.graph.ops),
                storages=len(set(held[baseline]).intersection(held[side])),
                storage_count=len(schedule.graph.storages),
            )
        )
    return tuple(found)


def _numbers(profiles: Sequence[Profile], baseline: int) -> tuple[Number, ...]:
    rows: list[tuple[str, Unit, bool | None, list[Value]]] = [
        ("step time", "ns", True, []),
        ("compute", "ns", True, []),
        ("recomputed ops", "ns", True, []),
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
    for profile in profiles:
        steps, at = profile.steps, profile.median_step
        values: list[Value] = [
            int(steps.step_ns[at]),
            int(steps.compute_ns[at]),
            _recomputing_ns(profile),
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
        if name != "recomputed ops" or any(values)
    )


def _recomputing_ns(profile: Profile) -> int:
    """Time of the median step spent running ops again."""
    again = np.array([op.recompute_of is not None for op in profile.schedule.graph.ops], dtype=bool)
    rows = profile.ops.step == profile.median_step
    rows &= again[profile.ops.op]
    return int((profile.ops.end_ns[rows] - profile.ops.start_ns[rows]).sum())


def _used_bytes(profile: Profile) -> int:
    """Device memory with the gaps between storages: what a measured run needed, what a prediction reserves."""
    if profile.kind == "measured":
        return int(profile.steps.peak_bytes.max())
    return profile.schedule.metrics.reserved_bytes


def _minus(value: Value, reference: Value) -> Value:
    return None if value is None or reference is None else value - reference
