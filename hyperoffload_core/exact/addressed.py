"""The exact search with addresses: every storage that takes room takes it at an offset.

Used where the shortest step by live bytes has no addresses within the limit. A state also holds the offsets of what is
on the device and of what must return to its offset before the step ends. An offset is 0 or the sum of sizes of other
blocks (each rounded up to the alignment that follows): in any assignment all blocks can be pushed down, in the order of
their offsets, until each lies on 0 or on another block. What is clean and in the way of a new block leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from hyperoffload_core.exact.instance import bits
from hyperoffload_core.exact.search import WORKSPACE, Places, Search, Start, State, Times
from hyperoffload_core.passes.addresses import alignment_bytes


def round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


class AddressedSearch(Search):
    """States are those of `Search` with two more elements: places on the device, and places to return to."""

    @cached_property
    def _candidates(self) -> dict[int, list[int]]:
        """By size of a block: the offsets worth trying."""
        x = self.instance
        sizes = [x.size_bytes[s] for s in bits(x.used | (x.persistent & ~x.movable))]
        sizes += [w for w in x.workspace_bytes if w]
        tops = {0}
        for size in sizes:
            alignment = alignment_bytes(size)
            tops |= {round_up(t, alignment) + size for t in tops if round_up(t, alignment) + size < x.limit_bytes}
        return {
            size: sorted({o for o in (round_up(t, alignment_bytes(size)) for t in tops) if o + size <= x.limit_bytes})
            for size in set(sizes)
        }

    @cached_property
    def _mirror_images(self) -> bool:
        """Whether every assignment of addresses upside down is one as well: then half of them are enough."""
        return all(
            {self.instance.limit_bytes - o - size for o in offsets} == set(offsets)
            for size, offsets in self._candidates.items()
        )

    def initial(self) -> list[tuple[State, Times]]:
        x = self.instance
        nowhere = (-1,) * (len(x.size_bytes) + 1)
        result: list[tuple[State, Times]] = []
        for state, times in super().initial():
            device, pool = state[2], state[6]
            returning = device & x.persistent & ~pool
            for places in self._arrangements(bits(device), nowhere):
                mirrored = tuple(
                    -1 if o < 0 else x.limit_bytes - o - x.size_bytes[s] for s, o in enumerate(places[:-1])
                )
                if self._mirror_images and mirrored < places[:-1]:
                    continue
                home = tuple(o if returning >> s & 1 else -1 for s, o in enumerate(places[:-1]))
                result.append(((*state[:7], places, home), times))
        return result

    def _arrangements(self, blocks: list[int], places: Places) -> Iterator[Places]:
        if not blocks:
            yield places
            return
        for offset, _ in self._spots(self.instance.size_bytes[blocks[0]], places, 0):
            yield from self._arrangements(blocks[1:], _with(places, blocks[0], offset))

    def _spots(self, size: int, places: Places, loose: int) -> Iterator[tuple[int, int]]:
        """(offset, storages that must leave for it) of a new block; only ``loose`` storages may leave."""
        sizes = self.instance.size_bytes
        held = [
            (o, o + (sizes[s] if s < len(sizes) else self._workspace), 1 << s) for s, o in enumerate(places) if o >= 0
        ]
        for offset in self._candidates[size]:
            top, leaving = offset + size, 0
            for low, high, bit in held:
                if low < top and offset < high:
                    leaving |= bit
            if not leaving & ~loose:
                yield offset, leaving

    _workspace = 0

    def _successors(self, state: State, times: Times) -> list[tuple[State, Times, Start, int]]:
        x = self.instance
        done, running, device, remote, storing, fetching, pool, places, home = state
        now, op_end, out_end, in_end = times
        started = done | (1 << running if running >= 0 else 0)
        sizes = x.size_bytes
        arrived = device & ~(1 << fetching if fetching >= 0 else 0)
        stored_bit = 1 << storing if storing >= 0 else 0
        ops = [-1]
        if running < 0:
            ops += [
                op
                for op in range(len(x.before))
                if not done >> op & 1
                and not x.before[op] & ~done
                and not x.reads[op] & ~arrived
                and not x.writes[op] & stored_bit
            ]
        half_busy = x.half_duplex and (storing >= 0 or fetching >= 0)
        result: list[tuple[State, Times, Start, int]] = []
        for op in ops:
            now_running = running if op < 0 else op
            self._workspace = x.workspace_bytes[now_running] if now_running >= 0 else 0
            pending = self._pending(started if op < 0 else started | 1 << op)
            busy = x.touched[now_running] if now_running >= 0 else 0
            being_written = x.writes[now_running] if now_running >= 0 else 0
            fresh = x.touched[op] & ~device if op >= 0 else 0
            remote_op = remote & ~x.writes[op] if op >= 0 else remote
            device_op = device | fresh
            stores, fetches = [-1], [-1]
            if storing < 0 and not half_busy:
                stores += bits(arrived & ~remote_op & ~being_written & pending.needed & x.movable)
            if fetching < 0 and not half_busy:
                fetches += bits(
                    remote_op & ~device_op & pending.needed & x.movable & ~(pending.idle & pool) & ~stored_bit
                )
            for store in stores:
                for fetch in fetches:
                    if x.half_duplex and store >= 0 and fetch >= 0:
                        continue
                    if now_running < 0 and storing < 0 and fetching < 0 and store < 0 and fetch < 0:
                        continue
                    kept = busy | stored_bit | (1 << store if store >= 0 else 0)
                    loose = arrived & x.movable & ~kept & (remote_op | ~pending.needed)
                    blocks = bits(fresh)
                    if op >= 0 and self._workspace:
                        blocks.append(WORKSPACE)
                    if fetch >= 0:
                        blocks.append(fetch)
                    returning = fetch if fetch >= 0 and pending.idle >> fetch & 1 and home[fetch] >= 0 else None
                    for places_then, evicted, placed in self._placements(blocks, places, loose, home, returning):
                        state_then = (
                            done,
                            now_running,
                            device_op & ~evicted | (1 << fetch if fetch >= 0 else 0),
                            remote_op,
                            store if store >= 0 else storing,
                            fetch if fetch >= 0 else fetching,
                            pool,
                            places_then,
                            home,
                        )
                        ends = (
                            now + x.durations_ns[op] if op >= 0 else op_end,
                            now + x.out_ns[store] if store >= 0 else out_end,
                            now + x.in_ns[fetch] if fetch >= 0 else in_end,
                        )
                        moved = (sizes[store] if store >= 0 else 0) + (sizes[fetch] if fetch >= 0 else 0)
                        start = Start(now, op, store, fetch, evicted, placed)
                        result.append((*self._advance(state_then, ends), start, moved))
        return result

    def _advance(self, state: State, ends: tuple[int, int, int]) -> tuple[State, Times]:
        """As without addresses; what is not on the device any more has no place."""
        then, times = super()._advance(state, ends)
        device, places = then[2], then[7]
        workspace = places[-1] if then[1] >= 0 else -1
        kept = (*(o if device >> s & 1 else -1 for s, o in enumerate(places[:-1])), workspace)
        return (*then[:7], kept, then[8]), times

    def _placements(
        self, blocks: list[int], places: Places, loose: int, home: Places, returning: int | None
    ) -> Iterator[tuple[Places, int, tuple[tuple[int, int], ...]]]:
        """(places, what left, what went where) for each way to give the blocks room one after the other."""
        if not blocks:
            yield places, 0, ()
            return
        block, rest = blocks[0], blocks[1:]
        size = self._workspace if block == WORKSPACE else self.instance.size_bytes[block]
        for offset, leaving in self._spots(size, places, loose):
            if block == returning and offset != home[block]:
                continue
            then = list(places)
            for s in bits(leaving):
                then[s] = -1
            then[block] = offset
            for places_then, evicted, placed in self._placements(rest, tuple(then), loose, home, returning):
                yield places_then, evicted | leaving, ((block, offset), *placed)

    @cached_property
    def _live(self) -> Search:
        return Search(self.instance, self.deadline, self.check)

    @cached_property
    def _to_go(self) -> dict[tuple[State, Times], int]:
        return {}

    def _bound(self, state: State, times: Times) -> tuple[int, int]:
        """The exact rest of the step by live bytes."""
        bound, moved = super()._bound(state, times)
        now, op_end, out_end, in_end = times
        key: tuple[State, Times] = ((*state[:7], (), ()), (0, op_end - now, out_end - now, in_end - now))
        rest = self._to_go.get(key)
        if rest is None:
            found = self._live.run(1 << 60, start=key)
            rest = self._to_go[key] = 1 << 60 if found is None else found.step_ns
        return max(bound, now + rest), moved

    def _finished(self, state: State) -> bool:
        places, home = state[7], state[8]
        return super()._finished(state) and all(h < 0 or places[s] == h for s, h in enumerate(home))

    def offsets(self, state: State) -> tuple[tuple[int, int], ...]:
        return tuple((s, o) for s, o in enumerate(state[7][:-1]) if o >= 0)


def _with(places: Places, block: int, offset: int) -> Places:
    return (*places[:block], offset, *places[block + 1 :])
