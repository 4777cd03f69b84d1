"""The edges that make a plan safe under any timing: what each op and each transfer waits for.

Two reasons for an edge: data (an op needs its Prefetch, a Prefetch a valid remote copy, a Store the last write) and
addresses (a stay begins only after every earlier stay that shares bytes with it has ended). The compute stream and each
link run in order, so of several edges from one of them only the latest counts; address edges that an earlier op of the
order already waits for are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from hyperoffload_core.passes.plan import Plan, Stay


@dataclass(frozen=True)
class Edges:
    """``op_waits[op id]`` holds transfers; ``after_ops[transfer]`` op ids; ``after_transfers[transfer]`` transfers."""

    op_waits: list[list[int]]
    after_ops: list[list[int]]
    after_transfers: list[list[int]]


@dataclass(frozen=True)
class Occupant:
    """Who takes bytes [offset, offset + bytes) from ``start_ns`` on: a stay, or an op's workspace as its own stay."""

    stay: Stay
    offset: int
    bytes: int
    start_ns: int


def bind_events(plan: Plan, occupants: Sequence[Occupant]) -> Edges:
    """Edges of a plan whose stays lie at the addresses of ``occupants`` (all stays and workspaces, in any order)."""
    count = len(plan.order)
    after_position = [t.after for t in plan.transfers]
    own_store = _validity(plan)
    after_transfers = [set(own_store.get(index, ())) for index in range(len(plan.transfers))]
    data_waits: list[list[int]] = [[] for _ in range(count + 1)]
    address_waits: list[set[int]] = [set() for _ in range(count + 1)]

    for stay in plan.stays:
        if stay.fetch is not None:
            data_waits[stay.begin].append(stay.fetch)
    for position, transfer in plan.waits:
        data_waits[position].append(transfer)
    for transfer, earlier in plan.follows:
        after_transfers[transfer].add(earlier)

    for occupant, before in _successions(occupants):
        stay = occupant.stay
        if stay.fetch is None:
            if before.store is not None:
                address_waits[stay.begin].add(before.store)
        else:
            after_position[stay.fetch] = max(after_position[stay.fetch], before.last)
            if before.store is not None:
                after_transfers[stay.fetch].add(before.store)

    rank = {t: (link, r) for link, transfers in enumerate(plan.links) for r, t in enumerate(transfers)}
    reached = [-1] * len(plan.links)
    op_waits: list[list[int]] = [[] for _ in range(count)]
    for position in range(count):
        waits = set(data_waits[position])
        for link, index in _latest(address_waits[position], rank).items():
            if rank[index][1] > max([reached[link], *(rank[w][1] for w in waits if rank[w][0] == link)]):
                waits.add(index)
        for index in waits:
            reached[rank[index][0]] = max(reached[rank[index][0]], rank[index][1])
        op_waits[plan.order[position]] = sorted(waits)
    edges_between: list[list[int]] = []
    for index, before_transfers in enumerate(after_transfers):
        link = rank[index][0]
        kept = {i for other, i in _latest(before_transfers, rank).items() if other != link}
        edges_between.append(sorted(kept | own_store.get(index, set())))
    return Edges(op_waits, [[plan.order[p]] if p >= 0 else [] for p in after_position], edges_between)


def _validity(plan: Plan) -> dict[int, set[int]]:
    """For each Prefetch the Store of its storage that it brings back, kept even where the link's order implies it."""
    result: dict[int, set[int]] = {}
    last_store: dict[int, int] = {}
    for stay in plan.stays:
        if stay.fetch is not None and stay.storage in last_store:
            result[stay.fetch] = {last_store[stay.storage]}
        if stay.store is not None:
            last_store[stay.storage] = stay.store
    return result


def _latest(transfers: set[int], rank: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Per link the transfer that runs last."""
    result: dict[int, int] = {}
    for index in transfers:
        link, position = rank[index]
        if link not in result or rank[result[link]][1] < position:
            result[link] = index
    return result


def _successions(occupants: Sequence[Occupant]) -> list[tuple[Occupant, Stay]]:
    """Pairs (occupant, stay that had some of its bytes last). Earlier owners of a byte come before those anyway."""
    pairs: list[tuple[Occupant, Stay]] = []
    starts: list[int] = []
    segments: list[tuple[int, int, Stay]] = []
    for occupant in sorted(occupants, key=lambda o: o.start_ns):
        low, high = occupant.offset, occupant.offset + occupant.bytes
        first = bisect_right(starts, low) - 1
        if first < 0 or segments[first][1] <= low:
            first += 1
        last = bisect_left(starts, high)
        replaced = segments[first:last]
        pairs += [(occupant, stay) for _, _, stay in replaced]
        fresh = [(low, high, occupant.stay)]
        if replaced and replaced[0][0] < low:
            fresh.insert(0, (replaced[0][0], low, replaced[0][2]))
        if replaced and replaced[-1][1] > high:
            fresh.append((high, replaced[-1][1], replaced[-1][2]))
        segments[first:last] = fresh
        starts[first:last] = [s[0] for s in fresh]
    return pairs
