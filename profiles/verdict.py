"""The comparison in one sentence, with what was predicted and what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hyperoffload_core.sizes import format_ns

if TYPE_CHECKING:
    from profiles.compare import Number, Side


def verdict_sentence(sides: Sequence[Side], numbers: Sequence[Number], baseline: int) -> str:
    """What each profile costs and saves against the baseline, as one sentence."""
    values = {number.name: number.values for number in numbers}
    machines = {side.hardware for side in sides}
    shared = f"On {machines.pop()}, against" if len(machines) == 1 else "Against"

    def named(side: Side) -> str:
        return side.name if shared != "Against" else f"{side.name} on {side.hardware}"

    clauses = []
    for index, side in enumerate(sides):
        if index == baseline:
            continue
        step, reference = values["step time"][index], values["step time"][baseline]
        parts = [
            _step(step, reference),
            _memory(values["device memory used"][index], values["device memory used"][baseline]),
        ]
        blocking = values["blocking time"][index]
        if blocking and values["bytes in"][index]:
            parts.append(f"waits {format_ns(int(blocking))} for transfers")
        losses = values["last loss"]
        if losses[index] is not None and losses[baseline] is not None:
            same = losses[index] == losses[baseline]
            parts.append(
                "ends with the same loss" if same else f"ends with loss {losses[index]:.6g}, not {losses[baseline]:.6g}"
            )
        clauses.append(f"{named(side)} {', '.join(parts[:-1])} and {parts[-1]}")
    return f"{shared} {named(sides[baseline])}: {'; '.join(clauses)}."


def _step(step: float | None, reference: float | None) -> str:
    if not step or not reference:
        return "has no step time to compare"
    ratio = step / reference
    if abs(ratio - 1) < 0.005:
        return "takes the same step time"
    return f"takes {ratio:.2f} times the step time"


def _memory(peak: float | None, reference: float | None) -> str:
    if not peak or not reference:
        return "has no peak to compare"
    share = peak / reference - 1
    if abs(share) < 0.005:
        return "needs the same device memory"
    return f"needs {abs(share):.0%} {'less' if share < 0 else 'more'} device memory"
