"""Addresses chosen together with times: who shares bytes with whom so that little waits for it.

It starts from a packing of the times in which ops need their storages, which leaves transfers out and therefore fits
nearly always. Then what would hold something up moves to where it costs least, measured by the times of a placement
that counts bytes; then, with plays at these addresses, what keeps the way that decides the step waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.packing.problem import Block
from hyperoffload_core.passes.addressed_play import AddressedStep, Times
from hyperoffload_core.passes.addresses import assign_addresses
from hyperoffload_core.passes.critical import latest_starts_ns, waits_for_addresses
from hyperoffload_core.passes.play import Placement
from hyperoffload_core.passes.tenants import Integers, Layout, Tenants

Flags = NDArray[np.bool_]

_SWEEPS = 4
"""How often all that holds something up is looked at."""
_MOVES_LATER = 0.6
"""How often of two rows of which one waits for the other it is the later one that moves."""
_NEXT_BEST = 0.5
"""A block moves to the cheapest place, or with this probability to the next one, and so on."""
_IDLE_TURNS = 100
"""The search ends after so many turns in a row that made the step no shorter."""


def relocate(
    step: AddressedStep, placement: Placement, limit_bytes: int, rng: Random, goes_on: Callable[[Times], bool]
) -> tuple[Layout, Times] | None:
    """Addresses within the limit for a placement that counts bytes, and the times they lead to.

    None where no packing of what ops need was found within the limit. ``goes_on`` says whether to look for a shorter
    step than these times.
    """
    layout = packed_by_use(step.tenants, limit_bytes)
    if layout is None:
        return None
    spans = list(placement.spans_ns)
    spans += [(placement.op_start_ns[p], placement.op_end_ns[p]) for p in step.tenants.workspaces]
    start, end = np.array(spans, np.int64).reshape(-1, 2).T
    for _ in range(_SWEEPS):
        if not _sweep(layout, _Lateness(start, end), limit_bytes):
            break
    return layout, _shortened(step, layout, limit_bytes, rng, goes_on)


def packed_by_use(tenants: Tenants, limit_bytes: int) -> Layout | None:
    """Addresses at which blocks that ops need at once share no bytes; None where they do not fit."""
    spans = [(begin + 1, last + 2) for begin, last in zip(tenants.begin.tolist(), tenants.last.tolist(), strict=True)]
    blocks = [
        Block(size, tuple(sorted(spans[row] for row in rows)), alignment)
        for size, alignment, rows in zip(tenants.size.tolist(), tenants.alignment.tolist(), tenants.rows, strict=True)
    ]
    offsets, height = assign_addresses(blocks, limit_bytes)
    return Layout(tenants, np.array(offsets, np.int64)) if height <= limit_bytes else None


class _Lateness:
    """What rows that share bytes cost: a row that ends later than another one behind it is to start holds that up.

    ``start``: when each row is to start, or may start at the latest; ``end``: when it ends; ns.
    """

    def __init__(self, start: Integers, end: Integers) -> None:
        self.start, self.end = start, end

    def of(self, tenants: Tenants, row: int) -> tuple[Flags, Integers]:
        """Which rows come before a row, and what each other one that shares bytes with it costs."""
        before, behind = tenants.last < tenants.begin[row], tenants.begin > tenants.last[row]
        late = np.where(before, self.end - self.start[row], np.where(behind, self.end[row] - self.start, 0))
        return before, np.maximum(late, 0)


def _sweep(layout: Layout, lateness: _Lateness, limit_bytes: int) -> bool:
    """Move every block that costs something to where it costs least, the dearest first; whether any moved."""
    owner, start, end = layout.tenants.block.tolist(), lateness.start.tolist(), lateness.end.tolist()
    dear: dict[int, int] = {}
    for row, before in enumerate(layout.before):
        for other in before:
            if (late := end[other] - start[row]) > 0:
                for block in (owner[row], owner[other]):
                    dear[block] = dear.get(block, 0) + late
    moved = False
    for block in sorted(dear, key=lambda b: -dear[b]):
        offsets = _places(layout, lateness, block, limit_bytes)
        if offsets and offsets[0] != layout.offset[block]:
            layout.move(block, offsets[0])
            moved = True
    return moved


def _places(
    layout: Layout, lateness: _Lateness, block: int, limit_bytes: int, apart_from: Sequence[int] = ()
) -> list[int]:
    """Offsets for a block, the cheapest first, where no bytes are of a row that an op needs together with it, or of one
    in ``apart_from``."""
    tenants = layout.tenants
    size, alignment, rows = int(tenants.size[block]), int(tenants.alignment[block]), list(tenants.rows[block])
    needed, dear = np.zeros(len(layout.low), np.bool_), np.zeros(len(layout.low), np.bool_)
    costs = [lateness.of(tenants, row) for row in rows]
    for row, (before, late) in zip(rows, costs, strict=True):
        needed |= ~before & (tenants.begin <= tenants.last[row])
        dear |= late > 0
    needed[list(apart_from)] = True
    needed[rows] = dear[rows] = False
    dear &= ~needed
    low, high = layout.low[needed], layout.high[needed]
    order = low.argsort()
    bottoms = np.maximum.accumulate(np.concatenate(([0], high[order])))
    tops = np.concatenate((low[order], [limit_bytes]))
    first, final = -(-bottoms // alignment) * alignment, (tops - size) // alignment * alignment
    holes = first <= final
    if not holes.any():
        return []
    first, final = first[holes], final[holes]
    low, high = layout.low[dear], layout.high[dear]
    beside = (-(-high // alignment) * alignment, (low - size) // alignment * alignment)
    offsets = np.unique(np.concatenate((first, final, *beside)))
    hole = np.searchsorted(first, offsets, side="right") - 1
    offsets = offsets[(hole >= 0) & (offsets <= final[hole])]
    shared = (low[None, :] < offsets[:, None] + size) & (high[None, :] > offsets[:, None])
    total = np.zeros(len(offsets), np.int64)
    for before, late in costs:
        each = shared * late[dear]
        # a row waits for the last of those before it; of those behind it each waits
        total += each[:, before[dear]].max(axis=1, initial=0) + each[:, ~before[dear]].sum(axis=1)
    result: list[int] = offsets[total.argsort(kind="stable")].tolist()
    return result


def _shortened(
    step: AddressedStep, layout: Layout, limit_bytes: int, rng: Random, goes_on: Callable[[Times], bool]
) -> Times:
    """Change the layout for a shorter step: where one row waits for another on the way that decides the step, one of
    them moves. The times at the end."""
    owner, times, idle = step.tenants.block, step.play(layout), 0
    waits: list[tuple[int, int]] | None = None
    lateness = _Lateness(owner, owner)
    while idle < _IDLE_TURNS and goes_on(times):
        if waits is None:
            latest = np.array(latest_starts_ns(step, layout, times), np.int64)
            lateness = _Lateness(latest, np.array(times.row_end, np.int64))
            waits = waits_for_addresses(step, layout, times)
        if not waits:
            break
        idle += 1
        earlier, later = rng.choice(waits)
        row, other = (later, earlier) if rng.random() < _MOVES_LATER else (earlier, later)
        block = int(owner[row])
        offsets = _places(layout, lateness, block, limit_bytes, (other,))
        if not offsets:
            continue
        choice = 0
        while choice + 1 < len(offsets) and rng.random() < _NEXT_BEST:
            choice += 1
        old = int(layout.offset[block])
        layout.move(block, offsets[choice])
        tried = step.play(layout)
        if tried.step_ns > times.step_ns:
            layout.move(block, old)
            continue
        if tried.step_ns < times.step_ns:
            idle = 0
        times, waits = tried, None
    return times
