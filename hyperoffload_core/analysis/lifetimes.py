"""When each storage is used in a given execution order, and the reuse gaps between the uses.

Positions count ops of the order from 0 to n - 1; -1 stands for the start of the step and n for its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    ops, storages, writes = graph.access_columns
    position_of = np.empty(len(graph.ops), np.int64)
    position_of[np.asarray(order, np.int64)] = np.arange(len(graph.ops))
    positions = position_of[ops]
    in_order = np.argsort(storages * len(graph.ops) + positions)
    positions, writes = positions[in_order].tolist(), writes[in_order].tolist()
    bounds = np.searchsorted(storages[in_order], np.arange(len(graph.storages) + 1)).tolist()
    return tuple(
        Uses(
            s.id,
            tuple(positions[begin:end]),
            tuple(writes[begin:end]),
            graph.exists_at_start(s.id),
            graph.lives_to_end(s.id),
        )
        for s, begin, end in zip(graph.storages, bounds[:-1], bounds[1:], strict=True)
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
