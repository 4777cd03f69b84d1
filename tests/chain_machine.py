"""Runs a chain as the graph and the copy threads would, one small event after the other in a random order.

The graph's thread takes the items one by one; the copy threads take moves in the order in which they were started, one
for each link and one for detaching. Whoever can go on may be next, so every timing can happen. A value is the number of
writes before it; whoever reads a wrong one, or meddles with memory that is being copied, is found out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from hyperoffload_core.mindspore_plugin.chain import Chain, Done, Move, Release, RunOp, Start
from hyperoffload_core.schedule import Schedule

LOST = -1


class Fault(AssertionError):  # noqa: N818
    """The chain computed something wrong, or never ended."""


@dataclass
class _Memory:
    """A tensor's memory, from when it is allocated to its last reader; LOST are contents that were never there."""

    value: int
    allocated: bool = False
    busy: str = ""  # what writes it now


@dataclass
class _Region:
    """A parameter's memory: on the device, or showing the pool's pages."""

    on_device: bool
    device: int
    pool: int
    moving: bool = False
    arriving: bool = False


@dataclass
class _Thread:
    queue: list[Move] = field(default_factory=list)
    copying: bool = False


class ChainMachine:
    """Memory over the steps of one chain. `peak_bytes` is the most that was on the device at once."""

    def __init__(self, schedule: Schedule, chain: Chain, tensors: Mapping[int, int], random: Random) -> None:
        self.schedule, self.chain, self.tensors, self.random = schedule, chain, tensors, random
        graph = schedule.graph
        self.moved = {m.storage for m in chain.moves}
        self.version = [0] * len(graph.storages)
        self.regions = {
            s: _Region(schedule.homes[s] == "device", 0, 0) for s in self.moved if graph.storages[s].persistent
        }
        # Parameters that a stay begins by overwriting, without bringing them, are written in the pool's own pages.
        fetched = {(t.storage, t.start_ns) for t in schedule.transfers if t.kind == "prefetch"}
        self.may_show_pool = {
            r.storage
            for r in schedule.residencies
            if (r.start_ns or schedule.homes[r.storage] == "pool") and (r.storage, r.start_ns) not in fetched
        }
        self.last_item = self._last_items()
        self.peak_bytes = 0
        # How eager each actor is: now and then copies are far behind, or far ahead.
        self.eagerness = {actor: random.choice([1, 1, 10, 100]) for actor in ("graph", "out", "in", "both")}

    def _last_items(self) -> dict[tuple[int, int], int]:
        """Where memory ``k`` of each moved tensor is used last, as MindSpore sees it: after that item it is freed."""
        last: dict[tuple[int, int], int] = {}
        shown: dict[int, int] = defaultdict(int)
        arriving: dict[int, int] = {}
        graph = self.schedule.graph
        for n, item in enumerate(self.chain.items):
            if isinstance(item, RunOp):
                for s in {*graph.ops[item.op].reads, *graph.ops[item.op].writes} & self.moved:
                    last[s, shown[s]] = n
            elif isinstance(item, Release):
                last[item.storage, shown[item.storage]] = n
            elif item.move.kind == "prefetch" and isinstance(item, Start):
                arriving[item.move.storage] = shown[item.move.storage] + 1
            elif item.move.kind == "prefetch":
                shown[item.move.storage] = arriving[item.move.storage]
                last[item.move.storage, shown[item.move.storage]] = n
            else:
                last[item.move.storage, shown[item.move.storage]] = n
        for s in self.moved & self.tensors.keys():
            if graph.lives_to_end(s):
                last[s, max(shown[s], arriving.get(s, 0))] = len(self.chain.items)
        return last

    def step(self) -> None:
        """One step. Raises `Fault`."""
        schedule, graph = self.schedule, self.schedule.graph
        self.expected: dict[int, dict[int, int]] = {}
        version = list(self.version)
        for op in graph.ops:
            self.expected[op.id] = {s: version[s] for s in {*op.reads, *op.writes}}
            for s in op.writes:
                version[s] += 1
        self.memories: dict[int, list[_Memory]] = {
            s: [_Memory(self.version[s])] for s in self.moved & self.tensors.keys()
        }
        self.shown = dict.fromkeys(self.memories, 0)
        self.pool: dict[int, int] = {}
        self.issued_from: dict[int, int] = {}
        self.threads: dict[str, _Thread] = defaultdict(_Thread)
        self.state: dict[int, Literal["issued", "ended"]] = {}
        self.running = -1
        self.done_ops: set[int] = set()
        place = 0
        while place < len(self.chain.items) or any(t.queue for t in self.threads.values()):
            able = [name for name, thread in self.threads.items() if thread.queue and self._can(thread)]
            if place < len(self.chain.items) and self._graph_can(place):
                able.append("graph")
            if not able:
                raise Fault(f"nothing can go on at item {place}: {self._waiting(place)}")
            # Giving memory back takes no time to speak of.
            actor = "detach" if "detach" in able else self._choose(able)
            if actor == "graph":
                place += self._graph(place)
            else:
                self._copy(self.threads[actor])
            self.peak_bytes = max(self.peak_bytes, self._live_bytes(place))
        if sorted(self.done_ops) != sorted(schedule.order):
            raise Fault("not every op ran once")
        self.version = version
        self._check_end()

    def _choose(self, able: list[str]) -> str:
        return self.random.choices(able, [self.eagerness[actor] for actor in able])[0]

    # The graph's thread.

    def _graph_can(self, place: int) -> bool:
        item = self.chain.items[place]
        if not isinstance(item, Done):
            return True
        if item.move.index not in self.state:
            raise Fault(f"{item.move} is waited for before it is started")
        return self.state[item.move.index] == "ended"

    def _graph(self, place: int) -> int:
        """Does what the item says; an op has a beginning and an end. Gives how many items are behind it then."""
        item = self.chain.items[place]
        match item:
            case RunOp(op) if self.running != op:
                if op in self.done_ops:
                    raise Fault(f"op {op} runs twice")
                if any(before not in self.done_ops for before in self.schedule.graph.ops[op].after):
                    raise Fault(f"op {op} runs before an op it comes after")
                self._op(op, "begins")
                self.running = op
                return 0
            case RunOp(op):
                self._op(op, "ends")
                self.running = -1
                self.done_ops.add(op)
            case Start(move):
                self._start(move)
            case Done(move):
                self._done(move)
            case Release(storage):
                self._lose(storage, self.shown[storage])
        return 1

    def _op(self, op: int, when: Literal["begins", "ends"]) -> None:
        what = self.schedule.graph.ops[op]
        for s in {*what.reads, *what.writes} & self.moved:
            expected = self.expected[op][s]
            name = f"op {op} ({what.name}) {when}: {self.schedule.graph.storages[s].name}"
            if s in self.regions:
                region = self.regions[s]
                if region.arriving or (region.moving and s in what.writes):
                    raise Fault(f"{name} is being copied")
                if not region.on_device and s not in self.may_show_pool:
                    raise Fault(f"{name} is not on the device")
                if s in what.reads and (region.device if region.on_device else region.pool) != expected:
                    raise Fault(f"{name} is not the newest value")
                if when == "ends" and s in what.writes:
                    region.device = expected + 1 if region.on_device else LOST
                    region.pool = region.pool if region.on_device else expected + 1
                continue
            memory = self.memories[s][self.shown[s]]
            if s in what.writes and memory.busy:
                raise Fault(f"{name} is being copied")
            if s in what.reads and memory.value != expected:
                raise Fault(f"{name} is not the newest value")
            if when == "ends" and s in what.writes:
                memory.value = expected + 1

    def _start(self, move: Move) -> None:
        if move.index in self.state:
            raise Fault(f"{move} starts twice")
        self.state[move.index] = "issued"
        if move.storage in self.memories:
            if move.kind == "prefetch":
                self.memories[move.storage].append(_Memory(LOST))
                self.issued_from[move.index] = len(self.memories[move.storage]) - 1
            else:
                self.issued_from[move.index] = self.shown[move.storage]
        link = "both" if self.schedule.hardware.duplex == "half" else "out" if move.kind == "store" else "in"
        self.threads["detach" if move.kind == "detach" else link].queue.append(move)

    def _done(self, move: Move) -> None:
        if move.storage not in self.memories:
            return
        if move.kind == "store":
            if self.issued_from[move.index] != self.shown[move.storage]:
                raise Fault(f"{move} is waited for with other memory than it was started with")
            self._lose(move.storage, self.shown[move.storage])
        else:
            self.shown[move.storage] = self.issued_from[move.index]

    def _lose(self, storage: int, memory: int) -> None:
        """The pages go; whoever reads them afterwards finds nothing."""
        if self.memories[storage][memory].busy:
            raise Fault(f"the pages of {self.schedule.graph.storages[storage].name} go while they are copied")
        self.memories[storage][memory].value = LOST

    # Copy threads.

    def _can(self, thread: _Thread) -> bool:
        return thread.copying or all(self.state.get(a) == "ended" for a in thread.queue[0].after)

    def _copy(self, thread: _Thread) -> None:
        """The first of the queue begins, or ends."""
        move = thread.queue[0]
        if move.storage in self.regions:
            self._copy_region(move, self.regions[move.storage], ends=thread.copying)
        else:
            self._copy_tensor(move, self.memories[move.storage][self.issued_from[move.index]], ends=thread.copying)
        thread.copying = not thread.copying
        if not thread.copying:
            thread.queue.pop(0)
            self.state[move.index] = "ended"

    def _copy_tensor(self, move: Move, memory: _Memory, *, ends: bool) -> None:
        name = self.schedule.graph.storages[move.storage].name
        if not ends:
            if memory.busy:
                raise Fault(f"{name} is copied in and out at once")
            source = memory.value if move.kind == "store" else self.pool.get(move.storage, LOST)
            if source == LOST:
                raise Fault(f"{move.kind} of {name} copies what is not there")
            memory.busy = move.kind
            return
        memory.busy = ""
        if move.kind == "store":
            self.pool[move.storage] = memory.value
        else:
            memory.value = self.pool[move.storage]

    def _copy_region(self, move: Move, region: _Region, *, ends: bool) -> None:
        name = self.schedule.graph.storages[move.storage].name
        if not ends:
            if region.moving:
                raise Fault(f"{move.kind} of {name} begins while it is copied")
            if self.running >= 0 and move.storage in self._touched(self.running, move.kind):
                raise Fault(f"{move.kind} of {name} begins while op {self.running} uses it")
            if move.kind == "prefetch" and region.on_device and move.storage not in self.may_show_pool:
                raise Fault(f"{name} is brought though it is on the device")
            region.moving, region.arriving = True, move.kind != "store"
            return
        region.moving = region.arriving = False
        if move.kind == "store" and region.on_device:
            region.pool = region.device
        elif move.kind == "detach" and region.on_device:
            if region.pool != region.device:
                raise Fault(f"{name} leaves the device without a valid copy in the pool")
            region.on_device, region.device = False, LOST
        elif move.kind == "prefetch" and not region.on_device:
            region.on_device, region.device = True, region.pool

    def _touched(self, op: int, kind: str) -> set[int]:
        """What of an op a move must not meet: a Store may read beside a reader."""
        what = self.schedule.graph.ops[op]
        return set(what.writes) if kind == "store" else {*what.reads, *what.writes}

    # Numbers and the end.

    def _live_bytes(self, place: int) -> int:
        """On the device now, of what moves: regions, and tensors up to their last reader."""
        sizes = self.schedule.graph.storages
        live = sum(sizes[s].bytes for s, r in self.regions.items() if r.on_device or r.arriving)
        for s, memories in self.memories.items():
            for k, memory in enumerate(memories):
                begun = k > 0 or memory.value != self.version[s] or memory.busy
                gone = memory.value == LOST and k <= self.shown[s]
                if begun and not gone and place <= self.last_item.get((s, k), len(self.chain.items)):
                    live += sizes[s].bytes
        return live

    def _check_end(self) -> None:
        graph = self.schedule.graph
        for s, region in self.regions.items():
            name = graph.storages[s].name
            if region.on_device != (self.schedule.homes[s] == "device"):
                raise Fault(f"{name} does not end the step at home")
            if (region.device if region.on_device else region.pool) != self.version[s]:
                raise Fault(f"{name} ends the step with an old value")
        for s, memories in self.memories.items():
            if graph.lives_to_end(s) and memories[-1].value != self.version[s]:
                raise Fault(f"the result {graph.storages[s].name} is not there when the step ends")

    def _waiting(self, place: int) -> str:
        heads = [f"{name}: {thread.queue[0]}" for name, thread in self.threads.items() if thread.queue]
        item = self.chain.items[place] if place < len(self.chain.items) else "the end"
        return f"{item}; {'; '.join(heads)}"
