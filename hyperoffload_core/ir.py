"""The computation graph that everything else works on: ops, storages and who accesses what.

Planning is per storage (one block of bytes), never per tensor name: views, reshapes and in-place results share one.
A `Graph` says nothing about time; durations belong to a hardware (`hyperoffload_core.cost`) and travel beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.errors import UserError

TensorClass = Literal[
    "weight", "optimizer_state", "gradient", "activation", "kv_cache", "input", "output", "constant", "workspace"
]
Phase = Literal["forward", "backward", "optimizer", "prefill", "decode"]

TENSOR_CLASSES: tuple[TensorClass, ...] = (
    "weight",
    "optimizer_state",
    "gradient",
    "activation",
    "kv_cache",
    "input",
    "output",
    "constant",
    "workspace",
)
PHASES: tuple[Phase, ...] = ("forward", "backward", "optimizer", "prefill", "decode")


class GraphError(UserError):
    """A graph that breaks its own rules; the message names the op or storage."""


@dataclass(frozen=True, slots=True)
class Storage:
    """One block of bytes.

    ``persistent`` storages hold a value from step to step (weights, optimizer states, constants, KV caches);
    the others come into being in the step, or are handed in (class ``input``), and end with it.
    ``recompute_of`` is the storage whose value this one holds a second time, written by a recomputed op.
    """

    id: int
    name: str
    bytes: int
    tensor_class: TensorClass
    persistent: bool = False
    shape: tuple[int, ...] = ()
    dtype: str = ""
    recompute_of: int | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """One primitive call that does work on the device.

    ``reads`` and ``writes`` are storage ids without repetition; an in-place op has its storage in both.
    ``after`` holds every direct dependency (op ids): data, control, write-after-read and write-after-write.
    ``flops`` counts floating-point operations, 0 where unknown; ``workspace_bytes`` is live while the op runs.
    ``stateful``: running it again gives something else (random numbers, input and output, other hidden state).
    ``recompute_of`` is the op that this one runs a second time, from the same values into storages of its own.
    """

    id: int
    name: str
    primitive: str
    scope: str
    phase: Phase
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    after: tuple[int, ...]
    workspace_bytes: int = 0
    flops: int = 0
    stateful: bool = False
    recompute_of: int | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """An op reading or writing a storage."""

    op: int
    storage: int
    reads: bool
    writes: bool


@dataclass(frozen=True)
class Graph:
    """Ops in captured order (``ops[i].id == i``, a topological order) and storages (``storages[i].id == i``)."""

    name: str
    ops: tuple[Op, ...]
    storages: tuple[Storage, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def hash(self) -> str:
        """Content hash (sha256, hex) of what a schedule depends on; names of graphs and notes do not count.

        What few graphs have (stateful ops, recomputed ops and storages) counts only where it is.
        """
        content = [
            [
                [o.name, o.primitive, o.scope, o.phase, o.reads, o.writes, o.after, o.workspace_bytes]
                + (["stateful"] if o.stateful else [])
                + ([o.recompute_of] if o.recompute_of is not None else [])
                for o in self.ops
            ],
            [
                [s.name, s.bytes, s.tensor_class, s.persistent, s.shape, s.dtype]
                + ([s.recompute_of] if s.recompute_of is not None else [])
                for s in self.storages
            ],
        ]
        return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()

    @cached_property
    def accesses(self) -> tuple[tuple[Access, ...], ...]:
        """Accesses of each storage in captured order, indexed by storage id."""
        result: list[list[Access]] = [[] for _ in self.storages]
        for op in self.ops:
            reads, writes = set(op.reads), set(op.writes)
            for storage in sorted(reads | writes):
                result[storage].append(Access(op.id, storage, storage in reads, storage in writes))
        return tuple(tuple(a) for a in result)

    @cached_property
    def access_columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Every access as a row of three columns (op, storage, whether it writes), ops in captured order."""
        ops, storages, writes = [], [], []
        for op in self.ops:
            for storage in dict.fromkeys(op.reads + op.writes):
                ops.append(op.id)
                storages.append(storage)
                writes.append(storage in op.writes)
        return np.array(ops, np.int64), np.array(storages, np.int64), np.array(writes, np.bool_)

    @cached_property
    def followers(self) -> tuple[tuple[int, ...], ...]:
        """For each op the ops that name it in their ``after``, ascending."""
        result: list[list[int]] = [[] for _ in self.ops]
        for op in self.ops:
            for before in op.after:
                result[before].append(op.id)
        return tuple(tuple(f) for f in result)

    @cached_property
    def origins(self) -> tuple[int, ...]:
        """For each op the id, in the graph without recomputed ops (`original`), of the op whose work it does.

        Raises `GraphError` where ``recompute_of`` names no original op.
        """
        return _places_of_originals([op.recompute_of for op in self.ops], "op")

    @cached_property
    def original(self) -> Graph:
        """The graph without recomputed ops and storages: itself where it has none, else equal to what they were added
        to (`passes.recomputation`)."""
        if all(op.recompute_of is None for op in self.ops):
            return self
        held, origins = _places_of_originals([s.recompute_of for s in self.storages], "storage"), self.origins
        ops = tuple(
            replace(
                op,
                id=origins[op.id],
                reads=tuple(held[s] for s in op.reads),
                writes=tuple(held[s] for s in op.writes),
                after=tuple(origins[a] for a in op.after if self.ops[a].recompute_of is None),
            )
            for op in self.ops
            if op.recompute_of is None
        )
        storages = tuple(replace(s, id=held[s.id]) for s in self.storages if s.recompute_of is None)
        return Graph(self.name, ops, storages, self.notes)

    @property
    def persistent_bytes(self) -> int:
        return sum(s.bytes for s in self.storages if s.persistent)

    def exists_at_start(self, storage: int) -> bool:
        """Whether the storage has a value before the first op: persistent, or handed in."""
        s = self.storages[storage]
        return s.persistent or s.tensor_class == "input"

    def lives_to_end(self, storage: int) -> bool:
        """Whether the storage must still have its value when the step ends: persistent, or a graph output."""
        s = self.storages[storage]
        return s.persistent or s.tensor_class == "output"


def _places_of_originals(recompute_of: Sequence[int | None], what: str) -> tuple[int, ...]:
    """The place, among those that recompute nothing, of each entry or of the one it recomputes."""
    place: dict[int, int] = {}
    for number, of in enumerate(recompute_of):
        if of is None:
            place[number] = len(place)
    for number, of in enumerate(recompute_of):
        if of is not None and of not in place:
            raise GraphError(f"{what} {number} recomputes {what} {of}, which is no original {what} of the graph")
    return tuple(place[number if of is None else of] for number, of in enumerate(recompute_of))


Answer = TypeVar("Answer")


def kept_with_graph(function: Callable[[Graph], Answer]) -> Callable[[Graph], Answer]:
    """A function of a graph alone whose answer the graph keeps, as it keeps its cached properties: whoever plans one
    graph again and again pays once. Nobody may change the answer."""
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def kept(graph: Graph) -> Answer:
        known = graph.__dict__
        if key not in known:
            known[key] = function(graph)
        answer: Answer = known[key]
        return answer

    return kept


def storages_of(op: Op) -> Iterator[int]:
    """Each storage the op touches, once."""
    yield from op.reads
    reads = set(op.reads)
    for storage in op.writes:
        if storage not in reads:
            yield storage


def dependencies(accesses: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[tuple[int, ...]]:
    """Direct dependencies of each op from ``(reads, writes)`` in captured order.

    A reader depends on the latest earlier writer; a writer on the latest earlier writer and on every reader since.
    """
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    result: list[tuple[int, ...]] = []
    for op, (reads, writes) in enumerate(accesses):
        after: set[int] = set()
        for storage in reads:
            if storage in writer:
                after.add(writer[storage])
        for storage in writes:
            if storage in writer:
                after.add(writer[storage])
            after.update(readers.get(storage, ()))
        for storage in writes:
            writer[storage] = op
            readers[storage] = []
        for storage in reads:
            if storage not in writes:
                readers.setdefault(storage, []).append(op)
        after.discard(op)
        result.append(tuple(sorted(after)))
    return result


def check_graph(graph: Graph) -> None:
    """Raise `GraphError` naming the first fault: ids, sizes, dependencies that miss an access or point forward."""
    for position, storage in enumerate(graph.storages):
        if storage.id != position:
            raise GraphError(f"storage {storage.name!r} has id {storage.id} at position {position}")
        if storage.bytes <= 0:
            raise GraphError(f"storage {storage.name!r} has {storage.bytes} bytes; a storage holds at least one byte")
        of = storage.recompute_of
        if of is not None and not (0 <= of < len(graph.storages) and graph.storages[of].recompute_of is None):
            raise GraphError(f"storage {storage.name!r} recomputes storage {of}, which is none of the original ones")
    needed = dependencies([(o.reads, o.writes) for o in graph.ops])
    written: set[int] = set()
    for position, op in enumerate(graph.ops):
        if op.id != position:
            raise GraphError(f"op {op.name!r} has id {op.id} at position {position}")
        if op.recompute_of is not None and not (
            0 <= op.recompute_of < op.id and graph.ops[op.recompute_of].recompute_of is None
        ):
            raise GraphError(f"op {op.name!r} runs op {op.recompute_of} again, which is no original op before it")
        for storage_id in (*op.reads, *op.writes):
            if not 0 <= storage_id < len(graph.storages):
                raise GraphError(f"op {op.name!r} accesses storage {storage_id}, which the graph does not have")
        if any(a >= op.id or a < 0 for a in op.after):
            raise GraphError(f"op {op.name!r} (id {op.id}) depends on {op.after}; captured order must be topological")
        missing = set(needed[position]) - set(op.after)
        if missing:
            raise GraphError(f"op {op.name!r} lacks the dependency on op {graph.ops[min(missing)].name!r}")
        for storage_id in op.reads:
            if storage_id not in written and not graph.exists_at_start(storage_id):
                name = graph.storages[storage_id].name
                raise GraphError(f"op {op.name!r} reads storage {name!r}, which nothing has written")
        written.update(op.writes)
