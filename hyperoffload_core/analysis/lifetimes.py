"""When each storage is used in a given execution order, and the reuse gaps between the uses.

Positions count ops of the order from 0 to n - 1; -1 stands for the start of the step and n for its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hyperoffload_core.ir import Graph


@dataclass(frozen=True, slots=True)
class Uses:
    """Accesses of one storage: positions in ascending order, and which of them write."""

    storage: int
    positions: tuple[int, ...]
    writes: tuple[bool, ...]
    exists_at_start: bool
    lives_to_end: bool


@dataclass(frozen=True, slots=True)
class Gap:
    """A reuse gap: the storage is not used strictly between positions ``left`` and ``right``.

    ``index`` numbers the gaps of a storage: 0 between its first two accesses, -1 from the start of the step to its
    first access, ``len(positions) - 1`` from its last access to the end of the step.
    """

    storage: int
    index: int
    left: int
    right: int


def uses_in_order(graph: Graph, order: Sequence[int]) -> tuple[Uses, ...]:
    """Uses of every storage when the ops run in ``order`` (a permutation of op ids)."""
    positions: list[list[int]] = [[] for _ in graph.storages]
    writes: list[list[bool]] = [[] for _ in graph.storages]
    for position, op_id in enumerate(order):
        op = graph.ops[op_id]
        written = set(op.writes)
        for storage in op.reads:
            positions[storage].append(position)
            writes[storage].append(storage in written)
        for storage in written.difference(op.reads):
            positions[storage].append(position)
            writes[storage].append(True)
    return tuple(
        Uses(s.id, tuple(positions[s.id]), tuple(writes[s.id]), graph.exists_at_start(s.id), graph.lives_to_end(s.id))
        for s in graph.storages
    )


def reuse_gaps(uses: Uses, op_count: int) -> list[Gap]:
    """All reuse gaps of a storage, also those without an op strictly inside, ordered by position."""
    gaps: list[Gap] = []
    positions = uses.positions
    if not positions:
        return gaps
    if uses.exists_at_start:
        gaps.append(Gap(uses.storage, -1, -1, positions[0]))
    gaps += [Gap(uses.storage, i, positions[i], positions[i + 1]) for i in range(len(positions) - 1)]
    if uses.lives_to_end:
        gaps.append(Gap(uses.storage, len(positions) - 1, positions[-1], op_count))
    return gaps
