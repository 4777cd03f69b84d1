"""A schedule as one graph: its ops, and the cache operators that were inserted, with what waits for what.

A node is ``("op", op id)``, ``("transfer", id of the first transfer of a move)`` (all parts of a move are one node), or
``("detach", number)``. Ids of ops are the schedule's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Literal

from hyperoffload_core.schedule import Residency, Schedule, Transfer

NodeKind = Literal["op", "transfer", "detach"]
Node = tuple[NodeKind, int]
Stage = Literal["captured", "scheduled"]
EdgeKind = Literal["data", "control", "wait"]


@dataclass(frozen=True, slots=True)
class Detach:
    """A device copy that is dropped without a transfer, its remote copy being valid. ``after`` is the last op that uses
    it, else the move that brought it; ``before`` the move that brings it back, None where the step ends without."""

    storage: int
    time_ns: int
    after: Node | None
    before: Node | None


@dataclass(frozen=True)
class Links:
    """Neighbours of every node, in the captured graph (without recomputed ops) and in the scheduled one."""

    schedule: Schedule

    @cached_property
    def moves(self) -> dict[int, tuple[Transfer, ...]]:
        """Whole moves by the id of their first transfer."""
        return {move[0].id: move for move in self.schedule.moves}

    @cached_property
    def move_of(self) -> dict[int, int]:
        """The move that each transfer belongs to."""
        return {part.id: move[0].id for move in self.schedule.moves for part in move}

    @cached_property
    def moves_of(self) -> dict[int, list[int]]:
        """Moves of each storage, in order of start."""
        found: dict[int, list[int]] = defaultdict(list)
        for first, move in self.moves.items():
            found[move[0].storage].append(first)
        return dict(found)

    @cached_property
    def position(self) -> dict[int, int]:
        """Place of each op in the refined order."""
        return {op: place for place, op in enumerate(self.schedule.order)}

    @cached_property
    def detaches(self) -> tuple[Detach, ...]:
        schedule = self.schedule
        stays: dict[int, list[Residency]] = defaultdict(list)
        for stay in schedule.residencies:
            if stay.storage in self.moves_of:
                stays[stay.storage].append(stay)
        op_end = {t.op: t.end_ns for t in schedule.op_times}
        found: list[Detach] = []
        for storage, rows in stays.items():
            ops = [a.op for a in schedule.graph.accesses[storage]]
            ends = sorted((op_end[op], op) for op in ops if op in op_end)
            rows.sort(key=lambda r: r.start_ns)
            for stay, later in zip_longest(rows, rows[1:]):
                if (detach := self._detach(stay, later, ends)) is not None:
                    found.append(detach)
        return tuple(sorted(found, key=lambda d: (d.time_ns, d.storage)))

    def _detach(self, stay: Residency, later: Residency | None, ends: list[tuple[int, int]]) -> Detach | None:
        def within(kind: str, rest: Residency) -> list[int]:
            span = range(rest.start_ns, rest.end_ns + 1)
            moves = ((first, self.moves[first]) for first in self.moves_of[rest.storage])
            return [first for first, move in moves if move[0].kind == kind and move[0].start_ns in span]

        back = within("prefetch", later) if later is not None else []
        home = self.schedule.homes[stay.storage] == "pool" and self.schedule.graph.lives_to_end(stay.storage)
        if within("store", stay) or not (back or (later is None and home)):
            return None
        used = [op for end, op in ends if stay.start_ns < end <= stay.end_ns]
        brought = within("prefetch", stay)
        after: Node | None = ("op", used[-1]) if used else ("transfer", brought[0]) if brought else None
        return Detach(stay.storage, stay.end_ns, after, ("transfer", back[0]) if back else None)

    def nodes_of_storage(self, storage: int, stage: Stage) -> list[Node]:
        """The ops that access a storage and, once scheduled, the cache operators on it."""
        graph = self.schedule.graph
        found: list[Node] = [("op", a.op) for a in graph.accesses[storage] if self.has(("op", a.op), stage)]
        if stage == "scheduled":
            found += [("transfer", first) for first in self.moves_of.get(storage, ())]
            found += [("detach", number) for number, d in enumerate(self.detaches) if d.storage == storage]
        return found

    def has(self, node: Node, stage: Stage) -> bool:
        if stage == "scheduled":
            return True
        return node[0] == "op" and self.schedule.graph.ops[node[1]].recompute_of is None

    def before(self, node: Node, stage: Stage) -> Iterator[Node]:
        """What a node waits for."""
        kind, identity = node
        if kind == "op":
            for op in self.schedule.graph.ops[identity].after:
                if self.has(("op", op), stage):
                    yield "op", op
            if stage == "scheduled":
                yield from (("transfer", first) for first in self._waits.get(identity, ()))
        elif kind == "transfer":
            yield from self._before_move[identity]
        elif (after := self.detaches[identity].after) is not None:
            yield after

    def after(self, node: Node, stage: Stage) -> Iterator[Node]:
        """What waits for a node."""
        if node[0] == "op":
            for op in self.schedule.graph.followers[node[1]]:
                if self.has(("op", op), stage):
                    yield "op", op
        if stage == "scheduled":
            yield from self._after.get(node, ())

    def edge_kind(self, before: Node, after: Node) -> EdgeKind:
        """Data: an op reads what the other has written; control: it only must not come earlier; wait: for or of a
        transfer."""
        if before[0] != "op" or after[0] != "op":
            return "wait"
        first, second = self.schedule.graph.ops[before[1]], self.schedule.graph.ops[after[1]]
        return "control" if set(first.writes).isdisjoint(second.reads) else "data"

    def storage_of(self, node: Node) -> int | None:
        """What a cache operator moves or drops."""
        if node[0] == "transfer":
            return self.moves[node[1]][0].storage
        return self.detaches[node[1]].storage if node[0] == "detach" else None

    @cached_property
    def _waits(self) -> dict[int, tuple[int, ...]]:
        return {
            t.op: tuple(dict.fromkeys(self.move_of[w] for w in t.waits if w in self.move_of))
            for t in self.schedule.op_times
            if t.waits
        }

    @cached_property
    def _before_move(self) -> dict[int, tuple[Node, ...]]:
        found: dict[int, tuple[Node, ...]] = {}
        for first, move in self.moves.items():
            ops: list[Node] = [("op", op) for part in move for op in part.after_ops]
            others = (self.move_of[t] for part in move for t in part.after_transfers if t in self.move_of)
            nodes: list[Node] = [*ops, *(("transfer", other) for other in others if other != first)]
            found[first] = tuple(dict.fromkeys(nodes))
        return found

    @cached_property
    def _after(self) -> dict[Node, tuple[Node, ...]]:
        """What waits for a node, where a cache operator is at one of both ends."""
        found: dict[Node, dict[Node, None]] = defaultdict(dict)
        for op, moves in self._waits.items():
            for first in moves:
                found["transfer", first]["op", op] = None
        for first, nodes in self._before_move.items():
            for node in nodes:
                found[node]["transfer", first] = None
        for number, detach in enumerate(self.detaches):
            if detach.after is not None:
                found[detach.after]["detach", number] = None
            if detach.before is not None:
                found["detach", number][detach.before] = None
        return {node: tuple(nodes) for node, nodes in found.items()}
