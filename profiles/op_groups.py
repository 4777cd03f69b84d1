"""Where the time of compared profiles went: their ops one by one, or added up by layer, primitive or phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from profiles.alive import layer_of
from profiles.comparison import Comparison, OpDifference

OpGrouping = Literal["op", "layer", "primitive", "phase"]
OP_GROUPINGS: tuple[OpGrouping, ...] = get_args(OpGrouping)


@dataclass(frozen=True)
class OpGroup:
    """Ops together; per profile how many of them ran, how long they took and how long they waited for transfers.

    ``differences_ns`` are those of both times together to the baseline's. A group that a profile has nothing of takes
    no time there: a recomputed op, or one that another graph lacks, counts with all its time.
    """

    name: str
    counts: tuple[int, ...]
    durations_ns: tuple[int, ...]
    waits_ns: tuple[int, ...]
    differences_ns: tuple[int, ...]

    @property
    def largest_ns(self) -> int:
        return max(abs(d) for d in self.differences_ns)


def op_groups(comparison: Comparison, by: OpGrouping) -> list[OpGroup]:
    """The groups, largest difference first. Their differences add up to what the steps differ by in ops and waits."""
    key: dict[OpGrouping, Callable[[OpDifference], str]] = {
        "op": lambda op: op.name,
        "layer": lambda op: layer_of(op.scope) or op.name,
        "primitive": lambda op: op.primitive or op.name,
        "phase": lambda op: op.phase or op.name,
    }
    groups: dict[str, list[OpDifference]] = {}
    for op in comparison.ops:
        groups.setdefault(key[by](op), []).append(op)
    rows = [_group(name, ops, comparison.baseline) for name, ops in groups.items()]
    return sorted(rows, key=lambda g: (-g.largest_ns, -max(g.durations_ns), g.name))


def _group(name: str, ops: Sequence[OpDifference], baseline: int) -> OpGroup:
    counts = tuple(sum(d is not None for d in side) for side in zip(*(op.durations_ns for op in ops), strict=True))
    took, waited = (
        tuple(sum(v or 0 for v in side) for side in zip(*rows, strict=True))
        for rows in ([op.durations_ns for op in ops], [op.waits_ns for op in ops])
    )
    both = [a + b for a, b in zip(took, waited, strict=True)]
    return OpGroup(name, counts, took, waited, tuple(v - both[baseline] for v in both))
