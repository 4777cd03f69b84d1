"""The shortest step of a tiny graph by trying everything: what the exact optimum is held against.

Shares nothing with `hyperoffload_core.exact` but the graph: no bounds, no masks, no dominance, no analysis of what is
still needed. Copies are either the newest value or worthless; anything on the device may be dropped at any moment, any
legal op or transfer may start at any moment at which something ends. Uniform-cost search over time visits every
reachable state. With ``unit_bytes`` every storage and workspace also takes an address, any multiple of the unit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph

ANYWHERE = 0
"""The offset of everything where addresses do not matter."""


@dataclass(frozen=True)
class _State:
    """``on_device[s]`` is an offset or None; ``fresh`` and ``stored``: storages whose device copy, remote copy is the
    newest value. ``running`` (op, ns left, offset of its workspace), ``out`` and ``into`` (storage, ns left)."""

    done: frozenset[int]
    running: tuple[int, int, int] | None
    out: tuple[int, int] | None
    into: tuple[int, int] | None
    on_device: tuple[int | None, ...]
    fresh: frozenset[int]
    stored: frozenset[int]
    homes: tuple[int | None, ...]
    """Per persistent storage the offset at which it starts and ends the step; None: in the pool."""


@dataclass(frozen=True)
class Exhaustive:
    graph: Graph
    durations_ns: tuple[int, ...]
    hardware: Hardware
    limit_bytes: int
    unit_bytes: int = 0

    def shortest_ns(self) -> int | None:
        """None if no step meets the limit."""
        queue: list[tuple[int, int, _State]] = []
        seen: set[_State] = set()
        pushed = 0
        for state in self._starts():
            heapq.heappush(queue, (0, pushed, state))
            pushed += 1
        while queue:
            now, _, state = heapq.heappop(queue)
            if state in seen:
                continue
            seen.add(state)
            if self._is_end(state):
                return now
            following = [(now, after) for after in self._actions(state)]
            moments = [running[1] for running in (state.running, state.out, state.into) if running is not None]
            if moments:
                following.append((now + min(moments), self._pass_time(state, min(moments))))
            for then, after in following:
                if after not in seen:
                    heapq.heappush(queue, (then, pushed, after))
                    pushed += 1
        return None

    def _starts(self) -> Iterator[_State]:
        graph = self.graph
        given = [s.id for s in graph.storages if graph.exists_at_start(s.id)]
        for places in product(*([None, *self._offsets(graph.storages[s].bytes)] for s in given)):
            on_device: list[int | None] = [None] * len(graph.storages)
            for s, offset in zip(given, places, strict=True):
                on_device[s] = offset
            there = frozenset(s for s in given if on_device[s] is not None)
            homes = tuple(on_device[s.id] if s.persistent else None for s in graph.storages)
            state = _State(frozenset(), None, None, None, tuple(on_device), there, frozenset(given) - there, homes)
            if self._fits(state):
                yield state

    def _offsets(self, size: int) -> list[int]:
        return list(range(0, self.limit_bytes - size + 1, self.unit_bytes)) if self.unit_bytes else [ANYWHERE]

    def _fits(self, state: _State) -> bool:
        blocks = [
            (offset, self.graph.storages[s].bytes) for s, offset in enumerate(state.on_device) if offset is not None
        ]
        if state.running is not None:
            blocks.append((state.running[2], self.graph.ops[state.running[0]].workspace_bytes))
        if not self.unit_bytes:
            return sum(size for _, size in blocks) <= self.limit_bytes
        blocks = sorted(b for b in blocks if b[1])
        return all(low + size <= high for (low, size), (high, _) in pairwise(blocks))

    def _is_end(self, state: _State) -> bool:
        if len(state.done) < len(self.graph.ops) or state.out or state.into:
            return False
        for s in self.graph.storages:
            if s.persistent and state.homes[s.id] is None:
                if s.id not in state.stored:
                    return False
            elif self.graph.lives_to_end(s.id) and s.id not in state.fresh:
                return False
            if s.persistent and state.on_device[s.id] != state.homes[s.id] and state.homes[s.id] is not None:
                return False
        return True

    def _actions(self, state: _State) -> Iterator[_State]:
        ops = self.graph.ops
        running = state.running[0] if state.running else None
        used = set(ops[running].reads) | set(ops[running].writes) if running is not None else set()
        written = set(ops[running].writes) if running is not None else set()
        moving = {move[0] for move in (state.out, state.into) if move is not None}
        half_busy = self.hardware.duplex == "half" and bool(moving)
        for s, offset in enumerate(state.on_device):
            if offset is not None and s not in used and s not in moving:
                yield replace(state, on_device=_put(state.on_device, s, None), fresh=state.fresh - {s})
        for s, storage in enumerate(self.graph.storages):
            there = state.on_device[s] is not None
            if there and s in state.fresh and s not in state.stored and s not in written and s not in moving:
                if state.out is None and not half_busy:
                    yield replace(state, out=(s, transfer_ns(storage.bytes, self.hardware.link_out)))
            elif not there and s in state.stored and state.into is None and not half_busy and s not in moving:
                into = (s, transfer_ns(storage.bytes, self.hardware.link_in))
                for offset in self._offsets(storage.bytes):
                    after = replace(state, into=into, on_device=_put(state.on_device, s, offset))
                    if self._fits(after):
                        yield after
        if running is not None:
            return
        for op in ops:
            ready = op.id not in state.done and state.done.issuperset(op.after) and state.fresh.issuperset(op.reads)
            if not ready or (state.out is not None and state.out[0] in op.writes):
                continue
            made = [s for s in op.writes if state.on_device[s] is None]
            spaces = [self._offsets(self.graph.storages[s].bytes) for s in made]
            for *places, workspace in product(
                *spaces, self._offsets(op.workspace_bytes) if op.workspace_bytes else [0]
            ):
                on_device = state.on_device
                for s, offset in zip(made, places, strict=True):
                    on_device = _put(on_device, s, offset)
                after = replace(
                    state,
                    running=(op.id, self.durations_ns[op.id], workspace),
                    on_device=on_device,
                    fresh=state.fresh | set(op.writes),
                    stored=state.stored - set(op.writes),
                )
                if self._fits(after):
                    yield after

    def _pass_time(self, state: _State, ns: int) -> _State:
        done, fresh, stored = state.done, state.fresh, state.stored
        running, out, into = state.running, state.out, state.into
        if running is not None:
            running = (running[0], running[1] - ns, running[2])
            if running[1] == 0:
                done, running = done | {running[0]}, None
        if out is not None:
            out = (out[0], out[1] - ns)
            if out[1] == 0:
                stored, out = stored | {out[0]}, None
        if into is not None:
            into = (into[0], into[1] - ns)
            if into[1] == 0:
                fresh, into = fresh | {into[0]}, None
        return replace(state, done=done, running=running, out=out, into=into, fresh=fresh, stored=stored)


def _put(values: tuple[int | None, ...], index: int, value: int | None) -> tuple[int | None, ...]:
    return (*values[:index], value, *values[index + 1 :])
