"""Gaps of storages that are alike at some slots, as one: what keeps a linear program over the gaps of a graph small.

Between two slots that a program knows, it cannot tell one layer of a model from the next. Storages whose gaps cover the
same slots, and whose transfers have the same ones to run between, are a *group*: averages of solutions are solutions,
so one that leaves the same part of each of them is as good as any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.passes.selection import WRAP, Candidates, Floats, Integers

_SIZES = 8
"""So many sizes are told apart between one and twice its bytes."""


@dataclass(frozen=True)
class Alike:
    """``gaps`` has a row per gap of a group: the one of its first storage, with the bytes and times of all of them.

    ``group``, ``bytes``, ``wrap`` are columns, one row per gap that was grouped: its row in ``gaps``, and its own.
    """

    gaps: Candidates
    group: Integers
    bytes: Integers
    wrap: NDArray[np.bool_]

    def spread(self, parts: Floats) -> Floats:
        """Parts of the gaps that were grouped, given those of ``gaps``: in each group all but one of them 0 or 1.

        Homes in the pool come from the other end, so that a storage that leaves a gap keeps its home where that is
        enough.
        """
        place = np.arange(len(self.group))
        in_turn = np.lexsort((np.where(self.wrap, -place, place), self.group))
        group, size = self.group[in_turn], self.bytes[in_turn].astype(np.float64)
        ahead = np.cumsum(size) - size
        ahead -= np.maximum.accumulate(np.where(np.diff(group, prepend=-1) > 0, ahead, 0.0))
        result = np.empty(len(group))
        result[in_turn] = np.clip((parts[group] * self.gaps.bytes[group] - ahead) / size, 0.0, 1.0)
        return result


def alike(c: Candidates, uses: Sequence[Uses], rows: Integers, chosen: Integers, binding: Integers) -> Alike:
    """Groups of the gaps in ``rows`` (ascending) at the ``chosen`` slots, of which those in ``binding`` need some of
    them away."""
    storage, index, written = c.storage[rows], c.index[rows], c.last_write[rows]
    last_use = np.array([len(uses[s].positions) - 1 for s in storage.tolist()], np.int64)
    first = np.flatnonzero(np.diff(storage, prepend=-1))
    count = np.diff(np.append(first, len(rows)))
    place = np.arange(len(rows)) - np.repeat(first, count)
    code = _numbered(
        np.select([index == WRAP, index == -1, index == last_use], [0, 1, 2], 3),
        np.searchsorted(binding, c.low[rows], "left"),
        np.searchsorted(binding, c.high[rows], "right"),
        np.searchsorted(chosen, c.need[rows], "left"),
        np.searchsorted(chosen, np.maximum(written + 1, 0), "right"),
        written < 0,
        # Gaps with the same value share a Store.
        (place > 0) & (written == np.roll(written, 1)),
        # A large storage needs less time per byte.
        np.round(_SIZES * np.log2(c.bytes[rows])),
    )
    kind = np.zeros(len(first), np.int64)
    for at in range(int(count.max(initial=0))):
        more = np.flatnonzero(count > at)
        kind[more] = _numbered(kind[more], code[first[more] + at]) + kind.max() + 1
    _, one, group = np.unique(
        np.repeat(kind, count) * (count.max(initial=0) + 1) + place, return_index=True, return_inverse=True
    )
    gaps = replace(
        Candidates(**{field.name: getattr(c, field.name)[rows[one]] for field in fields(c)}),
        bytes=np.bincount(group, c.bytes[rows]).astype(np.int64),
        in_ns=np.bincount(group, c.in_ns[rows]).astype(np.float64),
        out_ns=np.bincount(group, c.out_ns[rows]).astype(np.float64),
    )
    return Alike(gaps, group, c.bytes[rows], c.wrap[rows])


def _numbered(*columns: NDArray[np.generic]) -> Integers:
    """The same number for rows that agree in all columns, from 0 on."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, of_column = np.unique(column, return_inverse=True)
        _, number = np.unique(number * (of_column.max(initial=0) + 1) + of_column, return_inverse=True)
    return number
