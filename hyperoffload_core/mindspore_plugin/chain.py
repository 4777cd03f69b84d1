"""A schedule as one chain of ops and cache operators: what a graph's own edges can say, where a schedule has times.

Everything in the chain starts after what stands before it, so the graph alone guarantees the schedule under any timing.
A Prefetch or Store starts a copy and the chain goes on; its *done* stands where the schedule first needs it to have
ended. Parts of a split transfer start together, where the first of them does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from hyperoffload_core.schedule import Schedule, Transfer

Kind = Literal["store", "prefetch", "detach"]


@dataclass(frozen=True, slots=True)
class Move:
    """A cache operator on a whole storage; its copy starts when the moves ``after`` have ended (indices)."""

    index: int
    kind: Kind
    storage: int
    after: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunOp:
    op: int


@dataclass(frozen=True, slots=True)
class Start:
    move: Move


@dataclass(frozen=True, slots=True)
class Done:
    move: Move


@dataclass(frozen=True, slots=True)
class Release:
    """The storage is dead, and so are its pages."""

    storage: int


Item = RunOp | Start | Done | Release


@dataclass(frozen=True)
class Chain:
    """Items in order. The step's end waits for every move; a move without a `Done` is waited for only there."""

    items: tuple[Item, ...]
    moves: tuple[Move, ...]


@dataclass(slots=True)
class _Placed:
    """A move and the slots of its start and its done; slot s lies before the op at position s."""

    move: Move
    time_ns: int
    start: int
    done: int | None


def build_chain(schedule: Schedule, movable: Collection[int], keeps_tensor: Mapping[int, int]) -> Chain:
    """The chain of a verified schedule, moving only the storages in ``movable``; the others stay on the device.

    ``keeps_tensor[storage]`` is, for storages that are tensors of the graph (not parameters), the position up to which
    something reads their memory (what only shows them differently reads them too).
    """
    return _Builder(schedule, movable, keeps_tensor).chain()


@dataclass(slots=True)
class _Stay:
    """Whether it exists, what began it, the Stores in it, positions of its accesses, whether a Prefetch follows."""

    exists: bool
    prefetch: _Placed | None
    stores: list[_Placed]
    uses: list[int]
    ends: bool


class _Builder:
    def __init__(self, schedule: Schedule, movable: Collection[int], keeps_tensor: Mapping[int, int]) -> None:
        self.schedule = schedule
        self.position = {op: n for n, op in enumerate(schedule.order)}
        times = {t.op: t for t in schedule.op_times}
        self.starts_ns = [times[op].start_ns for op in schedule.order]
        self.end = len(schedule.order)
        self.tensors = keeps_tensor
        self.moves = [m for m in schedule.moves if m[0].storage in movable]
        self.of_transfer = {t.id: n for n, parts in enumerate(self.moves) for t in parts}
        self.first_waiter: dict[int, int] = {}
        for position, op in enumerate(schedule.order):
            for transfer in times[op].waits:
                if transfer in self.of_transfer:
                    self.first_waiter.setdefault(self.of_transfer[transfer], position)
        self.accesses: dict[int, list[int]] = defaultdict(list)
        for position, op in enumerate(schedule.order):
            for storage in {*schedule.graph.ops[op].reads, *schedule.graph.ops[op].writes}:
                self.accesses[storage].append(position)

    def chain(self) -> Chain:
        placed: list[_Placed] = []
        link_slot: dict[str, int] = {}
        for number, parts in enumerate(self.moves):
            placed.append(self._placed(number, parts, placed, link_slot))
        self._place_store_dones(placed)
        placed += self._detaches(placed)
        return Chain(self._items(placed), tuple(p.move for p in placed))

    def _placed(
        self, number: int, parts: tuple[Transfer, ...], before: list[_Placed], link_slot: dict[str, int]
    ) -> _Placed:
        first = parts[0]
        after = sorted({self.of_transfer[a] for t in parts for a in t.after_transfers if a in self.of_transfer})
        after = [a for a in after if a != number]
        slot = max((self.position[op] + 1 for t in parts for op in t.after_ops), default=0)
        link = first.kind if self.schedule.hardware.duplex == "full" else "both"
        slot = max([slot, link_slot.get(link, 0), *(before[a].start for a in after)])
        if first.kind == "prefetch" and first.storage in self.tensors:
            # Its memory is allocated when it starts, so it must not start long before it can.
            slot = max(slot, bisect_left(self.starts_ns, first.start_ns))
        done = self.first_waiter.get(number)
        if first.kind == "prefetch":
            # The first op that reads it may wait only for a later transfer of the link, which says as much.
            uses = self.accesses[first.storage]
            first_use = bisect_left(uses, slot)
            if first_use < len(uses):
                done = uses[first_use] if done is None else min(done, uses[first_use])
            elif done is None and first.storage in self.tensors:
                done = self.end  # a result of the step: its memory is MindSpore's again if nothing takes it
        if done is not None:
            slot = min(slot, done)
        link_slot[link] = slot
        return _Placed(Move(number, first.kind, first.storage, tuple(after)), first.start_ns, slot, done)

    def _place_store_dones(self, placed: list[_Placed]) -> None:
        """A Store is waited for where its bytes are needed, and a tensor's soon after it should have ended."""
        waiting: dict[int, list[int]] = defaultdict(list)
        for p in placed:
            for number in p.move.after if p.move.storage in self.tensors else ():
                waiting[number].append(p.start)
        for storage, own in _by_storage(placed).items():
            for stay in self._stays(storage, own):
                for store in stay.stores:
                    number = store.move.index
                    needed = [*waiting[number], *(() if store.done is None else (store.done,))]
                    last = 0
                    if storage in self.tensors:
                        end_ns = max(t.end_ns for t in self.moves[number])
                        needed.append(min(bisect_left(self.starts_ns, end_ns) + 1, self.end))
                        last = 1 + (max(stay.uses, default=-1) if stay.ends else self.tensors[storage])
                    if needed:
                        store.done = max(min(needed), store.start, last)

    def _detaches(self, placed: list[_Placed]) -> list[_Placed]:
        """A parameter leaves the device where its stay ends, behind the Store that ends it if one does."""
        result: list[_Placed] = []
        for storage, moves in sorted(_by_storage(placed).items()):
            if storage in self.tensors:
                continue
            stays = self._stays(storage, moves)
            for stay, following in zip(stays, [*stays[1:], None], strict=True):
                if not stay.exists or (following is None and self.schedule.homes[storage] == "device"):
                    continue
                own = [stay.prefetch] if stay.prefetch is not None else []
                own += stay.stores
                slot = max([max(stay.uses, default=-1) + 1, *(p.start for p in own)])
                after = tuple(p.move.index for p in own)
                detach = Move(len(placed) + len(result), "detach", storage, after)
                result.append(_Placed(detach, max((p.time_ns + 1 for p in own), default=0), slot, None))
                if following is not None and following.prefetch is not None:
                    prefetch = following.prefetch
                    prefetch.move = replace(prefetch.move, after=tuple(sorted({*prefetch.move.after, detach.index})))
                    prefetch.start = max(prefetch.start, slot)
        return result

    def _stays(self, storage: int, moves: list[_Placed]) -> list[_Stay]:
        """Stays on the device of a storage that is moved so: one before its first Prefetch, if it exists then, and one
        from each."""
        exists = storage in self.tensors or self.schedule.homes[storage] == "device"
        stays = [_Stay(exists, None, [], [], False)]
        for p in sorted(moves, key=lambda p: p.time_ns):
            if p.move.kind == "prefetch":
                stays[-1].ends = True
                stays.append(_Stay(True, p, [], [], False))
            else:
                stays[-1].stores.append(p)
        until = [s.prefetch.done if s.prefetch.done is not None else self.end for s in stays[1:] if s.prefetch]
        for position in self.accesses[storage]:
            stays[bisect_right(until, position)].uses.append(position)
        return stays

    def _items(self, placed: list[_Placed]) -> tuple[Item, ...]:
        # In a slot: what frees memory is waited for, then copies start, then what the op needs is waited for.
        at: dict[int, list[tuple[int, int, int, Item]]] = defaultdict(list)
        for p in placed:
            at[p.start].append((1, p.time_ns, p.move.index, Start(p.move)))
            if p.done is not None:
                early = p.move.kind == "store" and p.done > p.start
                at[p.done].append((0 if early else 2, p.time_ns, p.move.index, Done(p.move)))
        items: list[Item] = []
        for slot in range(self.end + 1):
            items += [item for *_, item in sorted(at.get(slot, ()), key=lambda row: row[:3])]
            if slot < self.end:
                items.append(RunOp(self.schedule.order[slot]))
        return tuple(items)


def _by_storage(placed: list[_Placed]) -> dict[int, list[_Placed]]:
    found: dict[int, list[_Placed]] = defaultdict(list)
    for p in placed:
        found[p.move.storage].append(p)
    return found
