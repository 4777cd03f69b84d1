"""Runs a schedule on simulated memory, byte by byte, and says where a value got lost. Knows nothing of the verifier.

Each byte of the arena and of the pool holds a tag: (storage, value number, byte). While an op or transfer runs, the
bytes it writes hold marks of its own; whoever meddles with them, or reads them, is found out. Two steps run one after
the other in the same memory, so that a step must leave things where the next one looks for them.

A recomputed op must find the tags its original found, and puts those its original wrote into its own storages; whoever
reads these must find the tag that the original storage has at that place of captured order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from hyperoffload_core.ir import storages_of
from hyperoffload_core.schedule import Schedule, Transfer
from hyperoffload_core.simulator import DeadlockError, event_times

Tag = tuple[int, int, int]
Value = tuple[int, int]  # storage, value number
EMPTY: Tag = (-1, -1, -1)


class Corruption(AssertionError):  # noqa: N818
    """Memory does not hold what it must."""


def run_bytes(schedule: Schedule, op_ns: Sequence[int], transfer_ns: Sequence[int], steps: int = 2) -> None:
    """Run with these durations (by op id, by position in ``transfers``). Raises `Corruption`."""
    machine = _Machine(schedule)
    for _ in range(steps):
        machine.step(op_ns, transfer_ns)


class _Machine:
    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        graph = schedule.graph
        sizes = [s.bytes for s in graph.storages]
        self.sizes = sizes
        self.arena = [EMPTY] * max((r.offset + sizes[r.storage] for r in schedule.residencies), default=0)
        self.pool = [[EMPTY] * size for size in sizes]
        self.marks = count()
        self.value = [0] * len(sizes)  # number of the newest value
        times = {t.op: (t.start_ns, t.end_ns) for t in schedule.op_times}
        self.op_place = {
            (op.id, storage): self._place(storage, *times[op.id]) for op in graph.ops for storage in storages_of(op)
        }
        self.transfer_place = [self._place(t.storage, t.start_ns, t.end_ns) for t in schedule.transfers]
        self.begun = False

    def _place(self, storage: int, start: int, end: int) -> int:
        """The address at which the plan has the storage from start to end, -1 for none."""
        rows = [r for r in self.schedule.residencies if r.storage == storage]
        fitting = [r.offset for r in rows if r.start_ns <= start and end <= r.end_ns]
        return fitting[0] if fitting else -1

    def _tags(self, storage: int, value: int) -> list[Tag]:
        return [(storage, value, byte) for byte in range(self.sizes[storage])]

    def _written(self, before: Value) -> list[Tag]:
        """What a write leaves where ``before`` was."""
        return self._tags(before[0], before[1] + 1)

    def _mark(self, length: int) -> list[Tag]:
        mark = next(self.marks)
        return [(-2, mark, byte) for byte in range(length)]

    def step(self, op_ns: Sequence[int], transfer_ns: Sequence[int]) -> None:
        schedule, graph = self.schedule, self.schedule.graph
        # Inputs last: one may take the bytes of a persistent value that the step overwrites unread.
        for storage in sorted(graph.storages, key=lambda s: s.tensor_class == "input"):
            if storage.tensor_class == "input" or (storage.persistent and not self.begun):
                self._hand_in(storage.id)
        self.begun = True
        # which value each op must see: as many as writes before it in captured order
        base, writes = list(self.value), [0] * len(self.sizes)
        expected: dict[tuple[int, int], Value] = {}  # by op and storage, before a write
        for op in graph.ops:
            first = op if op.recompute_of is None else graph.ops[op.recompute_of]
            for storage, of in [*zip(op.reads, first.reads, strict=True), *zip(op.writes, first.writes, strict=True)]:
                copied = graph.storages[of].recompute_of
                if op is not first:
                    expected[op.id, storage] = expected[first.id, of]
                elif copied is not None:
                    expected[op.id, storage] = (copied, base[copied] + writes[copied])
                else:
                    expected[op.id, storage] = (storage, base[storage] + writes[storage])
            for storage in op.writes if op is first else ():
                writes[storage] += 1
        self.value = [b + w for b, w in zip(base, writes, strict=True)]

        position = {t.id: p for p, t in enumerate(schedule.transfers)}
        waits: list[list[int]] = [[] for _ in graph.ops]
        for time in schedule.op_times:
            waits[time.op] = [position[t] for t in time.waits]
        try:
            times = event_times(
                schedule.order,
                waits,
                [[position[t.id] for t in link] for link in schedule.link_transfers()],
                [t.after_ops for t in schedule.transfers],
                [[position[o] for o in t.after_transfers] for t in schedule.transfers],
                op_ns,
                transfer_ns,
            )
        except DeadlockError as error:
            raise Corruption(str(error)) from error
        # at one time what ends ends before anything starts; nothing here has no duration
        events: list[tuple[int, int, str, int]] = []
        for op in schedule.order:
            events += [(int(times.op_start[op]), 1, "op", op), (int(times.op_end[op]), 0, "op", op)]
        for p in range(len(schedule.transfers)):
            events += [(int(times.transfer_start[p]), 1, "move", p), (int(times.transfer_end[p]), 0, "move", p)]
        events.sort()
        self.running: dict[tuple[str, int], list[Tag]] = {}
        for _, starts, kind, number in events:
            if kind == "op":
                (self._op_starts if starts else self._op_ends)(number, expected)
            elif starts:
                self._move_starts(number, schedule.transfers[number])
            else:
                self._move_ends(number, schedule.transfers[number])
        self._check_homes()

    def _hand_in(self, storage: int) -> None:
        tags = self._tags(storage, self.value[storage])
        if self.schedule.homes[storage] == "pool":
            self.pool[storage] = tags
            return
        rows = [r for r in self.schedule.residencies if r.storage == storage and r.start_ns == 0]
        if rows:
            self.arena[rows[0].offset : rows[0].offset + len(tags)] = tags

    def _check_homes(self) -> None:
        for storage in self.schedule.graph.storages:
            if not self.schedule.graph.lives_to_end(storage.id):
                continue
            tags = self._tags(storage.id, self.value[storage.id])
            if self.schedule.homes[storage.id] == "pool":
                found = self.pool[storage.id]
            else:
                rows = sorted((r.start_ns, r.offset) for r in self.schedule.residencies if r.storage == storage.id)
                found = self.arena[rows[-1][1] : rows[-1][1] + storage.bytes] if rows else []
            if found != tags:
                raise Corruption(f"{storage.name} does not end the step at home")

    def _op_starts(self, op: int, expected: dict[tuple[int, int], Value]) -> None:
        graph = self.schedule.graph
        self._check_reads(op, graph.ops[op].reads, expected)
        for storage in graph.ops[op].writes:
            place, size = self.op_place[op, storage], self.sizes[storage]
            if place < 0:
                raise Corruption(f"op {op} writes {graph.storages[storage].name}, which has no place")
            self.arena[place : place + size] = self.running[f"op {op}", storage] = self._mark(size)

    def _op_ends(self, op: int, expected: dict[tuple[int, int], Value]) -> None:
        graph = self.schedule.graph
        self._check_reads(op, [s for s in graph.ops[op].reads if s not in graph.ops[op].writes], expected)
        for storage in graph.ops[op].writes:
            place, size = self.op_place[op, storage], self.sizes[storage]
            if self.arena[place : place + size] != self.running.pop((f"op {op}", storage)):
                raise Corruption(f"{graph.storages[storage].name} was overwritten while op {op} wrote it")
            self.arena[place : place + size] = self._written(expected[op, storage])

    def _check_reads(self, op: int, storages: Sequence[int], expected: dict[tuple[int, int], Value]) -> None:
        for storage in storages:
            place, size = self.op_place[op, storage], self.sizes[storage]
            if place < 0 or self.arena[place : place + size] != self._tags(*expected[op, storage]):
                raise Corruption(f"op {op} does not find {self.schedule.graph.storages[storage].name}")

    def _source(self, number: int, t: Transfer) -> list[Tag]:
        part = slice(t.offset_bytes, t.offset_bytes + t.bytes)
        if t.kind == "prefetch":
            return self.pool[t.storage][part]
        place = self.transfer_place[number]
        return self.arena[place : place + self.sizes[t.storage]][part]

    def _target(self, number: int, t: Transfer) -> tuple[list[Tag], slice]:
        low = t.offset_bytes + (0 if t.kind == "store" else self.transfer_place[number])
        return (self.pool[t.storage] if t.kind == "store" else self.arena), slice(low, low + t.bytes)

    def _move_starts(self, number: int, t: Transfer) -> None:
        if self.transfer_place[number] < 0:
            raise Corruption(f"transfer {t.id} has no place on the device")
        self.running["source", number] = self._source(number, t)
        memory, part = self._target(number, t)
        memory[part] = self.running["move", number] = self._mark(t.bytes)

    def _move_ends(self, number: int, t: Transfer) -> None:
        memory, part = self._target(number, t)
        if memory[part] != self.running.pop(("move", number)):
            raise Corruption(f"what transfer {t.id} brings was overwritten meanwhile")
        source = self.running.pop(("source", number))
        # a source that changed meanwhile gives neither the old nor the new value
        memory[part] = source if self._source(number, t) == source else self._mark(t.bytes)
