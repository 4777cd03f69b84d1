"""The edges that make a plan safe under any timing: what each op and each transfer waits for.

Two reasons for an edge: data (an op needs its Prefetch, a Prefetch a valid remote copy, a Store the last write) and
addresses (a stay begins only after every earlier stay that shares bytes with it has ended). The compute stream and each
link run in order, so of several edges from one of them only the latest counts; address edges that an earlier op of the
order already waits for are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from hyperoffload_core.passes.plan import Plan, Stay


@dataclass(frozen=True)
class Edges:
    """``op_waits[op id]`` holds transfers; ``after_ops[transfer]`` op ids; ``after_transfers[transfer]`` transfers.

    ``needs[transfer]`` are all transfers it may not overtake, those that run before it on its own link included.
    """

    op_waits: list[list[int]]
    after_ops: list[list[int]]
    after_transfers: list[list[int]]
    needs: dict[int, set[int]]


@dataclass(frozen=True)
class Occupant:
    """Who takes bytes [offset, offset + bytes) from ``start_ns`` on: a stay, or an op's workspace as its own stay."""

    stay: Stay
    offset: int
    bytes: int
    start_ns: int


def bind_events(plan: Plan, occupants: Sequence[Occupant]) -> Edges:
    """Edges of a plan whose stays lie at the addresses of ``occupants`` (all stays and workspaces, in any order)."""
    after_position = [t.after for t in plan.transfers]
    last_part = plan.last_parts()
    own_store = {fetch: last_part[store] for fetch, store in _validity(plan).items()}
    after_transfers: defaultdict[int, set[int]] = defaultdict(set)
    for fetch, store in own_store.items():
        after_transfers[fetch].add(store)
    for transfer, earlier in plan.follows:
        after_transfers[transfer].add(last_part[earlier])
    # most ops wait for nothing, so both are kept by position
    data_waits: defaultdict[int, set[int]] = defaultdict(set)
    address_waits: defaultdict[int, set[int]] = defaultdict(set)
    for stay in plan.stays:
        if stay.fetch is not None:
            data_waits[stay.begin].add(last_part[stay.fetch])
    for position, transfer in plan.waits:
        data_waits[position].add(last_part[transfer])

    for stay, before in _successions(occupants):
        if stay.fetch is None:
            if before.store is not None:
                address_waits[stay.begin].add(last_part[before.store])
        else:
            after_position[stay.fetch] = max(after_position[stay.fetch], before.last)
            if before.store is not None:
                after_transfers[stay.fetch].add(last_part[before.store])

    link_of, rank = [-1] * len(plan.transfers), [-1] * len(plan.transfers)
    for link, transfers in enumerate(plan.links):
        for place, index in enumerate(transfers):
            link_of[index], rank[index] = link, place
    op_waits: list[list[int]] = [[] for _ in plan.order]
    reached = [-1] * len(plan.links)
    for position in sorted(data_waits.keys() | address_waits.keys()):
        if not 0 <= position < len(plan.order):
            continue
        waits = data_waits.get(position, set())
        for link, index in _latest(address_waits.get(position, ()), link_of, rank).items():
            if rank[index] > max([reached[link], *(rank[w] for w in waits if link_of[w] == link)]):
                waits = waits | {index}
        for index in waits:
            reached[link_of[index]] = max(reached[link_of[index]], rank[index])
        op_waits[plan.order[position]] = sorted(waits)
    edges_between: list[list[int]] = [[] for _ in plan.transfers]
    for index, before_transfers in after_transfers.items():
        latest = _latest(before_transfers, link_of, rank)
        kept = {i for link, i in latest.items() if link != link_of[index] or rank[i] > rank[index]}
        edges_between[index] = sorted(kept | {own_store[index]} if index in own_store else kept)
    after_ops = [[plan.order[p]] if p >= 0 else [] for p in after_position]
    return Edges(op_waits, after_ops, edges_between, after_transfers)


def _validity(plan: Plan) -> dict[int, int]:
    """For each Prefetch the Store of its storage that it brings back, kept even where the link's order implies it."""
    result: dict[int, int] = {}
    last_store: dict[int, int] = {}
    for stay in plan.stays:
        if stay.fetch is not None and stay.storage in last_store:
            result[stay.fetch] = last_store[stay.storage]
        if stay.store is not None:
            last_store[stay.storage] = stay.store
    return result


def _latest(transfers: Collection[int], link_of: Sequence[int], rank: Sequence[int]) -> dict[int, int]:
    """Per link the transfer that runs last."""
    result: dict[int, int] = {}
    for index in transfers:
        link = link_of[index]
        if link not in result or rank[result[link]] < rank[index]:
            result[link] = index
    return result


def _successions(occupants: Sequence[Occupant]) -> Iterator[tuple[Stay, Stay]]:
    """Pairs (stay, stay that had some of its bytes last). Earlier owners of a byte come before those anyway."""
    starts: list[int] = []  # disjoint byte ranges in address order: starts[i], ends[i], owners[i]
    ends: list[int] = []
    owners: list[Stay] = []
    for occupant in sorted(occupants, key=attrgetter("start_ns", "stay.begin")):
        stay, low, high = occupant.stay, occupant.offset, occupant.offset + occupant.bytes
        first, last = bisect_right(ends, low), bisect_left(starts, high)
        replaced = owners[first:last]
        for earlier in replaced:
            yield stay, earlier
        if len(replaced) == 1 and starts[first] == low and ends[first] == high:
            owners[first] = stay
            continue
        kept = [(low, high, stay)]
        if replaced and starts[first] < low:
            kept.insert(0, (starts[first], low, replaced[0]))
        if replaced and ends[last - 1] > high:
            kept.append((high, ends[last - 1], replaced[-1]))
        starts[first:last] = [k[0] for k in kept]
        ends[first:last] = [k[1] for k in kept]
        owners[first:last] = [k[2] for k in kept]
