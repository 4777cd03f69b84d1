"""Addresses for a placement that fits the limit by its bytes but whose holes run out: more leaves the device there.

The step is played with a real allocator. Where it gets stuck, the cheapest run of neighbouring storages that makes a
hole of the wanted size leaves the device around that op, everything is placed again, and so on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.passes.arena import NoHoleError, place_with_addresses
from hyperoffload_core.passes.insertion import insert_cache_operators
from hyperoffload_core.passes.placement import place
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import Placement, Problem
from hyperoffload_core.passes.selection import Choice, gap_sets
from hyperoffload_core.policy import Action


def place_making_room(
    problem: Problem,
    uses: Sequence[Uses],
    actions: Sequence[Action],
    choices: frozenset[Choice],
    placement: Placement,
    limit_bytes: int,
    spared_bytes: int,
    goes_on: Callable[[int, int, int], bool],
) -> Plan:
    """A plan with addresses within the limit that leaves the gaps in ``choices``, and more where holes run out.

    ``goes_on(turn, position, step_ns)`` says whether to try again with more gaps, where the step got stuck at the op at
    that position and takes so long at least.
    Raises `NoPlacementError` when it does not, or where nothing more can leave.
    """
    turn = 0
    while True:
        try:
            return place_with_addresses(problem, placement.inserted, placement.bounds, limit_bytes, spared_bytes)
        except NoHoleError as stuck:
            more = _room(problem, uses, actions, choices, placement, stuck)
            if not more or not goes_on(turn, stuck.position, placement.step_ns):
                raise
        turn += 1
        choices = choices | more
        inserted = insert_cache_operators(problem.graph, uses, *gap_sets(choices, uses, problem.idle))
        placement = place(problem, inserted, limit_bytes)


def _room(
    problem: Problem,
    uses: Sequence[Uses],
    actions: Sequence[Action],
    choices: frozenset[Choice],
    placement: Placement,
    stuck: NoHoleError,
) -> frozenset[Choice]:
    """The gaps of neighbours that leave a hole of the wanted size and have the fewest bytes to move; empty if none."""
    blocks: list[tuple[int, int, Choice | None]] = []
    for offset, index in stuck.held:
        storage = placement.inserted.stays[index].storage
        gap = _gap_around(uses[storage], stuck.position)
        free = gap is not None and actions[storage] != "keep" and (storage, gap) not in choices
        blocks.append((offset, problem.storage_bytes[storage], (storage, gap) if free and gap is not None else None))
    best: tuple[int, frozenset[Choice]] = (0, frozenset())
    first, moved = 0, 0
    for last, (low, size, choice) in enumerate(blocks):
        if choice is None:
            first, moved = last + 1, 0
            continue
        moved += size
        top = blocks[last + 1][0] if last + 1 < len(blocks) else low + size
        while first < last and top - _top_below(blocks, first + 1) >= stuck.wanted_bytes:
            moved -= blocks[first][1]
            first += 1
        if top - _top_below(blocks, first) >= stuck.wanted_bytes and (not best[1] or moved < best[0]):
            best = moved, frozenset(c for _, _, c in blocks[first : last + 1] if c is not None)
    return best[1]


def _top_below(blocks: Sequence[tuple[int, int, Choice | None]], index: int) -> int:
    return blocks[index - 1][0] + blocks[index - 1][1] if index else 0


def _gap_around(use: Uses, position: int) -> int | None:
    """The gap a position lies in, None where it is a use or nothing is to come back."""
    after = bisect_left(use.positions, position)
    if after < len(use.positions) and use.positions[after] == position:
        return None
    if after == len(use.positions) and not use.lives_to_end:
        return None
    return after - 1 if after or use.lives_to_end else None
