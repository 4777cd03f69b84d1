"""Cache-operator insertion: from the reuse gaps to leave, the stays of every storage and the transfers between them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.plan import PlannedTransfer, Stay
from hyperoffload_core.schedule import Home, TransferKind


@dataclass(frozen=True)
class Inserted:
    """Stays grouped by storage in order of time, their transfers (earliest legal ``after``), and the homes."""

    stays: tuple[Stay, ...]
    transfers: tuple[PlannedTransfer, ...]
    homes: tuple[Home, ...]


def stays_throughout(uses: Sequence[Uses]) -> list[Stay | None]:
    """The one stay of each storage that never leaves; None for one that nothing uses and that need not be there."""
    result: list[Stay | None] = []
    for use in uses:
        begin = -1 if use.exists_at_start or not use.positions else use.positions[0]
        last = use.positions[-1] if use.positions else -1
        there = bool(use.positions) or (use.exists_at_start and use.lives_to_end)
        result.append(Stay(use.storage, begin, last, use.lives_to_end) if there else None)
    return result


def insert_cache_operators(
    graph: Graph,
    uses: Sequence[Uses],
    left: Sequence[Collection[int]],
    pool_home: Collection[int],
    throughout: Sequence[Stay | None] | None = None,
) -> Inserted:
    """Stays and transfers when each storage is off the device during the gaps ``left[storage]`` (gap indices).

    A gap that ends a stay needs a Store unless the remote copy is still valid (no write since the last Store, or since
    the start for a storage whose home is the pool): then it is a Detach, which moves nothing. A Store may start right
    after the last write of its stay. A storage in ``pool_home`` starts and ends the step in the pool. ``throughout``:
    the `stays_throughout` of the uses, for who has them already.
    """
    throughout = stays_throughout(uses) if throughout is None else throughout
    stays: list[Stay] = []
    transfers: list[PlannedTransfer] = []

    def add(kind: TransferKind, storage: int, after: int) -> int:
        transfers.append(PlannedTransfer(kind, storage, after))
        return len(transfers) - 1

    for use in uses:
        storage, gaps = use.storage, left[use.storage]
        in_pool, stay = storage in pool_home, throughout[storage]
        if not gaps and not in_pool:
            if stay is not None:
                stays.append(stay)
            continue
        positions = use.positions
        if not positions:
            continue
        remote_valid = in_pool
        begin, fetch = (-1, None) if use.exists_at_start else (positions[0], None)
        last_write = -1
        if use.exists_at_start and (in_pool or -1 in gaps):
            if not in_pool:
                stays.append(Stay(storage, -1, -1, False, None, add("store", storage, -1)))
                remote_valid = True
            begin, fetch = positions[0], add("prefetch", storage, -1)
        final = len(positions) - 1
        for index, position in enumerate(positions):
            if use.writes[index]:
                remote_valid, last_write = False, position
            ends_here = index in gaps or (index == final and (in_pool or not use.lives_to_end))
            if not ends_here:
                continue
            needed_later = index < final or use.lives_to_end
            store = None
            if needed_later and not remote_valid:
                store = add("store", storage, last_write)
                remote_valid = True
            stays.append(Stay(storage, begin, position, False, fetch, store))
            begin = -2
            if index < final:
                begin, fetch = positions[index + 1], add("prefetch", storage, position)
            elif use.lives_to_end and not in_pool:
                stays.append(Stay(storage, len(graph.ops), -1, True, add("prefetch", storage, position)))
        if begin != -2:
            stays.append(Stay(storage, begin, positions[-1], use.lives_to_end, fetch, None))
    homes: tuple[Home, ...] = tuple("pool" if s.id in pool_home else "device" for s in graph.storages)
    return Inserted(tuple(stays), tuple(transfers), homes)
