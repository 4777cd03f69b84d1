"""Blocks that were on the device at one time: what the search with addresses knows of them instead of offsets.

Whether addresses fit depends only on the sizes of the blocks and on which of them were there together. So a state of
the search needs no offsets, only these pairs, and one assignment as the proof that there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hyperoffload_core.exact.instance import Instance, bits
from hyperoffload_core.exact.labels import Signature
from hyperoffload_core.exact.pack import TooManyTries, pack_beside
from hyperoffload_core.exact.spots import always_fits, lowest_spot, may_lie_as_another, repeatedly
from hyperoffload_core.exact.states import Start, State

_MOST_TRIES = 5_000
"""Addresses of blocks that take more tries are given up: `Neighbours.gave_up`."""


class History(NamedTuple):
    """Blocks in the order in which they came; masks have bit b for block b.

    ``beside[b]``: blocks that were there together with b; ``together[b]``: those that were there when b came. ``block``
    and ``home`` are by storage: its block now, and that in which it has to end the step (-1: none). ``since`` is by
    storage: blocks that came since a copy that is valid remotely was last used. Should it be used again it was there
    beside them, should it leave it was not. ``staying`` storages do not leave any more.
    """

    names: tuple[int, ...]
    sizes: tuple[int, ...]
    beside: tuple[int, ...]
    together: tuple[int, ...]
    offsets: tuple[int, ...]
    block: tuple[int, ...]
    home: tuple[int, ...]
    since: tuple[int, ...]
    stays: tuple[int, ...]
    workspace: int
    staying: int

    @property
    def left_alone(self) -> int:
        """Storages beside which something came since they were last used."""
        return sum(1 << s for s, blocks in enumerate(self.since) if blocks)


@dataclass
class Neighbours:
    """Histories of one instance. ``gave_up``: some assignment was neither found nor refuted, and taken for refuted."""

    instance: Instance
    gave_up: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._names: dict[tuple[int, int], int] = {}
        self._pairs: dict[tuple[int, int], int] = {}
        self._found: dict[tuple[tuple[int, ...], int], list[int] | None] = {}
        self._answers: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int] | None] = {}
        self._signatures: dict[tuple[object, ...], Signature] = {}
        self._refuted: list[int] = []

    def at_start(self, device: int, pool: int) -> History | None:
        """None where there are no addresses."""
        x = self.instance
        nowhere = [-1] * len(x.size_bytes)
        draft = _Draft(self, History((), (), (), (), (), tuple(nowhere), tuple(nowhere), (0,) * len(nowhere),
                                     (0,) * len(nowhere), -1, 0))  # fmt: skip
        draft.come(bits(device), 0, -1)
        for s in bits(device & x.persistent & ~pool):
            draft.home[s] = draft.block[s]
        return draft.settled()

    def after(
        self, history: History, state: State, running: int, start: Start, then: State, idle: int
    ) -> Iterator[History]:
        """What follows when ``start`` begins in ``state`` and time passes to ``then``; nothing where no addresses are.

        ``running`` is the op that runs then, ``idle`` are storages that no op touches once it has started.
        """
        x = self.instance
        _, _, device, remote, storing, fetching, pool = state
        draft = _Draft(self, history)
        fetch = 1 << start.prefetch if start.prefetch >= 0 else 0
        for s in bits((start.evicted | fetch) & device):
            draft.leave(s)
        device &= ~(start.evicted | fetch)
        touched = x.touched[running] if running >= 0 else 0
        for s in bits(touched & device):
            draft.use(s)
        used = touched | (1 << storing if storing >= 0 else 0) | (1 << fetching if fetching >= 0 else 0)
        used |= 1 << start.store if start.store >= 0 else 0
        at_home = x.lasting & x.persistent & ~pool & idle
        fresh = touched & ~device
        firm = used | ~remote
        draft.come(bits((fresh | fetch) & ~(fetch & at_home)), firm, start.op)
        if fetch & at_home:
            draft.return_home(start.prefetch, firm)
        endings = x.touched[start.op] & at_home if start.op >= 0 else 0
        apart = [s for s in bits(endings) if draft.block[s] != draft.home[s]]
        if then[1] < 0:
            draft.workspace = -1
        for choice in range(1 << len(apart)):
            one = draft.copy() if apart else draft
            for k, s in enumerate(apart):
                if choice >> k & 1:
                    one.stay(s)
            for s, block in enumerate(one.block):
                if block >= 0 and not then[2] >> s & 1:
                    one.leave(s)
            if (result := one.settled()) is not None:
                yield result

    def at_end(self, history: History, pool: int) -> History | None:
        """The history when the step ends; None where something lies elsewhere than it began, or has no address."""
        x = self.instance
        draft = _Draft(self, history)
        for s in bits(x.lasting & ~pool):
            if draft.block[s] >= 0:
                if x.persistent >> s & 1 and draft.block[s] != draft.home[s]:
                    return None
                draft.use(s)
        return draft.settled()

    def signature(self, history: History) -> Signature:
        key = (history.names, history.beside, history.since, history.block, history.staying)
        if key not in self._signatures:
            self._signatures[key] = self._work_out_signature(history)
        return self._signatures[key]

    def _work_out_signature(self, history: History) -> Signature:
        firm = everything = 0
        names = history.names
        for a, mask in enumerate(history.beside):
            for b in bits(mask >> a + 1):
                firm |= self._pair(names[a], names[a + 1 + b])
        everything = firm
        for s, mask in enumerate(history.since):
            if mask:
                a = history.block[s]
                for b in bits(mask):
                    everything |= self._pair(names[a], names[b])
        for s in bits(history.staying):
            firm |= self._pair(-1, s)
        return Signature(firm, everything | firm)

    def name(self, storage: int, stay: int) -> int:
        return self._names.setdefault((storage, stay), len(self._names))

    def _pair(self, a: int, b: int) -> int:
        pair = (a, b) if a < b else (b, a)
        return 1 << self._pairs.setdefault(pair, len(self._pairs))

    def offsets(
        self, names: Sequence[int], sizes: Sequence[int], beside: Sequence[int], together: Sequence[int]
    ) -> list[int] | None:
        """An assignment, None if there is none. Blocks that find room wherever the others lie come last, also those
        that can lie where another of their size does; the rest is packed exactly, unless it holds pairs of which no
        assignment exists."""
        key = (tuple(names), tuple(beside))
        if key not in self._answers:
            self._answers[key] = self._work_out_offsets(names, sizes, beside, together)
        return self._answers[key]

    def _work_out_offsets(
        self, names: Sequence[int], sizes: Sequence[int], beside: Sequence[int], together: Sequence[int]
    ) -> list[int] | None:
        limit = self.instance.limit_bytes
        hard, easy = [b for b in range(len(sizes)) if beside[b]], [b for b in range(len(sizes)) if not beside[b]]
        remaining = sum(1 << b for b in hard)
        for b in repeatedly(hard):
            if always_fits(sizes, b, beside[b] & remaining, limit) or may_lie_as_another(sizes, beside, b, remaining):
                hard.remove(b)
                easy.append(b)
                remaining &= ~(1 << b)
        pairs = 0
        for b in hard:
            for other in bits(beside[b] & remaining & ((1 << b) - 1)):
                pairs |= self._pair(names[b], names[other])
        if any(not known & ~pairs for known in self._refuted):
            return None
        key = (tuple(names[b] for b in hard), pairs)
        if key not in self._found:
            index = {b: i for i, b in enumerate(hard)}

            def mapped(mask: int) -> int:
                return sum(1 << index[b] for b in bits(mask & remaining))

            columns = {mapped(mask) for mask in together} - {0}
            try:
                self._found[key] = pack_beside(
                    [sizes[b] for b in hard], [mapped(beside[b]) for b in hard], columns, limit, _MOST_TRIES
                )
            except TooManyTries:
                self.gave_up = True
                self._found[key] = None
            if self._found[key] is None:
                self._refuted.append(pairs)
        if (found := self._found[key]) is None:
            return None
        offsets, placed = [0] * len(sizes), remaining
        for b, offset in zip(hard, found, strict=True):
            offsets[b] = offset
        for b in reversed(easy):
            offsets[b] = lowest_spot(sizes, offsets, b, beside[b] & placed)
            placed |= 1 << b
        return offsets


class _Draft:
    """A history that is being changed."""

    def __init__(self, owner: Neighbours, history: History) -> None:
        self.owner = owner
        self.names, self.sizes = list(history.names), list(history.sizes)
        self.beside, self.together, self.offsets = (
            list(history.beside),
            list(history.together),
            list(history.offsets),
        )
        self.block, self.home, self.since = list(history.block), list(history.home), list(history.since)
        self.stays, self.workspace, self.staying = list(history.stays), history.workspace, history.staying
        self.changed: list[int] = []

    def copy(self) -> _Draft:
        result = _Draft(self.owner, self._value())
        result.changed = list(self.changed)
        return result

    def leave(self, storage: int) -> None:
        self.block[storage], self.since[storage] = -1, 0

    def use(self, storage: int) -> None:
        """The storage is used: it was there all the time since it was used before."""
        if self.since[storage]:
            self._join(self.block[storage], self.since[storage])
            for b in bits(self.since[storage]):
                self.together[b] |= 1 << self.block[storage]
            self.since[storage] = 0

    def come(self, storages: Sequence[int], firm: int, op: int) -> None:
        """Storages take room, and the workspace of ``op``; of what is there, all that is not ``firm`` could leave."""
        x = self.owner.instance
        workspace_bytes = x.workspace_bytes[op] if op >= 0 else 0
        there = [(s, b) for s, b in enumerate(self.block) if b >= 0]
        new = []
        for s in storages:
            self.block[s] = self._add(self.owner.name(s, self.stays[s]), x.size_bytes[s])
            self.stays[s] += 1
            new.append(self.block[s])
        if workspace_bytes:
            self.workspace = self._add(self.owner.name(-1, op), workspace_bytes)
            new.append(self.workspace)
        if not new:
            return
        mask = sum(1 << b for b in new)
        beside = sum(1 << b for s, b in there if (firm | self.staying) >> s & 1)
        if self.workspace >= 0:
            beside |= 1 << self.workspace
        for b in new:
            self.together[b] = mask | beside
            self.beside[b] |= (mask | beside) & ~(1 << b)
            self.changed.append(b)
        for b in bits(beside & ~mask):
            self.beside[b] |= mask
        for s, _ in there:
            if not (firm | self.staying) >> s & 1:
                self.since[s] |= mask

    def return_home(self, storage: int, firm: int) -> None:
        """The storage comes back for good to where it was when the step began."""
        home = self.home[storage]
        mask = 1 << home
        there = [(s, b) for s, b in enumerate(self.block) if b >= 0]
        beside = sum(1 << b for s, b in there if (firm | self.staying) >> s & 1)
        if self.workspace >= 0:
            beside |= 1 << self.workspace
        self._join(home, beside)
        for s, _ in there:
            if not (firm | self.staying) >> s & 1:
                self.since[s] |= mask
        self.block[storage] = home
        self.staying |= 1 << storage

    def stay(self, storage: int) -> None:
        """The storage does not leave any more: its block is that in which it began."""
        block, home = self.block[storage], self.home[storage]
        old, new = 1 << block, 1 << home
        self._join(home, self.beside[block])
        for b in bits(self.beside[block]):
            self.beside[b] &= ~old
        self.beside[block] = 0
        self.together = [m & ~old | new if m & old else m for m in self.together]
        self.since = [m & ~old | new if m & old else m for m in self.since]
        self.block[storage] = home
        self.staying |= 1 << storage

    def settled(self) -> History | None:
        """The history with an assignment of addresses, None if there is none."""
        limit = self.owner.instance.limit_bytes
        for b in self.changed:
            if self.beside[b] >> b & 1:
                return None
            here, top = self.offsets[b], self.offsets[b] + self.sizes[b]
            if here >= 0 and all(
                self.offsets[o] < 0 or self.offsets[o] + self.sizes[o] <= here or top <= self.offsets[o]
                for o in bits(self.beside[b])
            ):
                continue
            placed = sum(1 << o for o in bits(self.beside[b]) if self.offsets[o] >= 0)
            spot = lowest_spot(self.sizes, self.offsets, b, placed)
            if spot + self.sizes[b] > limit:
                found = self.owner.offsets(self.names, self.sizes, self.beside, self.together)
                if found is None:
                    return None
                self.offsets = list(found)
                break
            self.offsets[b] = spot
        return self._value()

    def _add(self, name: int, size: int) -> int:
        self.names.append(name)
        self.sizes.append(size)
        self.beside.append(0)
        self.together.append(0)
        self.offsets.append(-1)
        return len(self.sizes) - 1

    def _join(self, block: int, others: int) -> None:
        self.beside[block] |= others
        for b in bits(others):
            self.beside[b] |= 1 << block
        self.changed.append(block)

    def _value(self) -> History:
        return History(
            tuple(self.names),
            tuple(self.sizes),
            tuple(self.beside),
            tuple(self.together),
            tuple(self.offsets),
            tuple(self.block),
            tuple(self.home),
            tuple(self.since),
            tuple(self.stays),
            self.workspace,
            self.staying,
        )
