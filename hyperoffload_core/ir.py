"""The computation graph that everything else works on: ops, storages and who accesses what.

Planning is per storage (one block of bytes), never per tensor name: views, reshapes and in-place results share one.
A `Graph` says nothing about time; durations belong to a hardware (`hyperoffload_core.cost`) and travel beside it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

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
    """

    id: int
    name: str
    bytes: int
    tensor_class: TensorClass
    persistent: bool = False
    shape: tuple[int, ...] = ()
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class Op:
    """One primitive call that does work on the device.

    ``reads`` and ``writes`` are storage ids without repetition; an in-place op has its storage in both.
    ``after`` holds every direct dependency (op ids): data, control, write-after-read and write-after-write.
    ``flops`` counts floating-point operations, 0 where unknown; ``workspace_bytes`` is live while the op runs.
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
        """Content hash (sha256, hex) of what a schedule depends on; names of graphs and notes do not count."""
        content = [
            [[o.name, o.primitive, o.scope, o.phase, o.reads, o.writes, o.after, o.workspace_bytes] for o in self.ops],
            [[s.name, s.bytes, s.tensor_class, s.persistent, s.shape, s.dtype] for s in self.storages],
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
    needed = dependencies([(o.reads, o.writes) for o in graph.ops])
    written: set[int] = set()
    for position, op in enumerate(graph.ops):
        if op.id != position:
            raise GraphError(f"op {op.name!r} has id {op.id} at position {position}")
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
