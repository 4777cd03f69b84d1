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
from hyperoffload_core.exact.search import Choice, OutOfTime, Search
from hyperoffload_core.exact.states import WORKSPACE, Places, Start, State, Times
from hyperoffload_core.passes.addresses import alignment_bytes


def round_up(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


class AddressedSearch(Search):
    """States also hold places on the device, and places to return to."""

    _workspace_bytes = 0

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
            (o, o + (sizes[s] if s < len(sizes) else self._workspace_bytes), 1 << s)
            for s, o in enumerate(places)
            if o >= 0
        ]
        for offset in self._candidates[size]:
            top, leaving = offset + size, 0
            for low, high, bit in held:
                if low < top and offset < high:
                    leaving |= bit
            if not leaving & ~loose:
                yield offset, leaving

    def successors(self, state: State, times: Times) -> Iterator[tuple[State, Times, Start]]:
        """As without addresses; to make room for a block means to choose its place and what leaves for it."""
        x = self.instance
        places, home = state[7], state[8]
        for choice in self.choices(state):
            self._workspace_bytes = x.workspace_bytes[choice.running] if choice.running >= 0 else 0
            blocks = bits(choice.fresh)
            if choice.op >= 0 and self._workspace_bytes:
                blocks.append(WORKSPACE)
            if choice.fetch >= 0:
                blocks.append(choice.fetch)
            fixed = {}
            if choice.fetch >= 0 and home[choice.fetch] >= 0 and self._is_last_stay(state, choice):
                fixed[choice.fetch] = home[choice.fetch]
            loose = choice.worthless | choice.clean
            for places_then, evicted, placed in self._placements(blocks, places, loose, fixed):
                start = Start(times[0], choice.op, choice.store, choice.fetch, evicted, placed)
                then, times_then = self.proceed((*state[:7], places_then, home), times, choice, start)
                device = then[2]
                kept = (o if device >> s & 1 else -1 for s, o in enumerate(places_then[:-1]))
                workspace = places_then[-1] if then[1] >= 0 else -1
                yield (*then[:7], (*kept, workspace), home), times_then, start

    def _is_last_stay(self, state: State, choice: Choice) -> bool:
        """Whether no op touches the fetched storage any more: it then stays where it comes in."""
        started = state[0] | (1 << choice.running if choice.running >= 0 else 0)
        return bool(self.outlook.pending(started).idle >> choice.fetch & 1)

    def _placements(
        self, blocks: list[int], places: Places, loose: int, fixed: dict[int, int]
    ) -> Iterator[tuple[Places, int, tuple[tuple[int, int], ...]]]:
        """(places, what left, what went where) for each way to give the blocks room one after the other."""
        if not blocks:
            yield places, 0, ()
            return
        block, rest = blocks[0], blocks[1:]
        size = self._workspace_bytes if block == WORKSPACE else self.instance.size_bytes[block]
        for offset, leaving in self._spots(size, places, loose):
            if fixed.get(block, offset) != offset:
                continue
            then = list(places)
            for s in bits(leaving):
                then[s] = -1
            then[block] = offset
            for places_then, evicted, placed in self._placements(rest, tuple(then), loose, fixed):
                yield places_then, evicted | leaving, ((block, offset), *placed)

    @cached_property
    def _live(self) -> Search:
        return Search(self.instance, self.deadline, self.check)

    @cached_property
    def _to_go(self) -> dict[tuple[State, Times], int]:
        return {}

    def bound(self, state: State, times: Times) -> tuple[int, int]:
        """The exact rest of the step by live bytes."""
        bound, moved = super().bound(state, times)
        now, op_end, out_end, in_end = times
        key: tuple[State, Times] = ((*state[:7], (), ()), (0, op_end - now, out_end - now, in_end - now))
        rest = self._to_go.get(key)
        if rest is None:
            try:
                found = self._live.run(1 << 60, start=key)
            except OutOfTime:
                return bound, moved  # the search itself is about to stop, with a bound on the whole step
            rest = self._to_go[key] = 1 << 60 if found is None else found.step_ns
        return max(bound, now + rest), moved

    def finished(self, state: State) -> bool:
        places, home = state[7], state[8]
        return super().finished(state) and all(h < 0 or places[s] == h for s, h in enumerate(home))

    def offsets(self, state: State) -> tuple[tuple[int, int], ...]:
        return tuple((s, o) for s, o in enumerate(state[7][:-1]) if o >= 0)


def _with(places: Places, block: int, offset: int) -> Places:
    return (*places[:block], offset, *places[block + 1 :])
