"""The steady state of paging: a step that ends as it began, so that the next one can follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.passes.addresses import alignment_bytes
from hyperoffload_core.passes.plan import Plan
from hyperoffload_core.passes.play import NoPlacementError
from hyperoffload_core.strategies.kept_places import kept_places
from hyperoffload_core.strategies.paging import Paging, PagingSetup

_STEPS_TO_SETTLE = 4

P = TypeVar("P", bound=Paging)


def paged_plan(setup: PagingSetup) -> Plan:
    """Plan of the settled step. Raises `NoPlacementError`."""
    return settled_step(setup, Paging).finish()


def settled_step(setup: PagingSetup, step: Callable[[PagingSetup, dict[int, int]], P]) -> P:
    """The steady state, played but not finished: what the step starts with on the device is what the step before left
    there, at the same addresses. Where that does not settle, storages start the step in the pool and are put back there
    at its end. ``step`` makes one from the addresses of what is on the device at its start. Raises `NoPlacementError`.
    """
    try:
        return _settled_step(setup, step)
    except NoPlacementError:
        if all(setup.graph.exists_at_start(s) for s in setup.kept):
            raise
        places = kept_places(setup.graph, setup.order, setup.kept, setup.limit_bytes)
        if places is None:
            raise
    return _settled_step(replace(setup, places=places), step)


def _settled_step(setup: PagingSetup, step: Callable[[PagingSetup, dict[int, int]], P]) -> P:
    pinned = _pinned_addresses(setup)
    handed_in = {s: offset for s, offset in pinned.items() if not setup.graph.storages[s].persistent}
    start = pinned
    for _ in range(_STEPS_TO_SETTLE):
        try:
            paging = step(setup, start)
        except NoPlacementError:  # what rests lies where inputs are put
            break
        paging.play()
        resting = paging.resting() | handed_in
        if resting == start:
            return paging
        start = resting
    paging = step(setup, pinned)
    paging.play()
    paging.write_back()
    return paging


def _pinned_addresses(setup: PagingSetup) -> dict[int, int]:
    """Kept storages that are there at the start: where ``places`` has them, else packed from address 0: those that stay
    to the end by falling alignment, then inputs, so that those last used first leave the highest addresses."""
    graph, pinned, low = setup.graph, dict[int, int](), 0
    if setup.places is not None:
        return {s: offset for s, offset in setup.places.kept.items() if graph.exists_at_start(s)}
    uses = uses_in_order(graph, setup.order)
    held = [s for s in setup.kept if graph.exists_at_start(s) and (graph.lives_to_end(s) or uses[s].positions)]
    leaves_at = {s: -1 if graph.lives_to_end(s) else len(setup.order) - uses[s].positions[-1] for s in held}
    for storage in sorted(held, key=lambda s: (leaves_at[s], -alignment_bytes(graph.storages[s].bytes), s)):
        alignment = alignment_bytes(graph.storages[storage].bytes)
        pinned[storage] = -(-low // alignment) * alignment
        low = pinned[storage] + graph.storages[storage].bytes
    return pinned
