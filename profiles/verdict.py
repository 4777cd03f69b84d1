"""The comparison in one sentence, and what about it cannot be compared; both say what was predicted and measured."""

from __future__ import annotations

from collections.abc import Sequence

from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.comparison import Match, Number, Side
from profiles.plain import visible

_LABEL = 80


def verdict_sentence(sides: Sequence[Side], matches: Sequence[Match], numbers: Sequence[Number], baseline: int) -> str:
    """What each profile costs and saves against the baseline, as one sentence."""
    against, clauses = verdict_clauses(sides, matches, numbers, baseline)
    return f"{against}: {'; '.join(clauses)}."


def verdict_clauses(
    sides: Sequence[Side], matches: Sequence[Match], numbers: Sequence[Number], baseline: int
) -> tuple[str, list[str]]:
    """The verdict in its parts: what is compared with, and a clause for each of the others.

    All on one hardware name it once; else it is named with the baseline and where it is another one.
    """
    values = {number.name: number.values for number in numbers}
    base, clauses = sides[baseline], list[str]()
    base_name, machine = visible(base.name, _LABEL), visible(base.hardware)
    everywhere = all(side.hardware == base.hardware for side in sides)
    against = f"On {machine}, against {base_name}" if everywhere else f"Against {base_name} on {machine}"

    def named(side: Side) -> str:
        name = visible(side.name, _LABEL)
        return name if side.hardware == base.hardware else f"{name} on {visible(side.hardware, _LABEL)}"

    for index, side in enumerate(sides):
        if index == baseline:
            continue
        same = matches[index].same_schedule and side.kind != base.kind
        parts = [
            _step(values["step time"][index], values["step time"][baseline], side.kind if same else ""),
            _memory(values["device memory used"][index], values["device memory used"][baseline]),
        ]
        used = values["device memory used"][index]
        if used and used > side.memory_limit_bytes:
            parts.append(f"exceeds its limit by {format_bytes(int(used) - side.memory_limit_bytes)}")
        blocking = values["blocking time"][index]
        if blocking and values["bytes in"][index]:
            parts.append(f"waits {format_ns(int(blocking))} for transfers")
        losses = values["last loss"]
        if losses[index] is not None and losses[baseline] is not None:
            equal = losses[index] == losses[baseline]
            parts.append(
                "ends with the same loss"
                if equal
                else f"ends with loss {losses[index]:.6g}, not {losses[baseline]:.6g}"
            )
        other = "" if matches[index].same_graph else "is another graph, "
        clauses.append(f"{named(side)} {other}{', '.join(parts[:-1])} and {parts[-1]}")
    if len({side.kind for side in sides}) > 1:
        clauses.append("predicted and measured numbers also differ by the error of the prediction")
    return against, clauses


def comparison_notes(sides: Sequence[Side], matches: Sequence[Match], baseline: int) -> tuple[str, ...]:
    """A sentence for each thing that cannot be compared, or only with care."""
    labels, notes = [visible(side.label, _LABEL) for side in sides], []
    for label, match in zip(labels, matches, strict=True):
        if match.same_graph:
            continue
        if not match.ops and not match.storages:
            notes.append(
                f"{label} runs another graph than {labels[baseline]}, and none of its ops and storages has a "
                "counterpart of the same name: only totals stand beside each other, and they are those of different "
                "work."
            )
        else:
            notes.append(
                f"{label} runs another graph than {labels[baseline]}: {match.ops:,} of its {match.op_count:,} ops and "
                f"{match.storages:,} of its {match.storage_count:,} storages have a counterpart of the same name. Only "
                "those are compared one by one; step time, memory and bytes are those of different work."
            )
    reordered = [label for label, match in zip(labels, matches, strict=True) if match.reordered]
    if reordered:
        run, base = "runs" if len(reordered) == 1 else "run", labels[baseline]
        notes.append(
            f"{_listed(reordered)} {run} some ops in another order than {base}; tables align them by what they are, "
            "and the axis by op shows them where they run."
        )
    if len({side.kind for side in sides}) > 1:
        notes.append(
            "Some of these profiles were measured and some predicted: what differs between the two kinds is the error "
            "of the prediction as well as the schedule."
        )
    sources = dict.fromkeys(visible(side.duration_source, _LABEL) for side in sides)
    if len(sources) > 1:
        notes.append(
            f"The schedules were made with op durations from different sources ({'; '.join(sources)}), so predicted "
            "times of the same op may differ."
        )
    return tuple(notes)


def _step(step: float | None, reference: float | None, kind_of_same: str) -> str:
    """``kind_of_same``: what this one is, where both are one schedule, once measured and once predicted."""
    if not step or not reference:
        return "has no step time to compare"
    ratio = step / reference
    if kind_of_same:
        off = f"{abs(ratio - 1):.1%} {'longer' if ratio > 1 else 'shorter'}" if abs(ratio - 1) >= 0.0005 else "equal"
        whose = "predicts for the same schedule" if kind_of_same == "predicted" else "measured for the same schedule"
        return f"{whose} {'an' if off == 'equal' else 'a'} {off} step time"
    if abs(ratio - 1) < 0.005:
        return "takes the same step time"
    # Of a hundredth part two decimals say nothing.
    return f"takes {ratio:.2f} times the step time" if ratio >= 0.1 else f"takes 1/{1 / ratio:,.0f} of the step time"


def _memory(peak: float | None, reference: float | None) -> str:
    if not peak or not reference:
        return "has no peak to compare"
    share = peak / reference - 1
    if abs(share) < 0.005:
        return "needs the same device memory"
    # Of the manyfold a percentage says nothing.
    if share >= 1:
        return f"needs {peak / reference:,.3g} times the device memory"
    return f"needs {abs(share):.0%} {'less' if share < 0 else 'more'} device memory"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
